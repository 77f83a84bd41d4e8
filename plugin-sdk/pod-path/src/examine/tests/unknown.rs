use crate::{Grants, Write};

#[track_caller]
fn check_grant(path: &str, expected: &[&str]) {
    let unknown = Grants::parse(&[path]).expect("a grant").unknown_fields();
    let told: Vec<String> = unknown.iter().map(ToString::to_string).collect();
    assert_eq!(told, expected);
}

#[test]
fn unknown_fields_of_grants_are_told_with_the_nearest_name() {
    check_grant(
        "/spec/containers/*/imagee",
        &["/spec/containers/*/imagee: a pod has no field imagee; did you mean image?"],
    );
    check_grant(
        "/spec/containers/[name=a]/resources/request/cpu",
        &[
            "/spec/containers/[name=a]/resources/request: a pod has no field request; did you mean requests?",
        ],
    );
    check_grant(
        "/spec/zone",
        &[
            "/spec/zone: a pod has no field zone; correct the name, unless your Kubernetes is newer and knows it",
        ],
    );
}

#[test]
fn keys_of_maps_and_known_fields_are_fine() {
    for path in [
        "",
        "/metadata/labels/anything~1at-all",
        "/spec/nodeSelector/zone",
        "/spec/containers/*/env/[name=TZ]/value",
        "/spec/volumes/[name=a]/emptyDir",
    ] {
        check_grant(path, &[]);
    }
}

#[track_caller]
fn check_write(path: &str, new: &str, expected: &[&str]) {
    let write = Write {
        path: path.to_owned(),
        old: None,
        new: Some(new.to_owned()),
    };
    let unknown = write.unknown_fields();
    let paths: Vec<&str> = unknown
        .iter()
        .map(|unknown| unknown.path.as_str())
        .collect();
    assert_eq!(paths, expected);
}

#[test]
fn unknown_fields_of_writes_are_found_in_path_and_value() {
    check_write(
        "/spec/containers/0/imagee",
        "\"a\"",
        &["/spec/containers/0/imagee"],
    );
    check_write(
        "/spec/containers/-",
        r#"{"name": "a", "resources": {"request": {}}, "env": [{"nam": "b"}]}"#,
        &[
            "/spec/containers/-/env/0/nam",
            "/spec/containers/-/resources/request",
        ],
    );
    check_write("/metadata/labels/team", "\"a\"", &[]);
    check_write("/spec/overhead", r#"{"cpu": "1"}"#, &[]);
}
