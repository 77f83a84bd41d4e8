//! The commands for chains and plugins.

use super::{bundle, fixtures, podloom, podloom_in};

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: shop}\nspec: {containers: [{name: a, image: example.com/a:1}]}\n";

#[test]
fn each_broken_bundle_is_explained() {
    for name in [
        "no-manifest",
        "unknown-field",
        "no-file",
        "not-wasm",
        "duplicate-name",
    ] {
        let directory = format!("bundles/{name}");
        let checked = podloom(&["chain", "check", &directory]);
        assert_eq!(checked.code, 1, "{}", checked.text());
        insta::assert_snapshot!(name, checked.text());
        let rendered = podloom_in(
            &fixtures(),
            &["render", "-f", "-", "--plugins", &directory],
            POD,
        );
        assert_eq!(rendered.text(), checked.text());
        let bundled = podloom(&["bundle", &directory]);
        assert_eq!(bundled.text(), checked.text());
    }
}

#[test]
fn a_missing_directory_is_an_error() {
    let ran = podloom(&["chain", "check", "bundles/gone"]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (1, "error: bundles/gone: no such directory\n")
    );
}

#[test]
fn an_empty_chain_stamps_the_pod() {
    let ran = podloom_in(
        &fixtures(),
        &[
            "render",
            "-f",
            "-",
            "--explain",
            "--plugins",
            "bundles/empty",
        ],
        POD,
    );
    insta::assert_snapshot!(ran.text());
}

#[test]
fn the_schema_of_the_manifest_is_json() {
    let ran = podloom(&["chain", "schema"]);
    let schema: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(schema["properties"]["plugins"].is_object());
}

