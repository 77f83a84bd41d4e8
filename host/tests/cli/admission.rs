//! `podloom admission`: what is wrong is explained. The black-box tests run it on a cluster.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{fixtures, podloom};

const RECORDING: &str =
    "{\"apiVersion\":\"podloom.dev/v1alpha1\",\"kind\":\"AdmissionRecording\",\"pods\":2}\n";

#[test]
fn what_is_wrong_is_explained() {
    let workloads = ["diff", "-f", "diff/workloads.yaml"];
    let record = ["record", "answers.jsonl"];
    let recording = ["diff", "--recording", "diff/workloads.yaml"];
    let two = ["--context", "a", "--to-context"];
    for (name, first, more) in [
        ("nothing", &["diff"][..], &[][..]),
        ("one_side", &workloads, &["--context", "a"]),
        ("same_context", &workloads, &[two[0], two[1], two[2], "a"]),
        ("recording_and_files", &recording, &["-f", "diff"]),
        ("recording_and_context", &recording, &["--to-context", "b"]),
        ("recording_as", &recording, &["--as", "me"]),
        ("no_recording", &recording, &[]),
        ("ignore", &recording, &["--ignore", "metadata"]),
        ("into", &workloads, &["--to-context", "b", "--into", "a/b"]),
        ("qps", &workloads, &["--to-context", "b", "--qps", "0"]),
        ("no_pods", &record, &[]),
        (
            "no_directory",
            &["record", "none/answers.jsonl"],
            &["-f", "diff"],
        ),
    ] {
        let ran = podloom(&[&["admission"][..], first, more].concat());
        assert!([1, 2].contains(&ran.code), "{}", ran.text());
        assert_eq!(ran.stdout, "", "{}", ran.text());
        insta::assert_snapshot!(format!("admission_refused_{name}"), ran.text());
    }
}

fn admission(arguments: &[&str], kubeconfig: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podloom"));
    let command = command.arg("admission").args(arguments);
    let output = command.env("KUBECONFIG", kubeconfig).output();
    let output = output.expect("podloom starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), error)
}

#[test]
fn what_is_wrong_with_files_and_contexts_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let [kubeconfig, recording, empty] =
        ["config", "before.jsonl", "empty.yaml"].map(|it| directory.path().join(it));
    let server = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n\
                  clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: a, user: {}}]\n";
    fs::write(&kubeconfig, server).unwrap();
    fs::write(&recording, RECORDING).unwrap();
    fs::write(
        &empty,
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
    )
    .unwrap();
    let [recording, empty] = [&recording, &empty].map(|it| it.to_str().unwrap());
    let pod = fixtures().join("diff/workloads.yaml");
    let pod = pod.to_str().unwrap();
    let written = directory.path().join("answers.jsonl");
    let written = written.to_str().unwrap();
    for (arguments, code, expected) in [
        (
            &["diff", "--recording", recording][..],
            1,
            "before.jsonl: 0 answers are there, and 2 were recorded: record again",
        ),
        (
            &["diff", "-f", pod, "--to-context", "a"],
            2,
            "--context and --to-context are both a: name two contexts, or compare with a --recording",
        ),
        (
            &["diff", "-f", pod, "--to-context", "b"],
            3,
            "the kubeconfig has no context b; it has: a",
        ),
        (&["record", written, "-f", empty], 1, "found no pod: "),
        (
            &["record", written, "-f", pod],
            3,
            "error: the API server: Deployment shop/web: ",
        ),
        (
            &["record", written, "-f", pod, "--context", "a"],
            3,
            "error: the API server of context a: Deployment shop/web: ",
        ),
    ] {
        let (ended, error) = admission(arguments, &kubeconfig);
        assert!(ended == Some(code) && error.contains(expected), "{error}");
        assert!(!Path::new(written).exists(), "{error}");
    }
}
