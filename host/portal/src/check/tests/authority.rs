use proptest::prelude::*;
use proptest::string::string_regex;
use serde_json::Value;

use super::super::Authority;

/// The pattern that the API server checks URLs with, without its anchors.
fn pattern() -> String {
    let crd = serde_json::to_value(podloom_api::portal_expose_crd()).unwrap();
    let url = crd
        .pointer(
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/relay/properties/targets/items/properties/url",
        )
        .unwrap();
    let pattern = url["pattern"].as_str().unwrap();
    let inner = pattern.strip_prefix('^').unwrap().strip_suffix('$');
    inner.unwrap().to_owned()
}

proptest! {
    #[test]
    fn every_url_of_the_crd_is_read(url in string_regex(&pattern()).unwrap()) {
        prop_assert!(Authority::parse(&url).is_some(), "{url}");
    }

    #[test]
    fn any_text_is_read_without_panic(url in ".*", rest in ".*") {
        let _ = Authority::parse(&url);
        let _ = Authority::parse(&format!("wss://{rest}"));
    }

    #[test]
    fn what_is_written_is_read_again(url in string_regex(&pattern()).unwrap()) {
        let authority = Authority::parse(&url).unwrap();
        prop_assert_eq!(Authority::parse(&authority.url()), Some(authority));
    }
}

#[track_caller]
fn check(url: &str, expected: Option<&str>) {
    let written = Authority::parse(url).map(|authority| authority.to_string());
    assert_eq!(written.as_deref(), expected, "{url}");
}

#[test]
fn scheme_path_case_and_default_port_do_not_matter() {
    check("wss://relay.example.com/relay", Some("relay.example.com"));
    check("https://relay.example.com", Some("relay.example.com"));
    check("https://relay.example.com/", Some("relay.example.com"));
    check("wss://RELAY.Example.COM/a/b", Some("relay.example.com"));
    check(
        "wss://relay.example.com:443/relay",
        Some("relay.example.com"),
    );
    check(
        "wss://relay.example.com:8443",
        Some("relay.example.com:8443"),
    );
    check("wss://localhost", Some("localhost"));
    check("wss://10.relay", Some("10.relay"));
    check("wss://h:1", Some("h:1"));
    check("wss://h:65535", Some("h:65535"));
    check(
        "wss://xn--bcher-kva.example/",
        Some("xn--bcher-kva.example"),
    );
}

#[test]
fn what_the_crd_rejects_is_not_read() {
    for url in [
        "",
        "wss://",
        "wss:///path",
        "http://h.org",
        "ws://h.org",
        "WSS://h.org",
        "h.org",
        "wss://10.0.0.1/x",
        "wss://[::1]/x",
        "wss://a:b@h.org",
        "wss://user@h.org",
        "wss://h.org/x,https://i.org",
        "wss://h.org,i.org",
        "wss://h.org?query",
        "wss://h.org/x?query",
        "wss://h.org/x#fragment",
        "wss://h.org/%20",
        "wss://h.org:",
        "wss://h.org:0",
        "wss://h.org:00443",
        "wss://h.org:0443",
        "wss://h.org:+443",
        "wss://h.org:65536",
        "wss://h.org:100000",
        "wss://h.org:44:3",
        "wss://h..org",
        "wss://.h.org",
        "wss://h.org.",
        "wss://-h.org",
        "wss://h-.org",
        "wss://h.org-",
        "wss://h.1org",
        "wss://h_h.org",
        "wss://bücher.example",
        " wss://h.org",
        "wss://h.org ",
        "wss://h.org\n",
        "wss://h.org/\n",
    ] {
        check(url, None);
    }
}

#[track_caller]
fn check_names(url: &str, app: &str, expected: [&str; 3]) {
    let authority = Authority::parse(url).unwrap();
    let names = [
        authority.hostname(app),
        authority.public_url(app),
        authority.url(),
    ];
    assert_eq!(names, expected);
}

#[test]
fn the_application_is_a_subdomain_of_the_relay() {
    check_names(
        "wss://portal.gosuda.org/relay",
        "my-app",
        [
            "my-app.portal.gosuda.org",
            "https://my-app.portal.gosuda.org",
            "https://portal.gosuda.org",
        ],
    );
    check_names(
        "wss://relay.example.com:8443/connect",
        "test",
        [
            "test.relay.example.com",
            "https://test.relay.example.com:8443",
            "https://relay.example.com:8443",
        ],
    );
}

/// The pattern that is tested here is the one of the schema, not an empty text.
#[test]
fn the_schema_has_a_pattern() {
    assert!(pattern().starts_with("(wss|https)://"));
    assert_ne!(serde_json::to_value(pattern()).unwrap(), Value::Null);
}

#[track_caller]
fn check_cluster(host: &str, expected: bool) {
    let authority = Authority::parse(&format!("wss://{host}:8443/relay")).expect(host);
    assert_eq!(authority.is_of_cluster(), expected, "{host}");
}

#[test]
fn names_of_the_cluster_are_known_by_their_labels() {
    for host in [
        "web",
        "LOCALHOST",
        "web.team.svc",
        "Web.Team.SVC.Cluster.Local",
        "web.team.svc.example.com",
        "pod.web.team.svc.example.com",
        "team.svc",
        "10-0-0-1.team.pod.cluster.local",
        "cluster.local",
    ] {
        check_cluster(host, true);
    }
    for host in [
        "relay.example.com",
        "svc.example.com",
        "my-svc.example.com",
        "relay.svcs.example.com",
        "cluster.local.example.com",
        "mycluster.local",
    ] {
        check_cluster(host, false);
    }
}