#[test]
fn the_standard_chain_passes_its_check() {
    let Some(bundle) = bundle() else { return };
    let ran = podloom(&["chain", "check", bundle.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    for plugin in ["labels", "sidecar", "hardening"] {
        assert!(
            ran.stdout.contains(&format!(". {plugin} ")),
            "{}",
            ran.text()
        );
    }
}

#[test]
fn a_chain_is_tried_on_pods_of_the_user() {
    let Some(bundle) = bundle() else { return };
    let bundle = bundle.to_str().unwrap();
    let arguments = ["chain", "check", bundle, "--pods", "-"];
    let ran = podloom_in(&fixtures(), &arguments, POD);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let tried = "on 3 sample pods and 1 pod of yours\n";
    assert!(ran.stdout.contains(tried), "{}", ran.text());
    assert!(!ran.stderr.contains("--pods"), "{}", ran.text());
    let alone = podloom(&["chain", "check", bundle]);
    assert!(
        alone.stdout.contains("on 3 sample pods\n"),
        "{}",
        alone.text()
    );
    assert!(
        alone.stderr.contains("try your own with --pods"),
        "{}",
        alone.text()
    );
}

/// Two plugins that drive each other on, but only if a pod has both labels: none of the sample pods has.
#[test]
fn what_goes_wrong_on_a_pod_of_the_user_is_an_error() {
    let Some(bundle) = bundle() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("labels.wasm.gz");
    std::fs::copy(bundle.join("labels.wasm.gz"), file).unwrap();
    let entry = |name: &str, key: &str, value: &str| {
        format!(
            "- name: {name}\n  file: labels.wasm.gz\n  allow: [/metadata/labels]\n  \
             config: {{labels: [{{key: {key}, value: {value}, mode: overwrite}}]}}\n"
        )
    };
    let head = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n";
    let one = entry("one", "left", "$(pod/metadata/labels/right)");
    let two = entry("two", "right", "$(pod/metadata/labels/left)a");
    let chain = format!("{head}{one}{two}");
    std::fs::write(directory.path().join("chain.yaml"), chain).unwrap();
    let directory = directory.path().to_str().unwrap();
    let check = |pod: &str, code: i32| {
        let arguments = ["chain", "check", directory, "--pods", "-"];
        let ran = podloom_in(&fixtures(), &arguments, pod);
        assert_eq!(ran.code, code, "{}", ran.text());
        ran
    };
    check(POD, 0);
    let labelled = POD.replace("name: shop", "name: shop, labels: {left: a, right: b}");
    let ran = check(&labelled, 1);
    let expected = "the chain is not idempotent: run again on its own result it makes 2 writes: \
                    /metadata/labels/left (one), /metadata/labels/right (two)";
    assert!(ran.stderr.contains(expected), "{}", ran.text());
}

/// A plugin that reads an annotation larger than its memory: none of the sample pods has it.
#[test]
fn a_failure_on_a_pod_of_the_user_is_an_error_though_the_chain_ignores_it() {
    let Some(bundle) = bundle() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("labels.wasm.gz");
    std::fs::copy(bundle.join("labels.wasm.gz"), file).unwrap();
    let chain = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n- name: labels\n  file: labels.wasm.gz\n  \
                 failurePolicy: Ignore\n  limits: {memory: 1Mi}\n  allow: [/metadata/labels]\n  read: [/metadata/annotations]\n  \
                 config: {labels: [{key: team, value: $(pod/metadata/annotations/team)}]}\n";
    std::fs::write(directory.path().join("chain.yaml"), chain).unwrap();
    let directory = directory.path().to_str().unwrap();
    let team = format!("name: shop, annotations: {{team: {}}}", "a".repeat(1 << 20));
    let large = POD.replace("name: shop", &team);
    let arguments = ["chain", "check", directory, "--pods", "-"];
    let ran = podloom_in(&fixtures(), &arguments, &large);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.text());
    let expected = "document 1, Pod shop: plugin labels failed: ";
    assert!(ran.stderr.contains(expected), "{}", ran.text());
    // The pod itself would be created.
    let render = ["render", "-f", "-", "--plugins", directory];
    let ran = podloom_in(&fixtures(), &render, &large);
    assert_eq!(ran.code, 0, "{}", ran.text());
}

/// As render has them, but for the advice about an option that only render has.
#[test]
fn warnings_about_the_pods_to_try_are_printed() {
    let pods = "apiVersion: v1\nkind: Pod\nmetadata: {name: shop}\nspec: {futureField: 1, containers: [{name: a, image: b}]}\n---\n\
                apiVersion: keda.sh/v1\nkind: ScaledJob\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: a, image: b}]}}}\n---\n\
                apiVersion: keda.sh/v1\nkind: ScaledJob\nmetadata: {name: b}\nspec: {job: {spec: {containers: [{name: a, image: b}]}}}\n";
    let unknown = "warning: -:4:8: document 1, Pod shop, spec.futureField: unknown field\n";
    let untried = "warning: -:14:13: document 3, ScaledJob b, spec.job: podloom does not know the kind keda.sh/ScaledJob, so this pod template is not tried\n";
    let arguments = ["chain", "check", "bundles/empty", "--pods", "-"];
    let ran = podloom_in(&fixtures(), &arguments, pods);
    assert_eq!((ran.code, ran.stderr), (0, format!("{unknown}{untried}")));
    let Some(bundle) = bundle() else { return };
    let file = bundle.join("hardening.wasm.gz");
    let test = ["plugin", "test", file.to_str().unwrap(), "--pod", "-"];
    let ran = podloom_in(&fixtures(), &test, pods);
    assert_eq!((ran.code, ran.stderr), (0, format!("{unknown}{untried}")));
}

#[test]
fn plugins_are_inspected_and_tested() {
    let Some(bundle) = bundle() else { return };
    let file = bundle.join("hardening.wasm.gz");
    let file = file.to_str().unwrap();
    let ran = podloom(&["plugin", "inspect", file]);
    assert!(
        ran.stdout.contains("/spec/containers/*/securityContext"),
        "{}",
        ran.text()
    );
    let ran = podloom(&["plugin", "inspect", file, "-o", "json"]);
    let about: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(about["name"], "hardening");
    assert!(about["configSchema"].is_object());
    let ran = podloom_in(&fixtures(), &["plugin", "test", file, "--pod", "-"], POD);
    assert_eq!(ran.code, 0, "{}", ran.text());
    for expected in [
        "+ /spec/securityContext",
        "deterministic  yes",
        "idempotent     yes",
    ] {
        assert!(ran.stdout.contains(expected), "{}", ran.text());
    }
}

#[test]
fn a_plugin_may_try_a_label_of_the_selector() {
    let Some(bundle) = bundle() else { return };
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.yaml");
    let rule = "labels: [{key: app, value: other, mode: overwrite}]\n";
    std::fs::write(&config, rule).unwrap();
    let file = bundle.join("labels.wasm.gz");
    let [file, config] = [&file, &config].map(|path| path.to_str().unwrap());
    let arguments = ["plugin", "test", file, "--pod", "-", "--config", config];
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  selector: {matchLabels: {app: a}}\n  template:\n    metadata: {labels: {app: a}}\n    spec: {containers: [{name: a, image: b}]}\n";
    let ran = podloom_in(&fixtures(), &arguments, deployment);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(ran.stdout.contains("1 write denied"), "{}", ran.text());
}

#[test]
fn a_file_that_is_not_a_plugin_is_an_error() {
    let ran = podloom(&["plugin", "inspect", "bundles/not-wasm/broken.wasm"]);
    assert_eq!(ran.code, 1);
    insta::assert_snapshot!(ran.text());
    let ran = podloom(&["plugin", "inspect", "gone.wasm"]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (1, "error: gone.wasm: no such file\n")
    );
}

#[test]
fn an_endless_plugin_file_is_an_error() {
    let ran = podloom(&["plugin", "inspect", "/dev/zero"]);
    let expected = "error: /dev/zero: the plugin is larger than 32 MiB\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (1, expected));
}

#[test]
fn templates_go_through_the_chain_in_place() {
    let Some(bundle) = bundle() else { return };
    let arguments = [
        "render",
        "-f",
        "-",
        "-p",
        bundle.to_str().unwrap(),
        "-o",
        "json",
    ];
    let cron_job = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec:\n  schedule: '* * * * *'\n  jobTemplate:\n    spec:\n      template:\n        futureField: kept\n        spec: {containers: [{name: a, image: b, env: null}]}\n";
    let ran = podloom_in(&fixtures(), &arguments, cron_job);
    let object: serde_json::Value = serde_json::from_str(&ran.stdout).expect("one JSON object");
    let template = &object["spec"]["jobTemplate"]["spec"]["template"];
    assert_eq!(template["futureField"], "kept");
    assert!(template["metadata"]["annotations"]["podloom.dev/chain"].is_string());
    assert_eq!(template["spec"]["securityContext"]["runAsNonRoot"], true);
    // A template has no kind, so it gets none; and a null field is dropped.
    assert!(template.get("kind").is_none());
    assert!(template["spec"]["containers"][0].get("env").is_none());
    assert!(object["metadata"].get("annotations").is_none());
}

/// A warning about the chain is a warning of render: in its report, and an error under --strict.
#[test]
fn render_reports_what_is_probably_wrong_in_the_chain() {
    let Some(bundle) = bundle() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("labels.wasm.gz");
    std::fs::copy(bundle.join("labels.wasm.gz"), file).unwrap();
    let chain = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n- name: labels\n  file: labels.wasm.gz\n  \
                 allow: [/metadata/labels, /metadata/annotationz]\n  config: {labels: [{key: team, value: shop}]}\n";
    std::fs::write(directory.path().join("chain.yaml"), chain).unwrap();
    let directory = directory.path().to_str().unwrap();
    let render = ["render", "-f", "-", "--plugins", directory];
    let json = ["--explain", "-o", "json"];
    let ran = podloom_in(&fixtures(), &[&render[..], &json].concat(), POD);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let report: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    let warning = report["warnings"][0]["message"].as_str().unwrap();
    assert!(warning.contains("/metadata/annotationz"), "{warning}");
    let strict = podloom_in(&fixtures(), &[&render[..], &["--strict"]].concat(), POD);
    assert_eq!(strict.code, 1, "{}", strict.text());
    assert!(
        strict.stderr.contains("/metadata/annotationz"),
        "{}",
        strict.text()
    );
}

/// Pods that ask for a sidecar and cannot get it are warned of, together; those that ask for nothing have a note.
#[test]
fn render_says_what_plugins_note() {
    let Some(bundle) = bundle() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sidecar.wasm.gz");
    std::fs::copy(bundle.join("sidecar.wasm.gz"), file).unwrap();
    let chain = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n- name: sidecar\n  file: sidecar.wasm.gz\n  \
                 allow: [/spec/initContainers, '/metadata/annotations/sidecar.podloom.dev~1injected']\n  \
                 config: {containers: [{container: {name: proxy, image: proxy}}], injectByDefault: false}\n";
    std::fs::write(directory.path().join("chain.yaml"), chain).unwrap();
    let pod = |name: &str, labels: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{{labels}}}}}\n\
             spec: {{hostNetwork: true, containers: [{{name: a, image: b}}]}}\n---\n"
        )
    };
    let asks = "sidecar.podloom.dev/inject: 'true'";
    let pods = pod("a", asks) + &pod("b", asks) + &pod("c", asks) + &pod("d", "a: b");
    let render = [
        "render",
        "-f",
        "-",
        "-p",
        directory.path().to_str().unwrap(),
    ];
    let ran = podloom_in(&fixtures(), &render, &pods);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let (warnings, notes): (Vec<&str>, Vec<&str>) = ran
        .stderr
        .lines()
        .partition(|line| line.contains("warning: "));
    let [warning] = warnings[..] else {
        panic!("{}", ran.stderr)
    };
    let said = "Pod default/a and 2 more pods: sidecar: not injected: ";
    assert!(warning.contains(said), "{warning}");
    assert!(
        notes.iter().any(|note| note.starts_with("note: ")
            && note.contains("Pod default/d: sidecar: not injected: ")),
        "{notes:?}"
    );
    let strict = podloom_in(&fixtures(), &[&render[..], &["--strict"]].concat(), &pods);
    assert_eq!((strict.code, strict.stdout.as_str()), (1, ""));
    assert!(strict.stderr.contains(said), "{}", strict.stderr);
}
