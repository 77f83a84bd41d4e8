use serde_json::{Value, json};

use super::{KUBECONFIG_BYTES_MAX, Kubeconfig, KubeconfigProblem};

mod probe;

fn kubeconfig() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "c", "cluster": { "server": "https://192.0.2.1:6443" } }],
        "users": [{ "name": "u", "user": { "token": "s3cr3t-token" } }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    })
}

fn problem(change: impl FnOnce(&mut Value)) -> KubeconfigProblem {
    let mut kubeconfig = kubeconfig();
    change(&mut kubeconfig);
    Kubeconfig::of_output(Some(&kubeconfig)).unwrap_err()
}

#[test]
fn a_text_is_kept_byte_for_byte_and_an_object_as_json() {
    let text = format!("# mine\n{}\n", kubeconfig());
    let read = Kubeconfig::of_output(Some(&Value::from(text.clone()))).unwrap();
    assert_eq!(read.reveal(), text);
    let read = Kubeconfig::of_output(Some(&kubeconfig())).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(read.reveal()).unwrap(),
        kubeconfig()
    );
    assert!(!format!("{read:?}").contains("s3cr3t"));
}

#[test]
fn what_is_not_there_yet_is_missing() {
    for output in [
        None,
        Some(json!(null)),
        Some(json!("")),
        Some(json!(" \n")),
        Some(json!({})),
    ] {
        let read = Kubeconfig::of_output(output.as_ref());
        assert_eq!(read, Err(KubeconfigProblem::Missing), "{output:?}");
    }
}

#[test]
fn what_names_a_file_or_a_program_is_unsafe() {
    for (field, value) in [
        ("exec", json!({ "command": "curl" })),
        ("auth-provider", json!({ "name": "gcp" })),
        ("tokenFile", json!("/etc/passwd")),
        ("client-certificate", json!("/x")),
        ("client-key", json!("/x")),
    ] {
        let found = problem(|it| it["users"][0]["user"][field] = value);
        assert!(
            matches!(found, KubeconfigProblem::Unsafe(_)),
            "{field}: {found}"
        );
    }
    let found = problem(|it| it["clusters"][0]["cluster"]["certificate-authority"] = json!("/x"));
    assert!(matches!(found, KubeconfigProblem::Unsafe(_)), "{found}");
}

/// A field that a later version of Kubernetes adds may name a program too.
#[test]
fn what_is_not_known_is_unsafe() {
    for part in ["/clusters/0/cluster", "/users/0/user"] {
        let found =
            problem(|it| it.pointer_mut(part).unwrap()["s3cr3t"] = json!({ "command": "x" }));
        assert!(
            matches!(found, KubeconfigProblem::Unsafe(_)),
            "{part}: {found}"
        );
        assert!(!found.to_string().contains("s3cr3t"), "{found}");
    }
}

/// Everything that is inline is taken, though a probe does not use all of it.
#[test]
fn what_is_inline_is_safe() {
    let mut all = kubeconfig();
    all["preferences"] = json!({});
    all["clusters"][0]["cluster"] = json!({
        "server": "https://192.0.2.1:6443/path",
        "insecure-skip-tls-verify": true,
        "tls-server-name": "kubernetes.example.com",
        "proxy-url": "http://proxy.example.com",
        "disable-compression": true,
        "extensions": [],
        "certificate-authority": null,
        "certificate-authority-data": "",
    });
    all["users"][0]["user"] = json!({
        "username": "a", "password": "b", "as": "c", "as-uid": "d", "as-groups": [], "as-user-extra": {}, "extensions": [],
        "exec": null,
    });
    Kubeconfig::of_output(Some(&all)).unwrap();
    all["users"][0]["user"] = Value::Null;
    Kubeconfig::of_output(Some(&all)).unwrap();
}

