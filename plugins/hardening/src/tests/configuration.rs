//! What configurations are valid, and what the plugin needs with them.

use podloom_plugin_sdk::Mutator;
use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing;

use crate::Hardening;

const CONTEXTS: [&str; 3] = [
    "/spec/securityContext",
    "/spec/containers/*/securityContext",
    "/spec/initContainers/*/securityContext",
];

#[track_caller]
fn check_needs(config: Value, reads: &[&str], writes: &[&str]) {
    let config = testing::configure::<Hardening>(&config).ok().unwrap();
    let needs = Hardening::needs(&config);
    assert_eq!(needs.reads, reads);
    assert_eq!(needs.writes, writes);
}

#[track_caller]
fn check_invalid(config: Value, expected: &str) {
    match testing::configure::<Hardening>(&config) {
        Ok(_) => panic!("{config} is valid"),
        Err(errors) => assert!(
            errors.iter().any(|error| error.contains(expected)),
            "{errors:?}"
        ),
    }
}

#[test]
fn needs_follow_the_configuration() {
    let reads = ["/spec", "/metadata/annotations"];
    check_needs(json!({}), &reads, &CONTEXTS);
    check_needs(json!({"mode": "off", "force": true}), &[], &[]);
    check_needs(
        json!({"mode": "warn", "readOnlyRootFilesystem": {}}),
        &reads,
        &[],
    );
    check_needs(json!({"profile": "baseline"}), &reads, &[]);
    check_needs(
        json!({"profile": "baseline", "force": true}),
        &reads,
        &CONTEXTS,
    );
    check_needs(
        json!({"profile": "baseline", "fsGroup": 1}),
        &reads,
        &CONTEXTS[..1],
    );
    check_needs(
        json!({"profile": "baseline", "automountServiceAccountToken": false, "enableServiceLinks": false}),
        &reads,
        &[
            "/spec/automountServiceAccountToken",
            "/spec/enableServiceLinks",
        ],
    );
    check_needs(
        json!({"profile": "baseline", "readOnlyRootFilesystem": {}}),
        &reads,
        &[
            "/spec/containers/*/securityContext",
            "/spec/containers/*/volumeMounts",
            "/spec/initContainers/*/securityContext",
            "/spec/initContainers/*/volumeMounts",
            "/spec/volumes",
        ],
    );
    check_needs(
        json!({"mode": "warn", "exemptions": [{"matchLabels": {"a": "b"}, "reason": "r"}]}),
        &["/spec", "/metadata/annotations", "/metadata/labels"],
        &[],
    );
}

#[test]
fn versions_are_latest_or_a_minor() {
    for version in ["latest", "v1.0", "v1.24", "v1.99"] {
        assert!(
            testing::configure::<Hardening>(&json!({"version": version})).is_ok(),
            "{version}"
        );
    }
    for version in [
        "", "1.24", "v1", "v1.", "v1.x", "v2.0", "v1.24.1", "v1.-1", "v1.+1",
    ] {
        check_invalid(
            json!({"version": version}),
            "config/version: value does not match",
        );
    }
}

#[test]
fn what_is_invalid_is_reported_in_a_sentence() {
    check_invalid(
        json!({"mode": "audit"}),
        r#"config/mode: value must be "off", "warn", "mutate" or "enforce", found "audit""#,
    );
    check_invalid(
        json!({"profile": "privileged"}),
        r#"config/profile: value must be "baseline" or "restricted", found "privileged""#,
    );
    check_invalid(
        json!({"modes": "warn"}),
        "config: unknown field modes; did you mean mode?",
    );
    check_invalid(
        json!({"runAsUser": 0}),
        "config/runAsUser: value is less than the minimum of 1, found 0",
    );
    check_invalid(
        json!({"runAsGroup": -1}),
        "config/runAsGroup: value is less than the minimum of 0, found -1",
    );
    check_invalid(
        json!({"fsGroup": 2_147_483_648_i64}),
        "config/fsGroup: value is greater than the maximum of 2147483647, found 2147483648",
    );
    check_invalid(
        json!({"automountServiceAccountToken": true}),
        "automountServiceAccountToken: only false is a hardening",
    );
    check_invalid(
        json!({"namedAccounts": "deny"}),
        "namedAccounts: has no effect without automountServiceAccountToken: false",
    );
    check_invalid(
        json!({"enableServiceLinks": true}),
        "enableServiceLinks: only false is a hardening",
    );
    check_invalid(
        json!({"seccompProfile": {"type": "Unconfined"}}),
        r#"config/seccompProfile/type: value must be "RuntimeDefault" or "Localhost", found "Unconfined""#,
    );
    let seccomp =
        |file: Value| json!({"seccompProfile": {"type": "Localhost", "localhostProfile": file}});
    check_invalid(seccomp(Value::Null), "needs the file's path");
    for file in ["", "/etc/x", "a/../b", "a\"b", "a\\b", "a\nb"] {
        check_invalid(seccomp(json!(file)), "must be a path below");
    }
    check_invalid(
        json!({"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "x"}}),
        "only a profile of type Localhost has a file",
    );
}

#[test]
fn directories_have_absolute_paths_and_sizes() {
    let directory =
        |directory: Value| json!({"readOnlyRootFilesystem": {"emptyDirs": [directory]}});
    for path in ["tmp", "/", "//", ""] {
        check_invalid(
            directory(json!({"mountPath": path})),
            "must be an absolute path below the root",
        );
    }
    for path in ["/a:b", "/a\"b", "/a\\b", "/a\nb"] {
        check_invalid(
            directory(json!({"mountPath": path})),
            "no colon, quote, backslash or control character",
        );
    }
    for size in ["", "Mi", "-1", "64mb", "1.5Gi", "64\"Mi", "1234567890123"] {
        check_invalid(
            directory(json!({"mountPath": "/tmp", "sizeLimit": size})),
            "sizeLimit must be a quantity of bytes",
        );
    }
    for size in ["1", "64Mi", "10G", "999999999999k"] {
        let config = directory(json!({"mountPath": "/tmp", "sizeLimit": size}));
        assert!(testing::configure::<Hardening>(&config).is_ok(), "{size}");
    }
}

#[test]
fn exemptions_have_a_reason_and_an_end() {
    check_invalid(
        json!({"exemptions": [{"namespaces": ["x"]}]}),
        "config/exemptions/0: the field reason is missing",
    );
    check_invalid(
        json!({"exemptions": [{"namespaces": ["x"], "reason": " "}]}),
        "each needs a reason",
    );
    check_invalid(
        json!({"exemptions": [{"reason": "why not"}]}),
        "spares everything",
    );
}
