//! `-o sarif` and `-o junit`: what CI systems read.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::{Ran, bundle, podloom, podloom_in};

/// The schema of oasis-tcs/sarif-spec, unchanged; OASIS lets everybody copy it.
const SCHEMA: &str = include_str!("fixtures/reports/sarif-schema-2.1.0.json");

/// A directory with `good.yaml`, `bad.yaml`, and the chain `chain`: it sets a label, denies privileged pods, and may not write all that
/// it wants to.
pub(super) fn repository() -> Option<TempDir> {
    let bundle = bundle()?;
    let directory = tempfile::tempdir().expect("a directory");
    let chain = directory.path().join("chain");
    fs::create_dir(&chain).expect("a directory");
    for file in ["labels.wasm.gz", "hardening.wasm.gz"] {
        fs::copy(bundle.join(file), chain.join(file)).expect("the file is copied");
    }
    let plugins = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n\
        - name: labels\n  file: labels.wasm.gz\n  allow: [/metadata/labels]\n  \
        config: {labels: [{key: team, value: shop}]}\n\
        - name: hardening\n  file: hardening.wasm.gz\n  allow: [/spec]\n  config: {mode: enforce}\n";
    let write = |file: &str, text: &str| {
        fs::write(directory.path().join(file), text).expect("the file is written");
    };
    write("chain/chain.yaml", plugins);
    let pod = |name: &str, container: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  - {{name: a, image: b, {container}}}\n"
        )
    };
    let hard = "securityContext: {runAsNonRoot: true, allowPrivilegeEscalation: false, seccompProfile: {type: RuntimeDefault}, capabilities: {drop: [ALL]}}";
    write("good.yaml", &pod("good", hard));
    let privileged = pod("one", "securityContext: {privileged: true}");
    let odd = pod("two", "ports: 80");
    write(
        "denied.yaml",
        &format!("{privileged}---\n{}", pod("three", hard)),
    );
    write("odd.yaml", &odd);
    Some(directory)
}

/// The reports of a command, which exits with this code in every format.
#[track_caller]
fn reports(directory: &Path, arguments: &[&str], code: i32) -> [Ran; 2] {
    let text = podloom_in(directory, arguments, "");
    assert_eq!(text.code, code, "{}", text.text());
    ["sarif", "junit"].map(|format| {
        let ran = podloom_in(directory, &[arguments, &["-o", format]].concat(), "");
        assert_eq!(ran.code, code, "{}", ran.text());
        ran
    })
}

/// Checks both, and returns them for a snapshot.
#[track_caller]
fn checked([sarif, junit]: &[Ran; 2]) -> String {
    let mut schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    // Two of its patterns are no regular expressions: a bracket is not closed.
    for place in ["run", "toolComponent"] {
        let language = &mut schema["definitions"][place]["properties"]["language"];
        language
            .as_object_mut()
            .expect("an object")
            .remove("pattern");
    }
    let schema = jsonschema::validator_for(&schema).expect("the schema is one");
    let report: Value = serde_json::from_str(&sarif.stdout).expect("SARIF is JSON");
    let wrong: Vec<String> = schema
        .iter_errors(&report)
        .map(|it| it.to_string())
        .collect();
    assert_eq!(wrong, [""; 0], "{report:#}");
    let run = &report["runs"][0];
    for result in run["results"].as_array().expect("results") {
        let place = &result["locations"][0]["physicalLocation"]["artifactLocation"];
        let uri = place["uri"].as_str().expect("GitHub needs a file");
        assert!(!uri.starts_with('/') && !uri.contains(':'), "{uri}");
        let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
        assert!(
            rules.iter().any(|it| it["id"] == result["ruleId"]),
            "{result}"
        );
    }
    let tests = quick_junit::Report::deserialize_from_str(&junit.stdout).expect("JUnit");
    for suite in &tests.test_suites {
        let names = suite.test_cases.iter().map(|it| it.name.as_str());
        let names: std::collections::BTreeSet<&str> = names.collect();
        assert_eq!(
            names.len(),
            suite.tests,
            "{}: one name for each",
            suite.name.as_str()
        );
    }
    format!("{}----------\n{}", sarif.stdout, junit.stdout)
}

