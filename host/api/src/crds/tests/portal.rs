use serde_json::{Value, json};

use super::{check_columns, nodes, schema};
use crate::{portal_expose_crd, tunnel_class_crd};

#[test]
fn columns_say_how_a_tunnel_is() {
    check_columns(
        &portal_expose_crd(),
        &[
            ("Phase", "string", ".status.phase", None),
            ("URL", "string", ".status.publicURL", None),
            ("Ready", "integer", ".status.tunnelPods.ready", None),
            ("Total", "integer", ".status.tunnelPods.total", None),
            ("Relays", "string", ".status.relay.summary", None),
            ("Class", "string", ".status.tunnelClassName", None),
            ("Age", "date", ".metadata.creationTimestamp", None),
            (
                "Message",
                "string",
                ".status.conditions[?(@.type==\"Available\")].message",
                Some(1),
            ),
        ],
    );
    check_columns(
        &tunnel_class_crd(),
        &[
            ("Size", "string", ".spec.size", None),
            ("Replicas", "integer", ".spec.replicas", None),
            (
                "Default",
                "string",
                ".status.conditions[?(@.type==\"Default\")].reason",
                None,
            ),
            ("Age", "date", ".metadata.creationTimestamp", None),
        ],
    );
}

#[test]
fn kinds_have_the_names_of_the_public_controller() {
    let crds = [portal_expose_crd(), tunnel_class_crd()];
    let names = crds.map(|crd| {
        let names = crd.spec.names;
        let version = &crd.spec.versions[0];
        let has_status = version.subresources.as_ref().unwrap().status.is_some();
        assert!(version.served && version.storage && has_status);
        json!([
            crd.metadata.name,
            version.name,
            crd.spec.scope,
            names.short_names,
            names.categories
        ])
    });
    let expected = [
        json!([
            "portalexposes.portal.gosuda.org",
            "v1alpha1",
            "Namespaced",
            ["pe"],
            ["portal"]
        ]),
        json!([
            "tunnelclasses.portal.gosuda.org",
            "v1alpha1",
            "Cluster",
            ["tc"],
            ["portal"]
        ]),
    ];
    assert_eq!(names, expected);
}

/// The keywords of a field that limit its values.
fn limits(spec: &Value, path: &str) -> Value {
    let mut found = Vec::new();
    nodes("", spec, &mut found);
    let (_, node) = found.into_iter().find(|(found, _)| found == path).unwrap();
    let mut limits = node.as_object().unwrap().clone();
    for other in ["description", "properties", "items", "additionalProperties"] {
        limits.remove(other);
    }
    limits.into()
}

#[track_caller]
fn check_limits(spec: &Value, expected: &[(&str, Value)]) {
    for (path, expected) in expected {
        assert_eq!(limits(spec, path), *expected, "{path}");
    }
}

#[test]
fn fields_of_a_portal_expose_have_their_rules() {
    const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
    let label = json!({ "type": "string", "minLength": 1, "maxLength": 63, "pattern": LABEL });
    let spec = &schema(&portal_expose_crd())["properties"]["spec"];
    check_limits(
        spec,
        &[
            (
                "",
                json!({ "type": "object", "required": ["app", "relay"] }),
            ),
            (
                ".app",
                json!({ "type": "object", "required": ["name", "service"] }),
            ),
            (".app.name", label.clone()),
            (
                ".app.service",
                json!({ "type": "object", "required": ["name", "port"] }),
            ),
            (".app.service.name", label),
            (
                ".app.service.port",
                json!({ "type": "integer", "format": "int32", "minimum": 1.0, "maximum": 65_535.0 }),
            ),
            (
                ".tunnelClassName",
                json!({ "type": "string", "nullable": true, "maxLength": 253 }),
            ),
            (
                ".identityPolicy",
                json!({ "type": "string", "enum": ["Retain", "Delete"], "default": "Retain" }),
            ),
        ],
    );
}

#[test]
fn relays_of_a_portal_expose_have_their_rules() {
    const URL: &str = concat!(
        r"^(wss|https)://([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?\.)*[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?",
        r"(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?",
        r"(/[A-Za-z0-9._~/-]*)?$",
    );
    let unique = |field: &str, names: &str| {
        json!({
            "rule": format!("self.all(t, self.exists_one(u, u.{field} == t.{field}))"),
            "message": format!("{names} of targets must be unique"),
        })
    };
    let spec = &schema(&portal_expose_crd())["properties"]["spec"];
    check_limits(
        spec,
        &[
            (
                ".relay.targets",
                json!({
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 16,
                    "x-kubernetes-list-type": "atomic",
                    "x-kubernetes-validations": [unique("name", "names"), unique("url", "URLs")],
                }),
            ),
            (
                ".relay.targets[]",
                json!({ "type": "object", "required": ["name", "url"] }),
            ),
            (
                ".relay.targets[].name",
                json!({ "type": "string", "minLength": 1, "maxLength": 63 }),
            ),
            (
                ".relay.targets[].url",
                json!({ "type": "string", "maxLength": 320, "pattern": URL }),
            ),
        ],
    );
}

#[test]
fn fields_of_a_tunnel_class_have_their_rules() {
    let spec = &schema(&tunnel_class_crd())["properties"]["spec"];
    check_limits(
        spec,
        &[
            (
                "",
                json!({ "type": "object", "required": ["replicas", "size"] }),
            ),
            (
                ".replicas",
                json!({ "type": "integer", "format": "int32", "minimum": 1.0, "maximum": 100.0 }),
            ),
            (
                ".size",
                json!({ "type": "string", "enum": ["small", "medium", "large"] }),
            ),
            (
                ".nodeSelector",
                json!({ "type": "object", "nullable": true, "maxProperties": 64 }),
            ),
            (
                ".nodeSelector{}",
                json!({ "type": "string", "maxLength": 63 }),
            ),
            (
                ".tolerations",
                json!({
                    "type": "array", "nullable": true, "maxItems": 64, "x-kubernetes-list-type": "atomic",
                }),
            ),
            (
                ".rollout",
                json!({ "type": "string", "enum": ["Replace", "Surge"], "default": "Replace" }),
            ),
            (
                ".client",
                json!({ "type": "object", "nullable": true, "required": ["image", "version"] }),
            ),
            (
                ".client.image",
                json!({ "type": "string", "minLength": 1, "maxLength": 512 }),
            ),
            (
                ".client.version",
                json!({
                    "type": "string",
                    "maxLength": 32,
                    "pattern": r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$",
                }),
            ),
        ],
    );
}

/// Condition lists are shared with other writers; what we publish of relays is ours as a whole.
#[test]
fn statuses_can_be_written_by_several() {
    for crd in [portal_expose_crd(), tunnel_class_crd()] {
        let status = &schema(&crd)["properties"]["status"];
        let conditions = &status["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
    }
}

#[test]
fn own_fields_are_described_and_tolerations_are_not() {
    for (crd, own) in [
        (portal_expose_crd(), ".spec.relay.targets[].url"),
        (tunnel_class_crd(), ".spec.nodeSelector"),
    ] {
        let schema = schema(&crd);
        let mut found = Vec::new();
        nodes("", &schema, &mut found);
        let node = |path: &str| {
            found
                .iter()
                .find(|(found, _)| found == path)
                .map(|(_, it)| *it)
        };
        assert!(node(own).unwrap()["description"].is_string());
        let toleration = node(".spec.tolerations[].key");
        assert!(toleration.is_none_or(|it| it.get("description").is_none()));
    }
}
