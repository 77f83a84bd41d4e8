//! What `podloom chain check` and `chain tighten` say about programs of the plugin `script`.

use tempfile::TempDir;

use super::tighten::{chain, text};
use super::{Ran, podloom, podloom_in, root};

/// A chain with this program.
fn script(read: &str, program: &str) -> Option<TempDir> {
    let entry = "- name: policy\n  file: script.wasm.gz\n";
    chain(&format!(
        "{entry}  read: {read}\n  config:\n    program: {program}\n"
    ))
}

#[track_caller]
fn check(directory: &TempDir, pods: &str, code: i32) -> Ran {
    let path = directory.path().to_str().expect("UTF-8");
    let ran = match pods {
        "" => podloom(&["chain", "check", path]),
        pods => podloom_in(&root(), &["chain", "check", path, "--pods", "-"], pods),
    };
    assert_eq!(ran.code, code, "{}", ran.text());
    ran
}

#[test]
fn a_limit_that_is_compared_as_a_text_does_not_pass_the_check() {
    let program = "|
      for c in pod.get(\"/spec/containers\") {
        if c?.resources?.limits?.memory > \"4Gi\" { deny(\"over 4Gi\"); }
      }";
    let Some(directory) = script("[/spec/containers]", program) else {
        return;
    };
    let ran = check(&directory, "", 1);
    for words in [
        "plugin policy fails",
        "an absent value with a text",
        "line 2",
        "x ?? 0",
        "\"4Gi\" letter by letter, as a text: write quantity(...)",
    ] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.text());
    }
}

#[test]
fn a_program_that_does_nothing_and_a_comparison_that_is_never_true_are_told() {
    let folded =
        ">\n      // Nobody else.\n      if pod.get(\"/spec/hostPID\") == true { deny(\"no\"); }";
    let Some(directory) = script("[]", folded) else {
        return;
    };
    let ran = check(&directory, "", 0);
    let nothing = "chain.yaml:4: plugin policy: program: the program has no statement";
    assert!(ran.stderr.contains(nothing), "{}", ran.text());

    let never = "if pod.get(\"/spec/priority\") != () && 600 > \"30\" { note(\"never\"); }";
    let directory = script("[/spec/priority]", never).expect("the bundle is there");
    let ran = check(&directory, "", 0);
    let words = "plugin policy: program: line 1, position 43: `>` compares a number with a text, which is never true: write parse_int(...)";
    assert!(ran.stderr.contains(words), "{}", ran.text());
}

#[test]
fn a_deny_that_no_pod_met_is_told() {
    let program = "|
      if pod.get(\"/spec/hostPID\") == true { deny(\"hostPID\"); }
      if pod.get(\"/spec/hostIPC\") == true { deny(\"hostIPC\"); }";
    let Some(directory) = script("[/spec/hostPID, /spec/hostIPC]", program) else {
        return;
    };
    let unmet = "plugin policy: none of the pods met its deny at line";
    // One of the sample pods has hostPID.
    let ran = check(&directory, "", 0);
    assert_eq!(ran.stderr.matches(unmet).count(), 1, "{}", ran.text());
    assert!(
        ran.stderr.contains(&format!("{unmet} 2, position ")),
        "{}",
        ran.text()
    );
    assert!(ran.stderr.contains("--pods FILE"), "{}", ran.text());
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {hostIPC: true, containers: [{name: a, image: a}]}\n";
    let ran = check(&directory, pod, 0);
    assert!(!ran.stderr.contains(unmet), "{}", ran.text());
}

#[test]
fn the_fields_of_a_view_are_what_it_needs() {
    let program = "|
      for c in pod.view(\"/spec\", [\"/containers/*/name\", \"/containers/*/image\"]).containers {
        if c.image.ends_with(\":latest\") { deny(`container ${c.name} has no fixed version`); }
      }";
    let fields = "[/spec/containers/*/image, /spec/containers/*/name]";
    let Some(directory) = script(fields, program) else {
        return;
    };
    check(&directory, "", 0);
    let less = script("[/spec/containers/*/image]", program).expect("the bundle is there");
    let ran = check(&less, "", 1);
    assert!(
        ran.stderr.contains("add /spec/containers/*/name"),
        "{}",
        ran.text()
    );

    let wide = script("[/spec]", program).expect("the bundle is there");
    let path = wide.path().to_str().expect("UTF-8");
    let pods = "deploy/examples/workloads.yaml";
    let ran = podloom_in(
        &root(),
        &["chain", "tighten", path, "-f", pods, "--write"],
        "",
    );
    assert_eq!(ran.code, 0, "{}", ran.text());
    let text = text(&wide);
    assert!(!text.contains("[/spec]"), "{text}");
    for path in ["/spec/containers/*/image", "/spec/containers/*/name"] {
        assert!(text.contains(path), "{text}");
    }
}