#[test]
fn a_render_tells_each_object() {
    let Some(repository) = repository() else {
        return;
    };
    let files = ["-f", "good.yaml", "-f", "denied.yaml", "-f", "odd.yaml"];
    let render = [&["render", "--plugins", "chain"][..], &files].concat();
    let found = reports(repository.path(), &render, 1);
    insta::assert_snapshot!("render", checked(&found));
    let good = [&render[..5]].concat();
    let [sarif, junit] = reports(repository.path(), &good, 0);
    for text in [sarif.stdout, junit.stdout] {
        assert!(!text.contains("kind: Pod"), "no object is printed: {text}");
    }
}

#[test]
fn a_check_tells_each_plugin_and_pod() {
    let Some(repository) = repository() else {
        return;
    };
    let check = ["chain", "check", "chain", "--pods", "denied.yaml"];
    let found = reports(repository.path(), &check, 0);
    insta::assert_snapshot!("check", checked(&found));
    assert!(found[0].stderr.contains("1. labels"), "{}", found[0].text());
    let chain = repository.path().join("chain/chain.yaml");
    let text = fs::read_to_string(&chain).expect("the chain");
    fs::write(&chain, text.replace("mode: enforce", "mode: odd")).expect("the chain is written");
    let found = reports(repository.path(), &check, 1);
    insta::assert_snapshot!("check_broken", checked(&found));
}

#[test]
fn a_diff_tells_each_group_and_no_value() {
    let Some(repository) = repository() else {
        return;
    };
    let diff = [
        "chain",
        "diff",
        "none",
        "chain",
        "-f",
        "good.yaml",
        "denied.yaml",
    ];
    let found = reports(repository.path(), &diff, 0);
    insta::assert_snapshot!("diff", checked(&found));
    let shown = [&diff[..], &["--show-values", "--exit-code"]].concat();
    let [sarif, junit] = reports(repository.path(), &shown, 4);
    assert!(sarif.stderr.contains("+ shop"), "{}", sarif.text());
    assert!(!junit.stdout.contains("shop") && !sarif.stdout.contains("shop"));
    assert!(
        junit.stdout.contains("failures=\"2\""),
        "all are: {}",
        junit.stdout
    );
}

#[test]
fn a_test_tells_each_case_and_no_value() {
    let Some(repository) = repository() else {
        return;
    };
    let secret = "env: [{name: KEY, value: hush}]";
    let directory = repository.path();
    let pod = fs::read_to_string(directory.join("good.yaml")).expect("the pod");
    fs::create_dir(directory.join("cases")).expect("a directory");
    for (file, text) in [
        (
            "a.pod.yaml",
            pod.replace("image: b", &format!("image: b, {secret}")),
        ),
        ("a.golden.yaml", pod.clone()),
        ("b.pod.yaml", pod.replace("good", "{")),
        ("c.pod.yaml", pod),
    ] {
        fs::write(directory.join("cases").join(file), text).expect("the case is written");
    }
    let plugin = "chain/labels.wasm.gz";
    let test = [
        "plugin", "test", plugin, "--chain", "chain", "--cases", "cases",
    ];
    let found = reports(directory, &test, 1);
    insta::assert_snapshot!("test", checked(&found));
    assert!(
        found
            .iter()
            .all(|it| !it.stdout.contains("hush") && it.stderr.contains("hush"))
    );
}

#[test]
fn what_could_not_begin_has_no_report() {
    for (arguments, code) in [
        (
            &["plugin", "test", "gone.wasm", "-o", "sarif", "--update"][..],
            2,
        ),
        (&["infra", "check", "-f", "a.yaml", "-o", "sarif"], 2),
    ] {
        let ran = podloom(arguments);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (code, ""),
            "{}",
            ran.text()
        );
    }
}
