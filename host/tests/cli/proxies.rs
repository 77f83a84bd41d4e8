//! The cluster's proxy: which one, and what is said about it.
#![expect(
    clippy::unwrap_used,
    reason = "shared helpers may panic, like the tests themselves"
)]

use std::fs;
use std::process::Command;

/// What a command that reads a cluster says, with this server and proxy-url in the kubeconfig and these variables.
fn said(server: &str, proxy_url: &str, variables: &[(&str, &str)]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
         clusters: [{{name: a, cluster: {{server: '{server}', proxy-url: '{proxy_url}'}}}}]\nusers: [{{name: a, user: {{}}}}]\n"
    );
    fs::write(&kubeconfig, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_podloom"));
    for name in [
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
        "NO_PROXY",
        "no_proxy",
    ] {
        command.env_remove(name);
    }
    command.args(["drift"]).env("KUBECONFIG", &kubeconfig);
    let ran = command.envs(variables.iter().copied()).output().unwrap();
    assert_ne!(ran.status.code(), Some(0));
    String::from_utf8(ran.stderr).unwrap()
}

/// Nothing listens there.
const PROXY: &str = "http://user:secret@127.0.0.1:1";
const SERVER: &str = "https://api.example.invalid:6443";
const THROUGH: &str = "through the proxy http://127.0.0.1:1 ";

#[test]
fn the_proxy_of_the_environment_leads_to_the_cluster_except_where_no_proxy_says() {
    let through = said(SERVER, "", &[("HTTPS_PROXY", PROXY)]);
    assert!(
        through.contains(THROUGH) && through.contains("HTTPS_PROXY"),
        "{through}"
    );
    assert!(
        !through.contains("found no cluster") && !through.contains("secret"),
        "{through}"
    );
    for (server, variables) in [
        (
            SERVER,
            [("HTTPS_PROXY", PROXY), ("NO_PROXY", "example.invalid,")],
        ),
        (SERVER, [("HTTPS_PROXY", PROXY), ("NO_PROXY", "*")]),
        (SERVER, [("HTTP_PROXY", PROXY), ("NO_PROXY", "")]),
        (
            "https://127.0.0.1:1",
            [("HTTPS_PROXY", PROXY), ("NO_PROXY", "")],
        ),
    ] {
        let direct = said(server, "", &variables);
        let is_tried = direct.contains("error: cannot ");
        assert!(
            is_tried && !direct.contains("through the proxy"),
            "{variables:?}: {direct}"
        );
    }
}

#[test]
fn the_proxy_of_the_kubeconfig_is_used_whatever_no_proxy_says() {
    let through = said(
        SERVER,
        PROXY,
        &[("NO_PROXY", "*"), ("HTTPS_PROXY", "http://other")],
    );
    assert!(through.contains(THROUGH), "{through}");
}

#[test]
fn a_variable_that_names_no_proxy_is_named() {
    let error = said(SERVER, "", &[("https_proxy", "ftp://user:secret@proxy")]);
    assert!(
        error.starts_with("error: https_proxy names no proxy"),
        "{error}"
    );
    assert!(!error.contains("secret"), "{error}");
}
