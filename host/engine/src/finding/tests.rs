use super::{FieldPath, Finding, Subject};

#[track_caller]
fn check(path: FieldPath, expected: &str) {
    let finding = Finding::at(path, &"it is wrong", Subject::Problem);
    assert_eq!(finding.to_string(), expected);
}

#[test]
fn fields_are_written_as_kubernetes_does() {
    check(FieldPath::default(), "it is wrong");
    check(FieldPath::dotted("spec"), "spec: it is wrong");
    let list = FieldPath::dotted("spec.relay.targets");
    check(
        list.index(1).key("url"),
        "spec.relay.targets[1].url: it is wrong",
    );
    check(
        FieldPath::of(["metadata", "annotations", "example.com/a"]),
        "metadata.annotations[\"example.com/a\"]: it is wrong",
    );
    // The name of a version, and no index.
    check(FieldPath::of(["spec", "1"]), "spec.1: it is wrong");
    check(FieldPath::of([""]), "[\"\"]: it is wrong");
}

#[test]
fn keys_of_tenants_stay_short_and_in_their_line() {
    check(FieldPath::of(["a\nb"]), "[\"a\\nb\"]: it is wrong");
    let long = "a".repeat(100);
    check(
        FieldPath::of([long.as_str()]),
        &format!("{}…: it is wrong", "a".repeat(64)),
    );
}
