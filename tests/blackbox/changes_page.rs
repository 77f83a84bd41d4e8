//! The page about changing a chain: its commands run as they are written there, and print what it shows.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use podloom_tests::{Cluster, binary, blackbox_on, standard};
use serde_json::json;

/// A namespace and a pod of this page, and what a Deployment of it looks like.
const NAMESPACE: &str = "shop";
const POD: &str = "web-5d9f8c7b6-x2k4v";

/// Lines of the page that run elsewhere: they need an operator in the cluster, or another terminal.
const ELSEWHERE: [(&str, &str); 8] = [
    (
        "podloom bundle my-chain --name podloom-candidate | kubectl apply --server-side -f -",
        "installs.rs applies bundles",
    ),
    (
        "kubectl apply -k my-overlay",
        "kustomize.rs builds options/candidate",
    ),
    (
        "kubectl port-forward -n podloom-system deploy/podloom-webhook 8080",
        "reload/candidate.rs asks the port",
    ),
    (
        "curl -s localhost:8080/plugins/candidate",
        "reload/candidate.rs asks for this",
    ),
    ("kubectl apply -f main.yaml", "rollout.rs creates one"),
    (
        "podloom rollout status --wait",
        "rollout/people.rs waits for one",
    ),
    (
        "podloom bundle my-chain | kubectl apply --server-side -f -",
        "installs.rs applies bundles",
    ),
    (
        "podloom admission diff --against cluster -n shop --context old --to-context new",
        "admission_diff.rs has two contexts",
    ),
];

/// A grant that nobody needs, for `podloom chain tighten`.
const SPARE: &str = "/metadata/labels/spare";

/// A command of the page.
#[derive(Debug)]
struct Line {
    command: String,
    /// What the page shows of what it prints: pieces that were cut out of it.
    shown: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All commands, in the order of the page.
fn lines(page: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let blocks = page.split("\n```").skip(1).step_by(2);
    for block in blocks {
        if let Some(block) = block.strip_prefix("sh\n") {
            lines.extend(block.lines().map(|line| Line {
                command: without_comment(line),
                shown: Vec::new(),
            }));
        } else if let Some(block) = block.strip_prefix("console\n$ ") {
            let (command, printed) = block.split_once('\n').unwrap();
            let printed = format!("{printed}\n");
            let shown = printed.split("...\n").map(str::to_owned);
            lines.push(Line {
                command: command.to_owned(),
                shown: shown.filter(|piece| !piece.is_empty()).collect(),
            });
        }
    }
    lines
}

fn without_comment(line: &str) -> String {
    let line = line.split(" #").next().unwrap_or_default();
    line.trim().to_owned()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// A directory as a user has it: the plugins, the examples, and the two chains of a pull request.
fn prepare(directory: &Path) {
    for chain in ["target/plugins", "main/chain", "chain"] {
        copy(&standard(), &directory.join(chain));
    }
    edit(&directory.join("chain"), "$(request/kind)", "pull-request");
    fs::create_dir(directory.join("bin")).unwrap();
    symlink(
        root().canonicalize().unwrap().join("deploy"),
        directory.join("deploy"),
    )
    .unwrap();
    symlink(binary().unwrap(), directory.join("bin/podloom")).unwrap();
}

fn edit(chain: &Path, from: &str, to: &str) {
    let manifest = chain.join("chain.yaml");
    let text = fs::read_to_string(&manifest).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(manifest, text.replacen(from, to, 1)).unwrap();
}

/// Runs a command as a shell does, and looks for what the page shows of it.
fn run(line: &Line, directory: &Path, kubeconfig: &Path) {
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", directory.join("bin").display());
    let output = Command::new("sh")
        .args(["-c", &line.command])
        .current_dir(directory)
        .env("PATH", &path)
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    let expected: &[i32] = match line.command.contains("--exit-code") {
        false => &[0],
        // No webhook was ever here, unless another test has made its configuration.
        true if line.command.starts_with("podloom drift") => &[3, 4],
        true => &[4],
    };
    let code = output.status.code().unwrap();
    assert!(expected.contains(&code), "{}: {output:?}", line.command);
    let printed = String::from_utf8(output.stdout).unwrap();
    let printed = printed + &String::from_utf8(output.stderr).unwrap();
    for piece in &line.shown {
        assert!(
            printed.contains(piece),
            "{} does not print\n{piece}\nbut\n{printed}",
            line.command
        );
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
        let directory = directory.path();
        prepare(directory);
        let page = fs::read_to_string(root().join("deploy/CHANGES.md")).unwrap();
        let (elsewhere, here): (Vec<Line>, Vec<Line>) = lines(&page)
            .into_iter()
            .partition(|line| ELSEWHERE.iter().any(|(it, _)| *it == line.command));
        assert_eq!(elsewhere.len(), ELSEWHERE.len(), "{elsewhere:?}");
        let blocks = ["```sh\n", "```console\n"].map(|it| page.matches(it).count());
        assert!(
            here.len() + elsewhere.len() >= blocks.iter().sum(),
            "{here:?}"
        );
        for line in &here {
            run(line, directory, &scene.cluster.plane.kubeconfig());
            if line.command.starts_with("cp ") {
                let grant = "- /metadata/labels/team";
                let spare = format!("{grant}\n  - {SPARE}");
                edit(&directory.join("my-chain"), grant, &spare);
            }
        }
        let manifest = |chain: &str| {
            let path = directory.join(chain).join("chain.yaml");
            fs::read_to_string(path).unwrap()
        };
        assert!(!manifest("my-chain").contains(SPARE), "it is not tightened");
        assert!(manifest("my-chain").contains("value: somebody"));
        let standard = fs::read_to_string(standard().join("chain.yaml")).unwrap();
        assert_eq!(manifest("target/plugins"), standard);
        let delete = ["delete", "namespace", NAMESPACE, "--wait=false"];
        scene.cluster.kubectl(&delete);
    });
}
