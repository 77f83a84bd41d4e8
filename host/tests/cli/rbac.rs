//! The roles in deploy/ are the ones that podloom rbac prints from the table of duties.

use std::fs;

use super::{podloom, root};

/// The files of deploy/, and the commands that print them.
const FILES: [(&str, &[&str]); 28] = [
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
    (
        "controllers/portal/rbac.yaml",
        &["rbac", "--controllers", "portal"],
    ),
    (
        "controllers/portal/users.yaml",
        &["rbac", "--controllers", "portal", "--for", "users"],
    ),
    (
        "controllers/infrastructure/rbac.yaml",
        &["rbac", "--controllers", "infrastructure"],
    ),
    (
        "controllers/infrastructure/users.yaml",
        &["rbac", "--controllers", "infrastructure", "--for", "users"],
    ),
    (
        "controllers/cleaner/rbac.yaml",
        &["rbac", "--controllers", "cleaner"],
    ),
    (
        "controllers/cleaner/users.yaml",
        &["rbac", "--controllers", "cleaner", "--for", "users"],
    ),
    (
        "controllers/webhook/rbac.yaml",
        &["rbac", "--controllers", "webhook"],
    ),
    (
        "controllers/webhook/users/users.yaml",
        &["rbac", "--controllers", "webhook", "--for", "users"],
    ),
    (
        "controllers/webhook/split/rbac.yaml",
        &[
            "rbac",
            "--controllers",
            "webhook",
            "--selenosis-api",
            "split",
        ],
    ),
    (
        "controllers/rollout/rbac.yaml",
        &["rbac", "--controllers", "rollout"],
    ),
    (
        "controllers/rollout/users.yaml",
        &["rbac", "--controllers", "rollout", "--for", "users"],
    ),
    ("options/rollout/rbac.yaml", &["rbac", "--for", "rollout"]),
    (
        "helm/files/rbac/namespaced/rollout.yaml",
        &["rbac", "--controllers", "rollout", "--namespace", "watched"],
    ),
    ("options/drift/rbac.yaml", &["rbac", "--for", "drift"]),
    ("options/gate/rbac.yaml", &["rbac", "--for", "gate"]),
    ("options/heal/rbac.yaml", &["rbac", "--for", "heal"]),
    ("options/reports/rbac.yaml", &["rbac", "--for", "reports"]),
    ("namespaced/rbac.yaml", &["rbac", "--namespace", "browsers"]),
    // The chart replaces the namespace by those of its values.
    (
        "helm/files/rbac/namespaced/browser.yaml",
        &["rbac", "--namespace", "watched"],
    ),
    (
        "helm/files/rbac/namespaced/portal.yaml",
        &["rbac", "--controllers", "portal", "--namespace", "watched"],
    ),
    (
        "helm/files/rbac/namespaced/infrastructure.yaml",
        &[
            "rbac",
            "--controllers",
            "infrastructure",
            "--namespace",
            "watched",
        ],
    ),
    (
        "helm/files/rbac/namespaced/cleaner.yaml",
        &["rbac", "--controllers", "cleaner", "--namespace", "watched"],
    ),
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
        "these files differed from the output of podloom rbac; run this test again and commit them: {stale:#?}",
    );
}

/// Whatever namespaces the operator watches, the API server sends the webhooks the pods of all that have the label.
#[test]
fn the_webhooks_may_read_owners_in_all_namespaces() {
    let command = ["rbac", "--controllers", "webhook", "--namespace", "team-a"];
    let printed = podloom(&command).stdout;
    let documents: Vec<&str> = printed.split("---\n").collect();
    let has = |kind: &str, resource: &str| {
        let head = format!("kind: {kind}\n");
        let mut documents = documents.iter().filter(|text| text.contains(&head));
        documents.any(|text| text.contains(&format!("resources: [{resource}]")))
    };
    for resource in ["daemonsets", "replicasets", "statefulsets", "jobs"] {
        let granted = [has("ClusterRole", resource), has("Role", resource)];
        assert_eq!(granted, [true, false], "{resource}: {printed}");
    }
    assert!(has("Role", "browserconfigs"), "{printed}");
}

