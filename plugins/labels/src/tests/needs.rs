//! What the plugin asks to read and write.

use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::{Mutator, testing};

use crate::Labels;

#[track_caller]
fn check(config: Value, reads: &[&str], writes: &[&str]) {
    let config = testing::configure::<Labels>(&config).unwrap();
    let needs = Labels::needs(&config);
    assert_eq!(
        (needs.reads, needs.writes),
        (strings(reads), strings(writes))
    );
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn needs_are_the_keys_alone_where_nothing_is_removed() {
    check(json!({}), &[], &[]);
    check(
        json!({ "labels": [{ "key": "example.com/a", "value": "x" }], "inheritLabels": ["team"] }),
        &[],
        &["/metadata/labels/example.com~1a", "/metadata/labels/team"],
    );
}

#[test]
fn the_size_of_all_annotations_is_read_where_one_is_written() {
    check(
        json!({ "annotations": [{ "key": "a", "value": "x" }], "inheritAnnotations": ["b"] }),
        &["/metadata/annotations"],
        &["/metadata/annotations/a", "/metadata/annotations/b"],
    );
}

#[test]
fn a_map_that_may_be_left_empty_is_needed_whole() {
    check(
        json!({
            "labels": [{ "key": "a", "mode": "remove" }, { "key": "b", "value": "x" }],
            "annotations": [{ "key": "a", "mode": "remove" }],
        }),
        &[],
        &["/metadata/labels", "/metadata/annotations"],
    );
}

#[test]
fn sources_in_the_pod_are_read_and_no_more() {
    check(
        json!({
            "labels": [{ "key": "a", "value": "$(pod/spec/serviceAccountName)-$(request/kind)-$(namespace/labels/team)" }],
            "annotations": [{ "key": "b", "value": "$(pod/spec/containers/0/image) $(pod/spec/containers/[name=a~1b]/image)" }],
        }),
        &[
            "/spec/serviceAccountName",
            "/metadata/annotations",
            "/spec/containers/*/image",
            "/spec/containers/[name=a~1b]/image",
        ],
        &["/metadata/labels/a", "/metadata/annotations/b"],
    );
}
