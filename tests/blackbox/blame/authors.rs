//! Who wrote which path of the pod that the tests make.

use serde_json::{Value, json};

/// Who wrote each of these paths.
#[track_caller]
pub(super) fn check(said: &Value, expected: &[(&str, Value)]) {
    for (path, who) in expected {
        let mut found = said["paths"][path].clone();
        assert!(found.is_object(), "{path}: {said}");
        found.as_object_mut().unwrap().remove("version");
        assert_eq!(found, *who, "{path}");
    }
}

/// As [`check`], in words: `plugin labels`, `manager teams` or `submitted`.
#[track_caller]
pub(super) fn check_all(said: &Value, expected: &[(&str, &str)]) {
    for (path, who) in expected {
        let who = match who.split_once(' ') {
            Some((what, name)) => json!({ what: name }),
            None => json!({ *who: true }),
        };
        check(said, &[(path, who)]);
    }
}

/// Who wrote a pod that was just made. The message path is a default of the API server, in what a plugin wrote.
pub(super) const MADE: [(&str, &str); 13] = [
    ("/metadata/labels/app", "submitted"),
    ("/metadata/labels/team", "plugin labels"),
    (
        "/metadata/labels/app.kubernetes.io~1managed-by",
        "plugin labels",
    ),
    ("/metadata/labels/tier", "plugin tier"),
    (
        "/metadata/annotations/sidecar.podloom.dev~1injected",
        "plugin sidecar",
    ),
    (
        "/spec/initContainers/[name=companion]/image",
        "plugin sidecar",
    ),
    (
        "/spec/initContainers/[name=companion]/terminationMessagePath",
        "plugin sidecar",
    ),
    (
        "/spec/containers/[name=a]/securityContext/capabilities/drop/0",
        "plugin hardening",
    ),
    (
        "/spec/containers/[name=b]/securityContext/runAsUser",
        "submitted",
    ),
    ("/spec/securityContext/runAsNonRoot", "plugin hardening"),
    ("/spec/containers/[name=a]/args/1", "submitted"),
    (
        "/spec/containers/[name=a]/ports/0/containerPort",
        "submitted",
    ),
    ("/spec/dnsPolicy", "submitted"),
];

/// What others do to it later.
pub(super) const EDITS: [&[&str]; 3] = [
    &[
        "label",
        "pod/bare",
        "owner=me",
        "team=other",
        "--overwrite",
        "--field-manager=teams",
    ],
    &[
        "annotate",
        "pod/bare",
        "example.com/late=x",
        "--field-manager=notes",
    ],
    &[
        "patch",
        "pod/bare",
        "--field-manager=updater",
        "--patch",
        r#"{"spec":{"initContainers":[{"name":"companion","image":"registry.k8s.io/pause:3.9"}]}}"#,
    ],
];

/// Who wrote it after that.
pub(super) const EDITED: [(&str, &str); 8] = [
    ("/metadata/labels/app", "submitted"),
    ("/metadata/labels/owner", "manager teams"),
    ("/metadata/labels/team", "manager teams"),
    ("/metadata/labels/submitted-as", "plugin labels"),
    ("/metadata/annotations/example.com~1late", "manager notes"),
    ("/metadata/annotations/example.com~1note", "submitted"),
    (
        "/spec/initContainers/[name=companion]/image",
        "manager updater",
    ),
    (
        "/spec/initContainers/[name=companion]/name",
        "plugin sidecar",
    ),
];
