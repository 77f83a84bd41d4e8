mod authority;

use podloom_api::{PortalExposeSpec, RelayTarget};

use super::{check, examine};

fn spec(app: &str, urls: &[&str]) -> PortalExposeSpec {
    let mut spec = PortalExposeSpec::default();
    spec.app.name = app.to_owned();
    spec.app.service.name = "web".to_owned();
    spec.app.service.port = 8080;
    let targets = urls.iter().enumerate().map(|(number, url)| RelayTarget {
        name: format!("relay-{number}"),
        url: (*url).to_owned(),
    });
    spec.relay.targets = targets.collect();
    spec
}

#[track_caller]
fn check_problem(spec: &PortalExposeSpec, reason: &str, message: &str) {
    let problem = check(spec).unwrap_err();
    assert_eq!((problem.reason, &*problem.to_string()), (reason, message));
}

#[test]
fn relays_keep_their_order() {
    let spec = spec("app", &["wss://b.org/relay", "https://A.org:8443"]);
    let found = check(&spec).unwrap();
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["b.org", "a.org:8443"]);
}

#[test]
fn one_relay_is_listed_once() {
    check_problem(
        &spec(
            "app",
            &[
                "wss://h.org/relay",
                "wss://i.org",
                "https://H.org:443/other",
            ],
        ),
        "DuplicateRelay",
        "spec.relay.targets[2].url is the relay h.org, as spec.relay.targets[0].url is; remove one of the two: scheme and path make \
         no other relay",
    );
    assert!(check(&spec("app", &["wss://h.org", "wss://h.org:8443"])).is_ok());
}

#[test]
fn names_of_an_old_object_are_unique() {
    let mut spec = spec("app", &["wss://h.org", "wss://i.org"]);
    spec.relay.targets[1].name = "relay-0".to_owned();
    check_problem(
        &spec,
        "DuplicateRelay",
        "spec.relay.targets[1].name is the same as spec.relay.targets[0].name; give each target a name of its own",
    );
}

/// The public controller's schema allowed all that begins with wss://.
#[test]
fn an_old_url_is_not_quoted() {
    check_problem(
        &spec("app", &["wss://user:hunter2@h.org/relay"]),
        "InvalidRelayURL",
        "spec.relay.targets[0].url is no relay URL; write wss:// or https://, a hostname that is no IP address, and if needed a port \
         and a path of letters, digits and the characters . _ ~ - /",
    );
}

#[test]
fn hostnames_fit_into_dns() {
    let label = "r".repeat(60);
    let host = |labels: usize| format!("wss://{}", vec![&*label; labels].join("."));
    let app = "a".repeat(63);
    // 63 + 3 * 61 = 246
    assert!(check(&spec(&app, &[&host(3)])).is_ok());
    check_problem(
        &spec(&app, &["wss://h.org", &host(4)]),
        "HostnameTooLong",
        "spec.relay.targets[1].url makes a hostname of 307 characters; DNS allows 253, so use a shorter spec.app.name or relay",
    );
    let long = format!("wss://{}.org", "r".repeat(64));
    check_problem(
        &spec("app", &[&long]),
        "HostnameTooLong",
        "spec.relay.targets[0].url makes a hostname with a part of 64 characters; DNS allows 63 between two dots",
    );
    let exact = |last: usize| {
        format!(
            "wss://{}.{}",
            host(3).trim_start_matches("wss://"),
            "z".repeat(last)
        )
    };
    assert!(check(&spec(&app, &[&exact(6)])).is_ok(), "253 characters");
    assert!(check(&spec(&app, &[&exact(7)])).is_err(), "254 characters");
}

#[test]
fn an_old_object_has_an_application_and_relays() {
    let label = "is no DNS label; write 1 to 63 lower-case letters, digits and dashes, with no dash at either end";
    for name in ["", "App", "-a", "a-", "a.b", "a_b", &"a".repeat(64)] {
        let problem = format!("spec.app.name {label}");
        check_problem(&spec(name, &["wss://h.org"]), "InvalidSpec", &problem);
    }
    let mut bad = spec("app", &["wss://h.org"]);
    bad.app.service.name = "Web".to_owned();
    check_problem(
        &bad,
        "InvalidSpec",
        &format!("spec.app.service.name {label}"),
    );
    for port in [0, -1, 65_536] {
        let mut bad = spec("app", &["wss://h.org"]);
        bad.app.service.port = port;
        let problem = "spec.app.service.port is no port; write a number from 1 to 65535";
        check_problem(&bad, "InvalidSpec", problem);
    }
    let urls: Vec<String> = (0..17)
        .map(|number| format!("wss://h{number}.org"))
        .collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    assert!(check(&spec("app", &urls[..16])).is_ok());
    let many = "spec.relay.targets has 17 relays; list 1 to 16";
    check_problem(&spec("app", &urls), "InvalidSpec", many);
    let none = "spec.relay.targets has 0 relays; list 1 to 16";
    check_problem(&spec("app", &[]), "InvalidSpec", none);
}

#[test]
fn all_problems_are_found_and_what_is_usable_is_kept() {
    let spec = spec("-", &["http://h.org", "wss://i.org", "wss://i.org/x"]);
    let (targets, problems) = examine(&spec);
    let fields: Vec<String> = problems.iter().map(|it| it.path.to_string()).collect();
    assert_eq!(
        fields,
        [
            "spec.app.name",
            "spec.relay.targets[0].url",
            "spec.relay.targets[2].url"
        ],
    );
    assert_eq!(targets.len(), 2);
}
