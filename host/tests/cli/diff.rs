//! `podloom chain diff` on files. The black-box tests run it on a cluster.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{Ran, bundle, fixtures, podloom, podloom_in};

const WORKLOADS: &str = "diff/workloads.yaml";

/// A chain of the standard plugins' files with these entries.
fn chain(entries: &str) -> Option<TempDir> {
    let bundle = bundle()?;
    let directory = tempfile::tempdir().expect("a directory");
    for file in fs::read_dir(bundle).expect("the bundle is there") {
        let file = file.expect("the bundle is readable");
        fs::copy(file.path(), directory.path().join(file.file_name())).expect("the file is copied");
    }
    let chain =
        format!("apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n{entries}\n");
    fs::write(directory.path().join("chain.yaml"), chain).expect("the chain is written");
    Some(directory)
}

fn label(value: &str) -> String {
    format!(
        "- name: labels\n  file: labels.wasm.gz\n  allow: [/metadata/labels/team]\n  \
         config: {{labels: [{{key: team, value: {value}, mode: overwrite}}]}}"
    )
}

const HARDENING: &str = "- name: hardening\n  file: hardening.wasm.gz\n  \
    allow: [/spec/securityContext, /spec/containers/*/securityContext, /spec/initContainers/*/securityContext]\n  \
    config: {mode: enforce, profile: restricted}";

fn diff(old: &Path, new: &Path, arguments: &[&str]) -> Ran {
    let [old, new] = [old, new].map(|it| it.to_str().expect("the path is UTF-8"));
    podloom(&[&["chain", "diff", old, new][..], arguments].concat())
}

#[test]
fn differences_are_told_in_each_format() {
    let (Some(old), Some(new)) = (
        chain(&label("one")),
        chain(&format!(
            "{}\n{HARDENING}",
            label("$(namespace/labels/team)")
        )),
    ) else {
        return;
    };
    let of = [
        "-f",
        WORKLOADS,
        "--pod-template",
        "keda.sh/ScaledJob=/spec/jobTargetRef/template",
    ];
    for format in ["text", "json", "markdown"] {
        let ran = diff(old.path(), new.path(), &[&of[..], &["-o", format]].concat());
        assert_eq!(ran.code, 0, "{}", ran.text());
        insta::assert_snapshot!(format!("diff_{format}"), ran.text());
    }
    let values = diff(
        old.path(),
        new.path(),
        &[&of[..], &["--show-values"]].concat(),
    );
    insta::assert_snapshot!("diff_values", values.text());
    let values = ["--show-values", "-o", "markdown", "--names", "1"];
    let ran = diff(old.path(), new.path(), &[&of[..], &values].concat());
    insta::assert_snapshot!("diff_markdown_values", ran.text());
}

#[test]
fn only_a_difference_has_exit_code_4() {
    let (Some(one), Some(two)) = (chain(&label("one")), chain(&label("two"))) else {
        return;
    };
    let of = ["-f", WORKLOADS, "--exit-code"];
    let ran = diff(one.path(), two.path(), &of);
    assert_eq!(ran.code, 4, "{}", ran.text());
    let ran = diff(one.path(), one.path(), &of);
    let untried = "warning: diff/workloads.yaml:33:35: document 5, ScaledJob shop/queue, spec.jobTargetRef.template: podloom does not know the kind keda.sh/ScaledJob, so this pod template is not tried\n";
    let expected = "nothing changes: 3 pods in 2 namespaces come out the same\n";
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (0, expected, untried)
    );
    assert_eq!(diff(one.path(), two.path(), &of[..2]).code, 0);
}

/// Both commands leave the labels of its selector alone, and the webhook does not.
#[test]
fn a_kind_that_the_webhook_does_not_know_is_named_with_the_option_that_tells_it() {
    let Some(labels) = chain(&label("one")) else {
        return;
    };
    let set = "apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSet\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {team: a}}\n  \
        template: {metadata: {labels: {team: a}}, spec: {containers: [{name: a, image: b}]}}\n";
    let directory = labels.path().to_str().unwrap();
    let render = ["render", "-f", "-", "--plugins", directory];
    let diff = ["chain", "diff", "none", directory, "-f", "-"];
    let words = "--pod-owner CloneSet.v1alpha1.apps.kruise.io=NAMESPACE/ACCOUNT; to accept that, add --pod-template apps.kruise.io/CloneSet=/spec/template\n";
    for command in [&render[..], &diff] {
        let ran = podloom_in(&fixtures(), command, set);
        let warnings = ran.stderr.matches(words).count();
        assert_eq!(warnings, 1, "{}", ran.text());
        let accepted = ["--pod-template", "apps.kruise.io/CloneSet=/spec/template"];
        let ran = podloom_in(&fixtures(), &[command, &accepted].concat(), set);
        let warns = ran.stderr.contains("--pod-owner");
        assert!(ran.code == 0 && !warns, "{}", ran.text());
    }
}

