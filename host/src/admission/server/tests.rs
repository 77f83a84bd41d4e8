use serde_json::json;

use super::request;
use crate::admission::submit::Submission;

#[test]
fn every_request_is_a_dry_run() {
    let send = |namespace: &str, user: Option<&str>| {
        request(&Submission {
            namespace: namespace.to_owned(),
            name: "Pod shop/a".to_owned(),
            user: user.map(str::to_owned),
            pod: json!({}),
        })
    };
    let sent = send(
        "shop",
        Some("system:serviceaccount:kube-system:job-controller"),
    )
    .unwrap();
    let path = "/api/v1/namespaces/shop/pods?dryRun=All&fieldValidation=Ignore";
    assert_eq!(sent.uri(), path);
    let user = &sent.headers()["Impersonate-User"];
    assert_eq!(user, "system:serviceaccount:kube-system:job-controller");
    assert!(
        !send("shop", None)
            .unwrap()
            .headers()
            .contains_key("Impersonate-User")
    );
    // A recording may come from anybody.
    for namespace in ["shop/pods?a=", "shop/pods#", "..", "", "shop/configmaps?x"] {
        let error = send(namespace, None).unwrap_err();
        assert!(
            error.ends_with("cannot be the name of a namespace"),
            "{error}"
        );
    }
    assert!(send("shop", Some("a\nb: c")).is_err());
}
