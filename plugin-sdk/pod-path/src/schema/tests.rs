//! Facts that the generated table must contain.

use super::{ROOT, Schema, Type, table};

/// Follows field names, with `*` for elements of lists and values of maps.
fn at(path: &str) -> Schema {
    path.split('/')
        .filter(|segment| !segment.is_empty())
        .fold(ROOT, |schema, segment| match (segment, schema) {
            ("*", Schema::Map(values, _)) => *values,
            ("*", schema) => schema.element(),
            (segment, schema) => schema.field(segment),
        })
}

#[track_caller]
fn check(path: &str, expected: &str) {
    assert_eq!(at(path).noun(), expected, "{path}");
}

#[test]
fn known_fields_have_their_types() {
    check("", "an object (Pod)");
    check("metadata/labels", "an object");
    check("metadata/labels/*", "a string");
    check(
        "metadata/creationTimestamp",
        "a time (a string, as in RFC 3339)",
    );
    check("metadata/generation", "a 64-bit integer");
    check("spec/hostNetwork", "a boolean");
    check("spec/terminationGracePeriodSeconds", "a 64-bit integer");
    check("spec/containers/*/args/*", "a string");
    check(
        "spec/containers/*/ports/*/containerPort",
        "a 32-bit integer",
    );
    check(
        "spec/containers/*/resources/limits/*",
        "a quantity (a string or a number)",
    );
    check(
        "spec/containers/*/livenessProbe/httpGet/port",
        "a 32-bit integer or a string",
    );
    check(
        "spec/containers/*/securityContext/capabilities/drop",
        "a list",
    );
    check(
        "spec/ephemeralContainers/*/env/*/valueFrom/secretKeyRef/key",
        "a string",
    );
    check(
        "spec/volumes/*/emptyDir/sizeLimit",
        "a quantity (a string or a number)",
    );
    check(
        "spec/volumes/*/ephemeral/volumeClaimTemplate/spec/accessModes/*",
        "a string",
    );
    check("spec/securityContext/fsGroup", "a 64-bit integer");
}

#[test]
fn unknown_fields_are_anything() {
    check("spec/fieldOfTomorrow", "any value");
    check("spec/fieldOfTomorrow/below/it", "any value");
    check("metadata/managedFields/*/fieldsV1", "any value");
}

#[track_caller]
fn check_key(path: &str, expected: Option<&str>) {
    assert_eq!(at(path).element_key(), expected, "{path}");
}

#[test]
fn lists_have_merge_keys() {
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        check_key(&format!("spec/{list}"), Some("name"));
        check_key(&format!("spec/{list}/*/env"), Some("name"));
        check_key(&format!("spec/{list}/*/ports"), Some("containerPort"));
        check_key(&format!("spec/{list}/*/volumeMounts"), Some("mountPath"));
        check_key(&format!("spec/{list}/*/volumeDevices"), Some("devicePath"));
        check_key(&format!("spec/{list}/*/resources/claims"), Some("name"));
    }
    check_key("spec/volumes", Some("name"));
    check_key("spec/imagePullSecrets", Some("name"));
    check_key("spec/hostAliases", Some("ip"));
    check_key("spec/topologySpreadConstraints", Some("topologyKey"));
    check_key("spec/tolerations", None);
    check_key("spec/containers/*/args", None);
    check_key("spec/volumes/*/projected/sources", None);
}

/// Fields are found by binary search, so they must be sorted in every type.
#[test]
fn fields_are_sorted() {
    fn visit(schema: Schema, seen: &mut Vec<&'static Type>) {
        match schema {
            Schema::Object(of) if !seen.iter().any(|seen| seen.name == of.name) => {
                seen.push(of);
                assert!(
                    of.fields.is_sorted_by(|(a, _), (b, _)| a < b),
                    "{}",
                    of.name
                );
                of.fields.iter().for_each(|(_, field)| visit(*field, seen));
            }
            Schema::Map(inner, _) | Schema::List(inner, _) => visit(*inner, seen),
            _ => {}
        }
    }
    let mut seen = Vec::new();
    visit(table::ROOT, &mut seen);
    assert!(seen.len() > 100, "only {} types", seen.len());
}
