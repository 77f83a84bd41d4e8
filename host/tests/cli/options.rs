//! What the options of `podloom render` change.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Ran, bundle, fixtures, podloom, podloom_in};

const UNKNOWN: &str = "rendered/unknown-kinds.yaml";

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("the text is JSON")
}

#[test]
fn yaml_is_read_as_kubectl_reads_it() {
    let file = "rendered/yaml-as-kubectl-reads-it.yaml";
    let ran = podloom(&["render", "-f", file, "-o", "json"]);
    insta::assert_snapshot!(ran.text());
}

#[test]
fn strict_makes_errors_of_warnings() {
    let ran = podloom(&["render", "-f", UNKNOWN]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let warnings = ran.stderr.matches("warning: ").count();
    let ran = podloom(&["render", "-f", UNKNOWN, "--strict"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.text());
    assert_eq!(ran.stderr.matches("error: ").count(), warnings);
    assert!(!ran.stderr.contains("warning: "), "{}", ran.text());
    let ran = podloom(&["render", "-f", "rendered/passed-on.yaml", "--strict"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
}

/// The options of this call name a template for each kind, and then nothing is left to warn of.
fn naming_all(more: &[&str]) -> Ran {
    let arguments = [
        &[
            "render",
            "-f",
            UNKNOWN,
            "--pod-template",
            "keda.sh/ScaledJob=/spec/jobTargetRef/template",
            "--pod-template=jobset.x-k8s.io/JobSet=/spec/replicatedJobs/*/template/spec/template",
            "--pod-template=argoproj.io/Workflow=",
        ],
        more,
    ];
    podloom(&arguments.concat())
}

#[test]
fn named_templates_go_through_the_chain() {
    let ran = naming_all(&[]);
    assert_eq!(ran.stderr.matches("warning: ").count(), 3, "{}", ran.text());
    let Some(bundle) = bundle() else { return };
    let ran = naming_all(&["-p", bundle.to_str().unwrap(), "-o", "json", "--explain"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let objects = json(&ran.stdout);
    let hardened = |path: &str| {
        objects
            .pointer(path)
            .is_some_and(|context| context["runAsNonRoot"] == true)
    };
    for path in [
        "/items/0/spec/jobTargetRef/template/spec/securityContext",
        "/items/1/spec/replicatedJobs/0/template/spec/template/spec/securityContext",
        "/items/1/spec/replicatedJobs/1/template/spec/template/spec/securityContext",
    ] {
        assert!(hardened(path), "{path}: {}", ran.text());
    }
    let report = json(&ran.stderr);
    let templates: Vec<_> = report["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| object["template"].as_str())
        .collect();
    assert_eq!(
        templates,
        [
            None,
            Some("spec.replicatedJobs[0].template.spec.template"),
            Some("spec.replicatedJobs[1].template.spec.template"),
        ]
    );
}

/// Each goes through the chain once, in whatever order they are named, and however often.
#[test]
fn a_template_inside_another_goes_through_the_chain_too() {
    let text = "apiVersion: example.com/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n      containers: [{name: a, image: b}]\n      helpers:\n      - template: {spec: {containers: [{name: a, image: b}]}}\n";
    let Some(bundle) = bundle() else { return };
    let bundle = bundle.to_str().unwrap();
    let outer = "--pod-template=example.com/Job=/spec/template";
    let inner = "--pod-template=example.com/Job=/spec/template/spec/helpers/*/template";
    let same = "--pod-template=example.com/Job=/spec/template/spec/helpers/0/template";
    let render = ["render", "-f", "-", "-p", bundle, "-o", "json", "--explain"];
    for named in [[outer, inner, same], [same, inner, outer]] {
        let ran = podloom_in(&fixtures(), &[&render[..], &named].concat(), text);
        assert_eq!(ran.code, 0, "{}", ran.text());
        let object = json(&ran.stdout);
        for path in ["/spec/template", "/spec/template/spec/helpers/0/template"] {
            let hardened = object.pointer(&format!("{path}/spec/securityContext/runAsNonRoot"));
            assert_eq!(hardened, Some(&true.into()), "{path}: {}", ran.text());
        }
        let report = json(&ran.stderr);
        assert_eq!(
            report["objects"].as_array().map(Vec::len),
            Some(2),
            "{}",
            ran.text()
        );
    }
}

#[test]
fn a_named_template_that_an_object_lacks_is_a_warning() {
    let text = "apiVersion: keda.sh/v1alpha1\nkind: ScaledJob\nmetadata: {name: a}\nspec: {}\n";
    let option = "--pod-template=keda.sh/ScaledJob=/spec/template";
    let ran = podloom_in(&fixtures(), &["render", "-f", "-", option], text);
    let expected = "the object has no pod template at /spec/template, which --pod-template names";
    assert!(ran.stderr.contains(expected), "{}", ran.text());
    let ran = podloom(&["render", "-f", UNKNOWN, "--pod-template=apps/Deployment=/a"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr
            .contains("knows the kind apps/Deployment already"),
        "{}",
        ran.text()
    );
}

/// What a warning advises is something that the program accepts.
#[test]
fn the_advice_about_unknown_kinds_helps() {
    let warning = |text: &str| {
        let ran = podloom_in(&fixtures(), &["render", "-f", "-"], text);
        assert_eq!(ran.code, 0, "{}", ran.text());
        assert_eq!(ran.stderr.matches("warning: ").count(), 1, "{}", ran.text());
        ran.stderr
    };
    let spec = "{containers: [{name: a, image: b}]}";
    let pod = format!("{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {spec}}}");
    for (api_version, kind, rest, expected) in [
        (
            "batch/v1beta1",
            "CronJob",
            format!("spec: {{jobTemplate: {{spec: {{template: {{spec: {spec}}}}}}}}}"),
            "apiVersion: unknown version of CronJob, so the object is neither checked nor changed: write batch/v1\n",
        ),
        (
            "v2",
            "Pod",
            format!("spec: {spec}"),
            "apiVersion: unknown version of Pod, so the object is neither checked nor changed: write v1\n",
        ),
        (
            "v1",
            "podlist",
            format!("items: [{pod}]"),
            "kind: unknown kind podlist, so the object is neither checked nor changed: write PodList\n",
        ),
        (
            "apps/v1beta3",
            "deploymentlist",
            "items: []".to_owned(),
            "write DeploymentList, and apiVersion apps/v1\n",
        ),
        (
            "keda.sh/v1",
            "scaledjob",
            format!("spec: {{a: {{template: {{spec: {spec}}}}}}}"),
            "neither checked nor changed: correct apiVersion and kind\n",
        ),
        (
            "keda.sh/v1",
            "ScaledJob",
            format!("spec: {{'[a]': {{template: {{spec: {spec}}}}}}}"),
            "neither checked nor changed; to accept that, add --pod-template keda.sh/ScaledJob=\n",
        ),
        (
            "keda.sh/v1",
            "ScaledJob",
            format!("spec: [{{template: {{spec: {spec}}}}}]"),
            "neither checked nor changed: add --pod-template 'keda.sh/ScaledJob=/spec/*/template'\n",
        ),
    ] {
        let text =
            format!("{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: a}}, {rest}}}");
        let warning = warning(&text);
        assert!(warning.ends_with(expected), "{expected}{warning}");
    }
}

/// Mistakes that only a plugin finds are reported together with all others.
#[test]
fn rejections_are_reported_with_the_errors_of_other_documents() {
    let Some(bundle) = bundle() else { return };
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: rejected}\nspec: {hostNetwork: true, containers: [{name: a, image: b}]}\n---\nkind: }\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: no-containers}\nspec: {}\n";
    let arguments = [
        "render",
        "-f",
        "-",
        "-f",
        "gone.yaml",
        "-p",
        bundle.to_str().unwrap(),
    ];
    let ran = podloom_in(&fixtures(), &arguments, text);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.text());
    for expected in [
        "gone.yaml: no such file",
        "-:6:7: document 2: invalid YAML",
        "Pod no-containers, spec.containers: the list of containers is missing",
        "Pod rejected: plugin hardening denies the pod",
        "4 errors, so nothing was done",
    ] {
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.text());
    }
}

#[test]
fn a_diff_shows_what_the_chain_changes() {
    let Some(bundle) = bundle() else { return };
    let bundle = bundle.to_str().unwrap();
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: passed-on}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: shop}\nspec: {automountServiceAccountToken: false, containers: [{name: a, image: example.com/a:1}]}\n";
    let ran = podloom_in(
        &fixtures(),
        &["render", "-f", "-", "-p", bundle, "--diff"],
        text,
    );
    let mut said = ran.stderr.lines();
    assert!(
        said.all(|line| line.starts_with("note: ")),
        "{}",
        ran.text()
    );
    assert_eq!(ran.code, 0, "{}", ran.text());
    let without_stamp: Vec<&str> = ran
        .stdout
        .lines()
        .filter(|line| !line.contains("podloom.dev/"))
        .collect();
    insta::assert_snapshot!(without_stamp.join("\n"));
    let ran = podloom_in(&fixtures(), &["render", "-f", "-", "--diff"], text);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("", "no differences\n")
    );
    let ran = podloom_in(
        &fixtures(),
        &["render", "-f", "-", "--diff", "-o", "json"],
        text,
    );
    assert_eq!(ran.code, 2);
}