/// Also: chains write stamps, and no chain writes none.
#[test]
fn none_is_no_chain() {
    let of = ["-f", WORKLOADS, "--exit-code"];
    let ran = diff(Path::new("none"), Path::new("bundles/empty"), &of);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let ran = diff(Path::new("bundles/empty"), Path::new("none"), &of);
    assert_eq!(ran.code, 0, "{}", ran.text());
    // A directory of this name needs another one.
    let ran = diff(Path::new("./none"), Path::new("bundles/empty"), &of);
    let expected = "error: ./none: no such directory\n";
    assert!(
        ran.code == 1 && ran.stderr.ends_with(expected),
        "{}",
        ran.text()
    );
}

#[test]
fn what_is_wrong_is_explained() {
    let empty = Path::new("bundles/empty");
    for (name, arguments) in [
        (
            "broken_chain",
            &["bundles/empty", "bundles/unknown-field", "-f", WORKLOADS][..],
        ),
        ("no_input", &["none", "none"]),
        (
            "two_inputs",
            &["none", "none", "-f", WORKLOADS, "--against", "cluster"],
        ),
        (
            "all_namespaces_of_files",
            &["none", "none", "-f", WORKLOADS, "-A"],
        ),
        (
            "no_pod",
            &["none", "none", "-f", "rendered/only-configs.yaml"],
        ),
        (
            "mistakes",
            &[
                "none",
                "none",
                "-f",
                "refused/mistakes-in-every-document.yaml",
            ],
        ),
        (
            "no_config",
            &["none", "none", "-f", "refused/no-config.yaml"],
        ),
    ] {
        let ran = podloom(&[&["chain", "diff"][..], arguments].concat());
        assert!([1, 2].contains(&ran.code), "{}", ran.text());
        assert_eq!(ran.stdout, "", "{}", ran.text());
        insta::assert_snapshot!(format!("diff_refused_{name}"), ran.text());
    }
    let ran = diff(empty, empty, &["-f", "rendered/portal.yaml"]);
    let skipped = "skipped: PortalExposes: compare what podloom render prints";
    assert!(ran.stderr.contains(skipped), "{}", ran.text());
}

#[test]
fn a_cluster_that_is_not_there_is_another_error() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    let server = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n\
                  clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: a, user: {}}]\n";
    fs::write(&kubeconfig, server).unwrap();
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_podloom"))
        .args(["chain", "diff", "none", "none", "--against", "cluster"])
        .env("KUBECONFIG", &kubeconfig)
        .output()
        .unwrap();
    let error = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(3), "{error}");
    assert!(error.contains("error: cannot list namespaces: "), "{error}");
}

#[test]
fn a_corpus_is_a_directory_of_manifests() {
    let Some(new) = chain(&label("one")) else {
        return;
    };
    let corpus = tempfile::tempdir().unwrap();
    let deep = corpus.path().join("shop/deployments");
    fs::create_dir_all(&deep).unwrap();
    fs::copy(fixtures().join(WORKLOADS), deep.join("all.yaml")).unwrap();
    let of = ["--corpus", corpus.path().to_str().unwrap()];
    let ran = diff(Path::new("none"), new.path(), &of);
    assert!(
        ran.stdout.starts_with("changed: 2 pods in 2 namespaces\n"),
        "{}",
        ran.text()
    );
}

#[test]
fn standard_input_is_read() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: b}]}\n";
    let arguments = ["chain", "diff", "none", "none", "-f", "-", "-n", "shop"];
    let ran = podloom_in(&fixtures(), &arguments, pod);
    let expected = "nothing changes: 1 pod in 1 namespace comes out the same\n";
    assert_eq!(ran.stdout, expected, "{}", ran.text());
}