#[test]
fn controllers_are_named_or_none() {
    for command in ["crds", "rbac"] {
        let all = podloom(&[command]);
        assert_eq!(all.code, 0);
        let browser = podloom(&[command, "--controllers", "browser"]);
        assert_eq!(browser.stdout, all.stdout);
        let none = podloom(&[command, "--controllers", "none"]);
        assert_eq!((none.code, none.stdout.as_str()), (0, ""));
        let unknown = podloom(&[command, "--controllers", "browser,portals"]);
        assert_eq!((unknown.code, unknown.stdout.as_str()), (2, ""));
        let known = match command {
            "rbac" => "browser, portal, infrastructure, cleaner, rollout, webhook",
            _ => "browser, portal, infrastructure, cleaner, rollout",
        };
        let expected = format!("unknown controller \"portals\"; known: {known}, or none");
        assert!(unknown.stderr.contains(&expected), "{}", unknown.stderr);
    }
}

#[test]
fn only_a_controller_that_needs_the_chain_requires_plugins() {
    let browser = podloom(&["run", "--controllers", "browser"]);
    assert_eq!(browser.code, 2);
    assert!(
        browser.stderr.contains("--plugins DIR"),
        "{}",
        browser.stderr
    );
    let both = podloom(&["run", "--controllers", "browser,none"]);
    assert_eq!(both.code, 2);
    assert!(
        both.stderr.contains("none cannot be combined"),
        "{}",
        both.stderr
    );
}

#[test]
fn roles_of_users_have_no_namespace() {
    let ran = podloom(&["rbac", "--for", "users", "--namespace", "team-a"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(
        ran.stderr
            .contains("--namespace does not go with --for users"),
        "{}",
        ran.stderr
    );
}

/// The API server rejects a name that YAML reads as a number or a boolean.
#[test]
fn namespaces_are_strings() {
    for name in ["123", "1e3", "0x1f", "true", "no", "null"] {
        let printed = podloom(&["rbac", "--namespace", name, "--operator-namespace", name]);
        assert_eq!(printed.code, 0, "{}", printed.stderr);
        let lines = printed.stdout.lines().map(str::trim);
        let namespaces: Vec<&str> = lines
            .filter_map(|line| line.strip_prefix("namespace: "))
            .collect();
        assert!(namespaces.len() > 5, "{namespaces:?}");
        for namespace in namespaces {
            assert_eq!(namespace, format!("\"{name}\""));
        }
    }
    let printed = podloom(&["rbac", "--namespace", "team-1"]).stdout;
    assert!(printed.contains("  namespace: team-1\n"), "{printed}");
}

#[test]
fn the_rights_are_for_the_named_lease() {
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
    let defaults = [
        "rbac",
        "--lease-name",
        "podloom",
        "--lease-namespace",
        "podloom-system",
    ];
    assert_eq!(podloom(&defaults).stdout, default);
}

/// The first installation keeps its account, roles, bindings and Lease when the second one is applied.
#[test]
fn webhooks_of_another_name_share_nothing_with_the_first_ones() {
    let webhook = ["rbac", "--controllers", "webhook"];
    let first = podloom(&webhook).stdout;
    let second = podloom(&[&webhook[..], &["--webhook-name", "second"]].concat()).stdout;
    assert_eq!(second, first.replace("podloom-webhook", "second"));
    let fields = ["  name: ", "  resourceNames: "];
    for line in first.lines() {
        let is_named = fields.iter().any(|field| line.starts_with(field));
        assert!(!is_named || line.contains("podloom-webhook"), "{line}");
    }
    // Other controllers do not depend on it.
    let both = podloom(&[
        "rbac",
        "--controllers",
        "browser,webhook",
        "--webhook-name",
        "second",
    ]);
    let browser = podloom(&["rbac", "--controllers", "browser"]).stdout;
    assert_eq!(both.stdout, format!("{browser}---\n{second}"));
}

/// As `podloom run` names it.
#[test]
fn a_named_lease_is_also_that_of_named_webhooks() {
    let webhook = [
        "rbac",
        "--controllers",
        "webhook",
        "--webhook-name",
        "second",
    ];
    let printed = podloom(&[&webhook[..], &["--lease-name", "mine"]].concat()).stdout;
    assert!(
        printed.contains("resourceNames: [mine-webhook]\n"),
        "{printed}"
    );
    let printed = podloom(&webhook).stdout;
    assert!(printed.contains("resourceNames: [second]\n"), "{printed}");
}

#[test]
fn names_of_webhooks_are_strings() {
    let webhook = ["rbac", "--controllers", "webhook", "--webhook-name"];
    let printed = podloom(&[&webhook[..], &["123"]].concat()).stdout;
    let quoted = printed.lines().filter(|line| line.ends_with(" \"123\""));
    assert!(quoted.count() > 12, "{printed}");
    assert!(!printed.contains(" 123"), "{printed}");
    let wrong = podloom(&[&webhook[..], &["A_B"]].concat());
    assert_eq!((wrong.code, wrong.stdout.as_str()), (2, ""));
}
