//! PortalExposes in files.

use serde_json::Value;

use super::{bundle, fixtures, podloom, podloom_in};

const CLASS: &str = "\
apiVersion: portal.gosuda.org/v1alpha1
kind: TunnelClass
metadata: {name: small}
spec: {replicas: 1, size: small}
---
";

const EXPOSE: &str = "\
apiVersion: portal.gosuda.org/v1alpha1
kind: PortalExpose
metadata: {name: web, namespace: shop}
spec:
  app: {name: web, service: {name: web, port: 80}}
  relay: {targets: [{name: primary, url: \"wss://portal.gosuda.org/relay\"}]}
  tunnelClassName: small
---
";

const SERVICE: &str = "\
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{port: 80}]}
";

#[test]
fn an_empty_chain_stamps_the_deployment_and_not_its_pods() {
    let arguments = [
        "render",
        "-f",
        "-",
        "--explain",
        "--only-changed",
        "-p",
        "bundles/empty",
    ];
    let ran = podloom_in(&fixtures(), &arguments, &[CLASS, EXPOSE].concat());
    assert_eq!(ran.code, 0, "{}", ran.text());
    let deployment: Value = serde_saphyr::from_str(&ran.stdout).unwrap();
    let annotations = |of: &Value| {
        let annotations = of["metadata"]["annotations"].as_object();
        annotations.map(|it| it.keys().cloned().collect::<Vec<_>>())
    };
    let stamps = ["podloom.dev/chain", "podloom.dev/mutations"].map(str::to_owned);
    assert_eq!(annotations(&deployment), Some(stamps.to_vec()));
    assert_eq!(annotations(&deployment["spec"]["template"]), None);
    insta::assert_snapshot!(ran.stderr);
}

#[test]
fn a_missing_service_is_a_warning_and_a_note_is_none() {
    let arguments = ["render", "-f", "-", "--strict"];
    let complete = podloom_in(&fixtures(), &arguments, &[CLASS, EXPOSE, SERVICE].concat());
    assert_eq!(complete.code, 0, "{}", complete.text());
    assert!(complete.stderr.starts_with("note: "), "{}", complete.stderr);
    let lacking = podloom_in(&fixtures(), &arguments, &[CLASS, EXPOSE].concat());
    assert_eq!(
        (lacking.code, &*lacking.stdout),
        (1, ""),
        "{}",
        lacking.text()
    );
    let port = SERVICE.replace("80", "443");
    let wrong = podloom_in(&fixtures(), &arguments, &[CLASS, EXPOSE, &port].concat());
    assert!(
        wrong.stderr.contains("Service web has no TCP port 80"),
        "{}",
        wrong.text()
    );
}

#[test]
fn a_report_for_programs_has_no_notes() {
    let arguments = [
        "render",
        "-f",
        "-",
        "--explain",
        "-o",
        "json",
        "-p",
        "bundles/empty",
    ];
    let ran = podloom_in(&fixtures(), &arguments, &[CLASS, EXPOSE, SERVICE].concat());
    let report: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(report["objects"][0]["kind"], "PortalExpose");
    assert_eq!(report["warnings"], serde_json::json!([]));
}

/// What the operator applies in a cluster: labels of the selector stay, and the pod passes the restricted profile as it was rendered.
#[test]
fn the_standard_chain_keeps_a_tunnel_a_tunnel() {
    let Some(bundle) = bundle() else { return };
    let plugins = bundle.to_str().unwrap();
    let files = [CLASS, EXPOSE, SERVICE].concat();
    let arguments = ["render", "-f", "-", "--only-changed", "-p", plugins];
    let ran = podloom_in(&fixtures(), &arguments, &files);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let object = |text: &str| {
        let mut objects: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
        objects.remove(0)
    };
    let deployment = object(&ran.stdout);
    let selector = deployment["spec"]["selector"]["matchLabels"]
        .as_object()
        .unwrap();
    let template = &deployment["spec"]["template"];
    for (key, value) in selector {
        assert_eq!(template["metadata"]["labels"][key], *value);
    }
    assert_eq!(template["spec"]["containers"][0]["name"], "tunnel");
    let diff = podloom_in(&fixtures(), &[&arguments[..], &["--diff"]].concat(), &files);
    assert!(
        diff.stdout.contains("+    podloom.dev/chain: "),
        "{}",
        diff.text()
    );
}

/// What is rendered offline is what an operator with the same flags runs.
#[test]
fn tunnels_follow_the_flags_of_the_operator() {
    let files = [CLASS, EXPOSE, SERVICE].concat();
    let arguments = [
        "render",
        "-f",
        "-",
        "--only-changed",
        "--portal-tunnel-image=example.com/tunnel:2.1.2",
        "--portal-tunnel-version=2.1.2",
        "--portal-progress-deadline=90s",
    ];
    let ran = podloom_in(&fixtures(), &arguments, &files);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&ran.stdout).unwrap();
    let spec = objects.remove(0)["spec"].take();
    assert_eq!(spec["progressDeadlineSeconds"], 90);
    let container = &spec["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "example.com/tunnel:2.1.2");
    // This version has no metrics.
    assert_eq!(container.get("livenessProbe"), None);
    let old = [&arguments[..5], &["--portal-tunnel-version=2.0.9"]].concat();
    let ran = podloom_in(&fixtures(), &old, &files);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("2.1.1"), "{}", ran.text());
}

#[test]
fn a_name_is_used_once() {
    let ran = podloom_in(
        &fixtures(),
        &["render", "-f", "-"],
        &[CLASS, CLASS, EXPOSE, EXPOSE].concat(),
    );
    assert_eq!(ran.code, 1);
    let duplicates = ran
        .stderr
        .matches("metadata.name: duplicate: also defined at")
        .count();
    assert_eq!(duplicates, 2, "{}", ran.text());
}

#[test]
fn their_definitions_are_printed() {
    let ran = podloom(&["crds", "--controllers", "portal"]);
    for name in ["portalexposes", "tunnelclasses"] {
        let file = format!("../crds/portal/{name}.yaml");
        let file =
            std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
        let definition = file.unwrap();
        let definition = definition.split_once('\n').unwrap().1;
        assert!(
            ran.stdout
                .contains(&format!("name: {name}.portal.gosuda.org")),
            "{}",
            ran.text()
        );
        let parsed: Value = serde_saphyr::from_str(definition).unwrap();
        let printed: Vec<Value> = serde_saphyr::from_multiple(&ran.stdout).unwrap();
        assert!(printed.contains(&parsed), "{name}");
    }
}