/// Two parsers must not see two users.
#[test]
fn what_parsers_read_differently_is_invalid() {
    let text = kubeconfig().to_string();
    let user = r#""user":{"token":"s3cr3t-token"}"#;
    assert!(text.contains(user));
    for other in [
        r#""user":{"token":"s3cr3t-token","token":"s3cr3t-other"}"#,
        r#""user":{"<<":{"exec":{"command":"s3cr3t"}},"token":"s3cr3t-token"}"#,
        r#""user":{<<: {"exec":{"command":"s3cr3t"}},"token":"s3cr3t-token"}"#,
        r#""user":&a {"token":"s3cr3t-token"}"#,
    ] {
        let found = Kubeconfig::parse(&text.replace(user, other)).unwrap_err();
        assert!(!found.to_string().contains("s3cr3t"), "{found}");
    }
    let two = format!("{text}\n---\n{text}\n");
    let found = Kubeconfig::parse(&two).unwrap_err();
    assert!(matches!(found, KubeconfigProblem::Invalid(_)), "{found}");
    let deep = text.replace(
        r#""contexts""#,
        &format!(
            r#""preferences":{}{},"contexts""#,
            "[".repeat(40),
            "]".repeat(40)
        ),
    );
    let found = Kubeconfig::parse(&deep).unwrap_err();
    assert!(matches!(found, KubeconfigProblem::Invalid(_)), "{found}");
}

#[test]
fn what_is_no_kubeconfig_of_one_cluster_is_invalid() {
    let changes: [fn(&mut Value); 18] = [
        |it| it["apiVersion"] = json!("v2"),
        |it| it["kind"] = json!("Secret"),
        |it| it["clusters"][0]["cluster"]["server"] = json!("https://x/?a"),
        |it| it["clusters"][0]["cluster"]["tls-server-name"] = json!("a b"),
        |it| it["clusters"][0]["cluster"]["certificate-authority-data"] = json!("s3cr3t=="),
        |it| it["clusters"][0]["cluster"]["certificate-authority-data"] = json!("LS0tLS0K"),
        |it| it["users"][0]["user"]["client-certificate-data"] = json!("LS0tLS0K"),
        |it| {
            it["users"][0]["user"] =
                json!({ "client-certificate-data": "LS0tLS0K", "client-key-data": "LS0tLS0K" })
        },
        |it| it["users"][0]["user"]["token"] = json!("s3cr3t\n"),
        |it| it["clusters"].as_array_mut().unwrap().clear(),
        |it| {
            let more = it["users"][0].clone();
            it["users"].as_array_mut().unwrap().push(more);
        },
        |it| it["contexts"] = json!([]),
        |it| it["contexts"][0]["context"]["cluster"] = json!("other"),
        |it| it["current-context"] = json!("other"),
        |it| it["clusters"][0]["cluster"]["server"] = json!("ftp://x"),
        |it| it["clusters"][0]["cluster"]["server"] = json!("https://user:pw@x"),
        |it| it["clusters"][0]["cluster"]["certificate-authority-data"] = json!("%%%"),
        |it| *it = json!([1]),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let found = problem(change);
        let is_invalid = matches!(
            found,
            KubeconfigProblem::Invalid(_) | KubeconfigProblem::Certificates(_)
        );
        assert!(is_invalid, "{number}: {found}");
        assert!(!found.to_string().contains("s3cr3t"));
    }
    for text in ["{", "\u{0}", "- a\n- b", "a: &a [*a]"] {
        let found = Kubeconfig::parse(text).unwrap_err();
        assert!(
            matches!(found, KubeconfigProblem::Invalid(_)),
            "{text}: {found}"
        );
    }
    let long = " ".repeat(KUBECONFIG_BYTES_MAX) + &kubeconfig().to_string();
    let found = Kubeconfig::parse(&long).unwrap_err();
    assert_eq!(
        found,
        KubeconfigProblem::Invalid("it is larger than 64 KiB")
    );
}

/// Ten aliases of ten aliases of ten ... are a few bytes that become gigabytes.
#[test]
fn aliases_are_not_followed() {
    let mut bomb = "a0: &a0 [x]\n".to_owned();
    for level in 1..10 {
        let items = vec![format!("*a{}", level - 1); 10].join(",");
        bomb += &format!("a{level}: &a{level} [{items}]\n");
    }
    let found = Kubeconfig::parse(&bomb).unwrap_err();
    assert!(matches!(found, KubeconfigProblem::Invalid(_)), "{found}");
}
