//! The rights in `deploy/` are enough for the admission webhooks.

use podloom_tests::webhook::{Route, Webhook};
use podloom_tests::{AuditedRequest, Cluster, blackbox_on, eventually, standard};

#[test]
fn what_deploy_grants_is_enough_for_the_webhooks() {
    blackbox_on(Cluster::without_operator, "webhook-rights", async |scene| {
        let webhook = Webhook::installed(&scene, Route::Service);
        // By default the certificate is for the Service of the same name.
        let operator = webhook
            .operator(&standard(), &["--certificate-lifetime", "9s"])
            .await;
        let renewed = || operator.logged(&["serves another certificate"]).len() > 1;
        eventually("the certificate was renewed", async || {
            renewed()
                .then_some(())
                .ok_or_else(|| operator.tail("certificate"))
        })
        .await;
        let image = "--image=registry.k8s.io/pause:3.10";
        scene
            .cluster
            .kubectl(&["run", "a", "--namespace", &scene.namespace, image]);
        let requests = scene.cluster.requests_of(&webhook.user);
        for (verb, resource) in [
            ("create", "secrets"),
            ("update", "secrets"),
            ("patch", "mutatingwebhookconfigurations"),
            ("get", "validatingwebhookconfigurations"),
            ("update", "leases"),
            ("list", "namespaces"),
            ("list", "browserconfigs"),
        ] {
            let is_such =
                |request: &&AuditedRequest| request.verb == verb && request.resource == resource;
            assert!(
                requests.iter().any(|request| is_such(&request)),
                "{verb} {resource}: {requests:#?}"
            );
        }
        let refused: Vec<_> = requests
            .iter()
            .filter(|request| request.status == 403)
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
        let lines = operator.logged(&["may not"]);
        assert!(lines.is_empty(), "{lines:#?}");
    });
}
