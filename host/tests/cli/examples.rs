//! With the standard plugins, the pods of the example manifests pass the restricted profile.

use std::path::Path;

use serde_json::Value;

use super::{Ran, bundle, podloom_in, root};

fn render(directory: &str, bundle: &Path, more: &[&str]) -> Ran {
    let plugins = bundle.to_str().expect("the path is UTF-8");
    let arguments = [&["render", "-f", directory, "--plugins", plugins], more].concat();
    podloom_in(&root(), &arguments, "")
}

#[test]
fn every_example_renders_without_a_chain() {
    let ran = podloom_in(&root(), &["render", "-f", "deploy/examples"], "");
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(!ran.stderr.contains("warning"), "{}", ran.text());
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn every_example_passes_the_restricted_profile() {
    let Some(bundle) = bundle() else { return };
    let ran = render("deploy/examples", &bundle, &["--explain"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let objects: Vec<Value> = serde_saphyr::from_multiple(&ran.stdout).unwrap();
    let mut pods = 0;
    for object in &objects {
        let spec = match object["kind"].as_str().unwrap() {
            "Pod" => &object["spec"],
            "CronJob" => &object["spec"]["jobTemplate"]["spec"]["template"]["spec"],
            "Deployment" => &object["spec"]["template"]["spec"],
            _ => continue,
        };
        pods += 1;
        assert_restricted(spec);
    }
    assert_eq!(pods, 7, "{}", ran.text());
    let again = render("deploy/examples", &bundle, &[]);
    assert_eq!(
        again.stdout, ran.stdout,
        "rendering twice gives the same bytes"
    );
}

/// Checks the fields of the restricted profile that the plugin fills in; the plugin's own tests check the rest.
#[track_caller]
fn assert_restricted(spec: &Value) {
    let pod = &spec["securityContext"];
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array().into_iter().flatten() {
            let own = &container["securityContext"];
            assert_eq!(own["allowPrivilegeEscalation"], false, "{container}");
            assert_eq!(
                own["capabilities"]["drop"],
                serde_json::json!(["ALL"]),
                "{container}"
            );
            assert_ne!(own["privileged"], true, "{container}");
            let either = |field: &str| {
                if own[field].is_null() {
                    pod[field].clone()
                } else {
                    own[field].clone()
                }
            };
            assert_eq!(either("runAsNonRoot"), true, "{container}");
            assert_eq!(
                either("seccompProfile")["type"],
                "RuntimeDefault",
                "{container}"
            );
        }
    }
}

#[test]
fn a_pod_that_violates_the_profile_is_rejected_with_the_reason() {
    let Some(bundle) = bundle() else { return };
    let ran = render("deploy/examples/denied", &bundle, &["--explain"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(
        ran.stderr.contains("+ /metadata/labels/team: unassigned")
            && ran.stderr.contains(": denied the pod"),
        "{}",
        ran.text()
    );
    assert!(
        ran.stderr
            .contains("Browser shop-tests/android-1: plugin hardening denies the pod"),
        "{}",
        ran.text()
    );
    assert!(ran.stderr.contains("privileged"), "{}", ran.text());
}

#[test]
fn the_example_chain_loads() {
    let Some(bundle) = bundle() else { return };
    let directory = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(&bundle).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), directory.path().join(entry.file_name())).unwrap();
    }
    let example = root().join("deploy/examples/chain/chain.yaml");
    std::fs::copy(example, directory.path().join("chain.yaml")).unwrap();
    let ran = podloom_in(directory.path(), &["chain", "check", "."], "");
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(
        ran.stdout.contains("8 MiB of memory, 500 ms a call"),
        "{}",
        ran.text()
    );
}
