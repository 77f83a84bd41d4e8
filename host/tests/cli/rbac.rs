//! The roles that an installation has are those that the operator's table of duties asks for.

use std::fs;

use super::{podloom, root};

/// A file of deploy/, and what prints it.
const FILES: [(&str, &[&str]); 7] = [
    ("controllers/browser/rbac.yaml", &["rbac"]),
    (
        "controllers/browser/users.yaml",
        &["rbac", "--for", "users"],
    ),
    (
        "controllers/browser/split/rbac.yaml",
        &["rbac", "--selenosis-api", "split"],
    ),
    (
        "controllers/browser/split/users.yaml",
        &["rbac", "--for", "users", "--selenosis-api", "split"],
    ),
    ("namespaced/rbac.yaml", &["rbac", "--namespace", "browsers"]),
    ("clients/role.yaml", &["rbac", "--for", "clients"]),
    (
        "clients/split/role.yaml",
        &["rbac", "--for", "clients", "--selenosis-api", "split"],
    ),
];

/// On a developer's machine the files are rewritten, and the test fails once; in CI it only fails.
#[test]
fn files_are_fresh() {
    let mut stale = Vec::new();
    for (file, command) in FILES {
        let ran = podloom(command);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{command:?}");
        let path = root().join("deploy").join(file);
        if fs::read_to_string(&path).is_ok_and(|found| found == ran.stdout) {
            continue;
        }
        if std::env::var_os("CI").is_none() {
            fs::write(&path, ran.stdout).expect("it can be written");
        }
        stale.push(path);
    }
    assert!(
        stale.is_empty(),
        "these files were not what podloom rbac prints; run this test again and commit them: {stale:#?}",
    );
}

#[test]
fn each_controller_is_named_or_none_is() {
    for command in ["crds", "rbac"] {
        let all = podloom(&[command]);
        assert_eq!(all.code, 0);
        let browser = podloom(&[command, "--controllers", "browser"]);
        assert_eq!(browser.stdout, all.stdout);
        let none = podloom(&[command, "--controllers", "none"]);
        assert_eq!((none.code, none.stdout.as_str()), (0, ""));
        let unknown = podloom(&[command, "--controllers", "browser,portals"]);
        assert_eq!((unknown.code, unknown.stdout.as_str()), (2, ""));
        let told = "there is no controller \"portals\"; there is: browser, and none";
        assert!(unknown.stderr.contains(told), "{}", unknown.stderr);
    }
}

#[test]
fn only_a_controller_that_needs_the_chain_asks_for_plugins() {
    let browser = podloom(&["run", "--controllers", "browser"]);
    assert_eq!(browser.code, 2);
    assert!(
        browser.stderr.contains("--plugins DIR"),
        "{}",
        browser.stderr
    );
    let both = podloom(&["run", "--controllers", "browser,none"]);
    assert_eq!(both.code, 2);
    assert!(both.stderr.contains("none stands alone"), "{}", both.stderr);
}

#[test]
fn roles_of_users_are_in_no_namespace() {
    let ran = podloom(&["rbac", "--for", "users", "--namespace", "team-a"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(
        ran.stderr.contains("leave out --namespace"),
        "{}",
        ran.stderr
    );
}

/// What YAML takes for a number or a truth value is no name to the API server.
#[test]
fn namespaces_are_strings() {
    for name in ["123", "1e3", "0x1f", "true", "no", "null"] {
        let printed = podloom(&["rbac", "--namespace", name, "--operator-namespace", name]);
        assert_eq!(printed.code, 0, "{}", printed.stderr);
        let places = printed.stdout.lines().map(str::trim);
        let places: Vec<&str> = places
            .filter_map(|line| line.strip_prefix("namespace: "))
            .collect();
        assert!(places.len() > 5, "{places:?}");
        for place in places {
            assert_eq!(place, format!("\"{name}\""));
        }
    }
    let printed = podloom(&["rbac", "--namespace", "team-1"]).stdout;
    assert!(printed.contains("  namespace: team-1\n"), "{printed}");
}

#[test]
fn the_lease_is_where_the_operator_is_told_to_have_it() {
    let default = podloom(&["rbac"]).stdout;
    let named = podloom(&[
        "rbac",
        "--lease-name",
        "second",
        "--lease-namespace",
        "leases",
    ])
    .stdout;
    assert_eq!(named.matches("  namespace: leases\n").count(), 2, "{named}");
    assert!(named.contains("resourceNames: [second]\n"), "{named}");
    let there = [
        "rbac",
        "--lease-name",
        "podloom",
        "--lease-namespace",
        "podloom-system",
    ];
    assert_eq!(podloom(&there).stdout, default);
}
