//! `podloom drift`: what is wrong is explained. The black-box tests run it on a cluster.

use std::fs;

use super::podloom;

#[test]
fn what_is_wrong_is_explained() {
    for (name, arguments) in [
        ("two_scopes", &["-n", "shop", "-A"][..]),
        ("namespace", &["-n", "Shop"]),
        ("webhook", &["--webhook-configuration", "a/b"]),
        ("format", &["-o", "markdown"]),
        ("no_chain", &["--plugins", "bundles/none"]),
        ("broken_chain", &["--plugins", "bundles/unknown-field"]),
    ] {
        let ran = podloom(&[&["drift"][..], arguments].concat());
        assert!([1, 2].contains(&ran.code), "{}", ran.text());
        assert_eq!(ran.stdout, "", "{}", ran.text());
        insta::assert_snapshot!(format!("drift_refused_{name}"), ran.text());
    }
}

#[test]
fn a_cluster_that_is_not_there_is_another_error() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    let server = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n\
                  clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: a, user: {}}]\n";
    fs::write(&kubeconfig, server).unwrap();
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_podloom"))
        .arg("drift")
        .env("KUBECONFIG", &kubeconfig)
        .output()
        .unwrap();
    let error = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(3), "{error}");
    let expected = "error: cannot get MutatingWebhookConfiguration podloom-webhook: ";
    assert!(error.contains(expected), "{error}");
}
