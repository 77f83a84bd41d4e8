//! `podloom corpus record`: what it keeps stands for the cluster.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use podloom_tests::{Cluster, binary, blackbox_on};
use serde_json::{Value, json};

use super::{bundle, diff, names, pods};

fn podloom(arguments: &[&str], kubeconfig: &Path) -> String {
    let mut command = Command::new(binary().unwrap());
    let output = command
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A Deployment with a value that nobody may commit.
fn with_a_secret(namespace: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "secret", "namespace": namespace },
        "spec": {
            "replicas": 0, "selector": { "matchLabels": { "app": "secret" } },
            "template": {
                "metadata": { "labels": { "app": "secret" } },
                "spec": { "containers": [{
                    "name": "a", "image": "example.com/a:1", "args": ["--token=hunter2"],
                    "env": [{ "name": "PASSWORD", "value": "hunter2" }],
                }] },
            },
        },
    })
}

/// All recorded files, by path.
fn recorded_files(root: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for directory in std::fs::read_dir(root).unwrap() {
        let directory = directory.unwrap().path();
        if !directory.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(directory).unwrap() {
            let path = file.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            files.insert(name, std::fs::read_to_string(path).unwrap());
        }
    }
    files
}

#[test]
fn a_recorded_corpus_stands_for_the_cluster() {
    let cluster = Cluster::without_operator;
    blackbox_on(cluster, "corpus", async |scene| {
        let namespace = scene.namespace.as_str();
        let label = ["label", "namespace", namespace, "team=web"];
        scene.cluster.kubectl(&label);
        scene.behaviours().await;
        scene.browser("b", "oom-killed").await;
        for objects in [pods::workloads(namespace), with_a_secret(namespace)] {
            scene.cluster.apply_text(&objects.to_string());
        }
        let admin = scene.cluster.plane.kubeconfig();
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_str().unwrap();
        let record = ["corpus", "record", root, "-n", namespace];
        let said = podloom(&record, &admin);
        assert!(said.contains(" 0 gone"), "{said}");
        let files = recorded_files(directory.path());
        let all = files.values().map(String::as_str).collect::<String>();
        for left_out in [
            "hunter2",
            "last-applied",
            "resourceVersion",
            "status:",
            "kind: Secret",
        ] {
            assert!(!all.contains(left_out), "{left_out} in {all}");
        }
        let secret = &files[&format!("{namespace}/deployment.secret.yaml")];
        assert!(secret.contains("--token=value-1"), "{secret}");

        // Read from the files, the pods are those of the cluster.
        let labels = bundle(
            "[{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], \
             config: { labels: [{ key: team, value: $(namespace/labels/team), default: none }] } }]",
        );
        let names_and_values = ["--names", "1000", "--show-values"];
        let said_of = |of: &[&str]| {
            let of = [of, &names_and_values].concat();
            diff(Path::new("none"), labels.path(), &of, Some(&admin)).1
        };
        let of_cluster = said_of(&["--against", "cluster", "-n", namespace]);
        let of_corpus = said_of(&["--corpus", root]);
        assert_eq!(names(&of_cluster), names(&of_corpus));
        assert_eq!(
            of_cluster["groups"][0]["changes"],
            of_corpus["groups"][0]["changes"]
        );
        assert_eq!(of_cluster["compared"], of_corpus["compared"]);
        let chain = labels.path().to_str().unwrap();
        let tightened = |of: &[&str]| podloom(&[&["chain", "tighten", chain], of].concat(), &admin);
        let of_cluster = tightened(&["--against", "cluster", "-n", namespace]);
        assert!(of_cluster.contains("/metadata/labels/team"), "{of_cluster}");
        assert_eq!(of_cluster, tightened(&["--corpus", root]));

        // Nothing has changed, so nothing is written.
        let said = podloom(&record, &admin);
        assert!(said.contains(" 0 files new or changed, 0 gone"), "{said}");
        let gone = ["delete", "deployment", "secret", "-n", namespace];
        scene.cluster.kubectl(&gone);
        let said = podloom(&record, &admin);
        assert!(said.contains(" 0 files new or changed, 1 gone"), "{said}");
        let files = recorded_files(directory.path());
        assert!(!files.contains_key(&format!("{namespace}/deployment.secret.yaml")));
    });
}