#[test]
fn a_report_has_writes_notes_warnings_and_errors() {
    let Some(bundle) = bundle() else { return };
    let bundle = bundle.to_str().unwrap();
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: shop}\nspec: {hostNetwork: true, futureField: 1, containers: [{name: a, image: example.com/a:1}]}\n";
    let ran = podloom_in(
        &fixtures(),
        &["render", "-f", "-", "-p", bundle, "--explain", "-o", "json"],
        text,
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    let report = json(&ran.stderr);
    let object = &report["objects"][0];
    assert_eq!(
        (&object["kind"], &object["name"]),
        (&"Pod".into(), &"shop".into())
    );
    assert_eq!((&object["file"], &object["line"]), (&"-".into(), &1.into()));
    let plugins = object["plugins"].as_array().unwrap();
    let outcomes: Vec<_> = plugins
        .iter()
        .map(|plugin| plugin["outcome"].as_str())
        .collect();
    assert_eq!(
        outcomes,
        [Some("Mutated"), Some("Unchanged"), Some("Denied")]
    );
    let write = &plugins[0]["writes"][1];
    assert_eq!(write["path"], "/metadata/labels/submitted-as");
    assert_eq!((write.get("old"), &write["new"]), (None, &"Pod".into()));
    assert!(
        plugins[1]["notes"][0]
            .as_str()
            .unwrap()
            .contains("not injected")
    );
    assert_eq!(report["warnings"][0]["field"], "spec.futureField");
    let error = &report["errors"][0];
    assert!(
        error["message"].as_str().unwrap().contains("hostNetwork"),
        "{error}"
    );
}

