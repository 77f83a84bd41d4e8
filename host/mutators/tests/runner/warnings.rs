//! Probable mistakes in a chain that can serve.

use crate::support::{load, plugin};

#[track_caller]
fn check(fixture: &str, lines: &str, expected: &[&str]) {
    let entry = format!("\n- name: it\n  file: it.wasm\n  {lines}");
    let chain = load(&entry, &[("it.wasm", &plugin(fixture))]).expect("a chain");
    let told: Vec<String> = chain.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(told, expected);
}

#[test]
fn a_misspelt_field_of_a_grant_is_told_with_the_nearest_name() {
    check(
        "good",
        "allow: [/metadata/labels, /metadata/annotationz]",
        &[
            "chain.yaml:4: plugin it: chain.yaml grants /metadata/annotationz: a pod has no field annotationz; did you mean annotations?",
        ],
    );
    check(
        "good",
        "allow: [/metadata/labels]\n  read: ['/spec/containers/*/imagee']",
        &[
            "chain.yaml:4: plugin it: chain.yaml grants /spec/containers/*/imagee: a pod has no field imagee; did you mean image?",
        ],
    );
}

#[test]
fn a_kind_that_no_plugin_sees_is_told() {
    check(
        "good",
        "allow: [/metadata/labels]\n  match: { kinds: [Deployment, Browsers, Pod, Browser] }",
        &[
            "chain.yaml:4: plugin it: `match.kinds` has Deployment, which no plugin ever sees; write Pod, which stands for all objects with a pod template, or Browser",
            "chain.yaml:4: plugin it: `match.kinds` has Browsers, which no plugin ever sees; did you mean Browser?",
        ],
    );
}

#[test]
fn what_a_plugin_needs_and_writes_is_checked_too() {
    check(
        "misspells",
        "allow: [/spec]",
        &[
            "chain.yaml:4: plugin it: it needs to write /spec/hostNetwrok: a pod has no field hostNetwrok; did you mean hostNetwork?",
            "chain.yaml:4: plugin it: it writes /spec/dnsConfig/option: a pod has no field option; did you mean options?",
        ],
    );
}

#[test]
fn a_chain_without_mistakes_has_no_warnings() {
    check(
        "good",
        "allow: [/metadata/labels]\n  match: { kinds: [Browser, Pod] }",
        &[],
    );
    check(
        "needy",
        "allow: [/metadata/labels, /spec/containers]\n  read: [/spec]",
        &[],
    );
}
