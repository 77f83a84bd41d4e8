//! Every command of the page about changing a chain runs as it is written there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use podloom_tests::{Cluster, binary, blackbox_on, standard};
use serde_json::json;

/// A namespace and a pod of this page, and what a Deployment of it looks like.
const NAMESPACE: &str = "shop";
const POD: &str = "web-5d9f8c7b6-x2k4v";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The commands of the page's shell blocks that need nothing but `podloom`, each in one line.
fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split_once("```"));
    let joined = blocks.map(|(block, _)| block.replace("\\\n", " "));
    let lines: Vec<String> = joined
        .flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let own = lines.into_iter().map(|line| {
        let line = line.split(" #").next().unwrap_or_default();
        line.trim().to_owned()
    });
    own.filter(|line| line.starts_with("podloom ") || line.starts_with("cp "))
        .filter(|line| !line.contains(['|', '&']) && !line.starts_with("podloom run"))
        .collect()
}

/// A directory as a user has it: the plugins, the examples, and the two chains of a pull request.
fn prepare(directory: &Path) {
    fs::create_dir(directory.join("target")).unwrap();
    fs::create_dir(directory.join("main")).unwrap();
    fs::create_dir(directory.join("bin")).unwrap();
    let links = [
        (standard(), "target/plugins"),
        (standard(), "main/chain"),
        (standard(), "chain"),
        (root().canonicalize().unwrap().join("deploy"), "deploy"),
        (binary().unwrap(), "bin/podloom"),
    ];
    for (from, to) in links {
        symlink(from, directory.join(to)).unwrap();
    }
}

#[test]
fn every_command_runs_as_it_is_written() {
    let cluster = Cluster::without_operator;
    blackbox_on(cluster, "changes-page", async |scene| {
        let spec = json!({ "containers": [{ "name": "web", "image": "example.com/web:1" }] });
        let metadata = |name| json!({ "name": name, "namespace": NAMESPACE });
        let labels = json!({ "app": "web" });
        let items = json!([
            { "apiVersion": "v1", "kind": "Namespace",
              "metadata": { "name": NAMESPACE, "labels": { "podloom.dev/mutate": "enabled" } } },
            { "apiVersion": "v1", "kind": "Pod", "metadata": metadata(POD), "spec": spec },
            { "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("web"), "spec": {
                "replicas": 0, "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": spec } } },
        ]);
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        scene.cluster.apply_text(&list.to_string());
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path());
        let page = fs::read_to_string(root().join("deploy/CHANGES.md")).unwrap();
        let commands = commands(&page);
        assert!(commands.len() > 6, "{commands:?}");
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", directory.path().join("bin").display());
        for command in commands {
            let output = Command::new("sh")
                .args(["-c", &command])
                .current_dir(directory.path())
                .env("PATH", &path)
                .env("KUBECONFIG", scene.cluster.plane.kubeconfig())
                .output()
                .unwrap();
            let code = output.status.code();
            let may_differ = command.contains("--exit-code");
            assert!(
                code == Some(0) || may_differ && code == Some(4),
                "{command}: {output:?}"
            );
        }
        let delete = ["delete", "namespace", NAMESPACE, "--wait=false"];
        scene.cluster.kubectl(&delete);
    });
}