/// A program that stands for kubectl, in a PATH of its own.
fn with_kubectl(directory: &Path, script: &str, arguments: &[&str]) -> Ran {
    use std::os::unix::fs::PermissionsExt;
    let programs = directory.join("programs");
    fs::create_dir_all(&programs).expect("the directory is writable");
    let program = programs.join("kubectl");
    fs::write(&program, format!("#!/bin/sh\n{script}")).expect("the directory is writable");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_podloom"));
    let output = command
        .args(arguments)
        .current_dir(directory)
        .env("PATH", &programs)
        .output()
        .expect("podloom starts");
    Ran {
        code: output.status.code().expect("podloom exits by itself"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

#[test]
fn a_kustomization_is_built_by_kubectl() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::create_dir(directory.join("overlay")).unwrap();
    let script = "echo '# built'; echo 'apiVersion: v1'; echo 'kind: ConfigMap'; echo \"metadata: {name: '$*'}\"";
    let ran = with_kubectl(directory, script, &["render", "-k", "overlay"]);
    assert_eq!(
        ran.stdout,
        "# built\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'kustomize -- overlay'}\n",
        "{}",
        ran.text()
    );
    let script = "echo 'apiVersion: v1'; echo 'kind: Pod'";
    let ran = with_kubectl(directory, script, &["render", "-k", "overlay"]);
    let expected = "error: kubectl kustomize overlay:1:1: document 1, Pod without a name";
    assert!(ran.stderr.contains(expected), "{}", ran.text());

    let script = "echo no kustomization.yaml >&2; exit 1";
    let ran = with_kubectl(directory, script, &["render", "-k", "overlay"]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (
            1,
            "error: kubectl kustomize overlay: exit status: 1\n    no kustomization.yaml\n"
        )
    );
    // What kubectl warns of is a warning of ours.
    let script = "echo \"# Warning: 'commonLabels' is deprecated.\" >&2; echo two >&2; echo 'apiVersion: v1'; echo 'kind: ConfigMap'";
    let ran = with_kubectl(directory, script, &["render", "-k", "overlay"]);
    let warning =
        "kubectl kustomize overlay:\n    # Warning: 'commonLabels' is deprecated.\n    two\n";
    assert_eq!((ran.code, ran.stderr), (0, format!("warning: {warning}")));
    let ran = with_kubectl(directory, script, &["render", "-k", "overlay", "--strict"]);
    assert_eq!((ran.code, ran.stderr), (1, format!("error: {warning}")));
    let ran = with_kubectl(directory, "", &["render", "-k", "gone"]);
    let expected = "error: gone: -k takes a directory with a kustomization.yaml\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (1, expected));
    // Endless output is not read to its end.
    let endless =
        "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done";
    let ran = with_kubectl(directory, endless, &["render", "-k", "overlay"]);
    assert!(ran.stderr.contains("larger than 16 MiB"), "{}", ran.text());
}

#[test]
fn without_kubectl_a_kustomization_is_an_error_that_says_what_to_install() {
    let directory = tempfile::tempdir().unwrap();
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_podloom"))
        .args(["render", "-k", "."])
        .current_dir(directory.path())
        .env("PATH", directory.path())
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(1));
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert!(
        stderr.contains("-k needs kubectl or kustomize, and neither is in PATH"),
        "{stderr}"
    );
}

#[test]
fn shells_complete_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = podloom(&["completion", shell]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        assert!(ran.stdout.contains("pod-template"), "{shell}");
    }
    // The script is one that the shell accepts.
    let script = podloom(&["completion", "bash"]).stdout;
    let checked = std::process::Command::new("bash")
        .args(["-n", "-c", &script])
        .status();
    assert!(checked.is_ok_and(|status| status.success()));
}
