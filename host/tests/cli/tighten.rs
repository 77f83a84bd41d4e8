//! `podloom chain tighten`, and what `podloom chain check` says about the order of plugins.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{Ran, bundle, podloom, podloom_in, root};

const WORKLOADS: &str = "deploy/examples/workloads.yaml";

/// A chain of the standard plugins' files with these entries.
pub(super) fn chain(entries: &str) -> Option<TempDir> {
    let bundle = bundle()?;
    let directory = tempfile::tempdir().expect("a directory");
    for file in fs::read_dir(bundle).expect("the bundle is there") {
        let file = file.expect("the bundle is readable");
        fs::copy(file.path(), directory.path().join(file.file_name())).expect("the file is copied");
    }
    let head = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n";
    fs::write(
        directory.path().join("chain.yaml"),
        format!("{head}{entries}"),
    )
    .expect("written");
    Some(directory)
}

/// More than any of these plugins needs.
const WIDE: &str = "\
# The default chain, with wide grants.
- name: labels
  file: labels.wasm.gz
  allow:
  # what teams look at
  - /metadata/labels        # all of them
  - /spec/nodeName          # nobody knows why
  config: {labels: [{key: team, value: core}]}
- name: hardening
  file: hardening.wasm.gz
  allow: [/spec, /metadata/labels]
  read: [\"\"]
  config:
    mode: enforce           # not warn
    profile: restricted
";

pub(super) fn text(directory: &TempDir) -> String {
    let text = fs::read_to_string(directory.path().join("chain.yaml")).expect("it is there");
    let (_, entries) = text.split_once("plugins:\n").expect("the head is kept");
    entries.to_owned()
}

fn tighten(directory: &Path, arguments: &[&str]) -> Ran {
    let directory = directory.to_str().expect("UTF-8");
    podloom_in(
        &root(),
        &[&["chain", "tighten", directory][..], arguments].concat(),
        "",
    )
}

/// The output, without the name of the temporary directory.
fn shown(ran: &Ran, directory: &TempDir) -> String {
    ran.text()
        .replace(directory.path().to_str().expect("UTF-8"), "DIR")
}

#[test]
fn wide_grants_are_reported_and_changed_only_if_asked() {
    let Some(directory) = chain(WIDE) else { return };
    let ran = tighten(directory.path(), &["-f", WORKLOADS]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    insta::assert_snapshot!("tighten_report", shown(&ran, &directory));
    assert_eq!(text(&directory), WIDE, "nothing was written");

    let before = chain(WIDE).expect("the bundle is there");
    let ran = tighten(directory.path(), &["-f", WORKLOADS, "--write"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    insta::assert_snapshot!("tighten_written", text(&directory));
    let names = fs::read_dir(directory.path()).expect("it is there");
    assert_eq!(
        names.count(),
        fs::read_dir(before.path()).expect("it is there").count()
    );

    let [old, new] = [&before, &directory].map(|it| it.path().to_str().expect("UTF-8"));
    let diff = ["chain", "diff", old, new, "-f", WORKLOADS, "--exit-code"];
    let ran = podloom_in(&root(), &diff, "");
    assert_eq!(ran.code, 0, "{}", ran.text());
    let ran = podloom(&["chain", "check", new]);
    assert_eq!(ran.code, 0, "{}", ran.text());

    let again = tighten(directory.path(), &["-f", WORKLOADS, "--write"]);
    assert_eq!(again.code, 0, "{}", again.text());
    assert!(
        again.stdout.ends_with(
            "/chain.yaml stays as it is: every grant is used, or declared by its plugin\n"
        ),
        "{}",
        again.text()
    );
}

#[test]
fn the_default_chain_grants_what_its_plugins_declare() {
    let Some(bundle) = bundle() else { return };
    let ran = tighten(&bundle, &["-f", "deploy/examples"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(
        ran.stdout
            .contains("chain.yaml stays as it is: every grant is used, or declared by its plugin"),
        "{}",
        ran.text()
    );
    assert!(
        !ran.stdout.contains("granted and never used"),
        "{}",
        ran.text()
    );
}

/// The pods of standard input are tried many times.
#[test]
fn standard_input_is_read_once() {
    let Some(directory) = chain(WIDE) else { return };
    let directory = directory.path().to_str().expect("UTF-8");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: b}]}\n";
    let ran = podloom_in(&root(), &["chain", "tighten", directory, "-f", "-"], pod);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(
        ran.stdout
            .contains("1 pod comes out the same with these grants\n"),
        "{}",
        ran.text()
    );
}

#[cfg(unix)]
#[test]
fn a_mounted_config_map_is_not_changed() {
    let Some(directory) = chain(WIDE) else { return };
    let (link, target) = (
        directory.path().join("chain.yaml"),
        directory.path().join("real.yaml"),
    );
    fs::rename(&link, &target).expect("it is moved");
    std::os::unix::fs::symlink("real.yaml", &link).expect("a link");
    let ran = tighten(directory.path(), &["-f", WORKLOADS, "--write"]);
    assert_eq!(ran.code, 1, "{}", ran.text());
    assert!(
        ran.stderr
            .contains("it is a symbolic link, as in a mounted ConfigMap"),
        "{}",
        ran.text()
    );
    let ran = tighten(directory.path(), &["-f", WORKLOADS]);
    assert_eq!(ran.code, 0, "{}", ran.text());
}

#[test]
fn lists_that_cannot_be_changed_in_place_are_reported() {
    let shared = "- {name: one, file: labels.wasm.gz, allow: &all [/metadata/labels, /spec], config: {labels: [{key: a, value: b}]}}\n\
        - {name: two, file: labels.wasm.gz, allow: *all, config: {labels: [{key: c, value: d}]}}\n";
    let Some(directory) = chain(shared) else {
        return;
    };
    let ran = tighten(directory.path(), &["-f", WORKLOADS, "--write"]);
    assert_eq!(ran.code, 1, "{}", ran.text());
    assert!(
        ran.stderr.contains("cannot be changed in place"),
        "{}",
        ran.text()
    );
    assert_eq!(text(&directory), shared);
}

/// Each grant that is left and no declared need makes a difference; the standard plugins declare all that they need.
#[test]
fn what_is_left_is_declared_by_the_plugins() {
    let Some(directory) = chain(WIDE) else { return };
    let ran = tighten(directory.path(), &["-f", WORKLOADS, "--write"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let tight = text(&directory);
    let paths = tight
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- /"));
    for path in paths.map(|path| format!("/{}", path.split(' ').next().unwrap_or_default())) {
        let less = tight.replace(&format!("- {path}"), "");
        let Some(less) = chain(&less) else { return };
        let ran = podloom(&["chain", "check", less.path().to_str().expect("UTF-8")]);
        assert_eq!(ran.code, 1, "{path}: {}", ran.text());
    }
}

#[test]
fn the_order_of_plugins_is_explained() {
    let label = |name: &str, key: &str, value: &str, rest: &str| {
        format!(
            "- name: {name}\n  file: labels.wasm.gz\n  idempotent: false\n  allow: [/metadata/labels/{key}]\n  \
             config: {{labels: [{{key: {key}, value: {value}, default: none, mode: overwrite}}]}}\n{rest}"
        )
    };
    let entries = [
        label("tier", "tier", "front", ""),
        label("copy", "copied", "$(pod/metadata/labels/tier)", ""),
        label("front", "front", "seen", "  match: {selector: {matchLabels: {tier: front}}}\n"),
        "- name: hardening\n  file: hardening.wasm.gz\n  \
         allow: [/spec/securityContext, /spec/containers/*/securityContext, /spec/initContainers/*/securityContext]\n  \
         config: {mode: enforce, profile: restricted}\n"
            .to_owned(),
    ];
    let Some(directory) = chain(&entries.concat()) else {
        return;
    };
    let ran = podloom_in(
        &root(),
        &[
            "chain",
            "check",
            directory.path().to_str().expect("UTF-8"),
            "--pods",
            WORKLOADS,
        ],
        "",
    );
    assert_eq!(ran.code, 0, "{}", ran.text());
    let (_, order) = ran
        .stdout
        .split_once("order of the plugins\n")
        .expect("a table");
    let (order, _) = order
        .split_once("4 plugins:")
        .expect("what was tried comes next");
    insta::assert_snapshot!("check_order", order);
}

#[test]
fn a_chain_of_one_plugin_has_no_order() {
    let label = "- {name: a, file: labels.wasm.gz, allow: [/metadata/labels/a], config: {labels: [{key: a, value: b}]}}\n";
    let Some(directory) = chain(label) else {
        return;
    };
    let ran = podloom(&["chain", "check", directory.path().to_str().expect("UTF-8")]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(
        !ran.stdout.contains("order of the plugins"),
        "{}",
        ran.text()
    );
}
