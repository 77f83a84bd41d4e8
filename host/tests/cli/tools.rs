//! What the repository has for other tools: the GitHub Action, the hooks of pre-commit, and what krew and Artifact Hub read.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::reports::repository;
use super::root;

fn read(file: &str) -> Value {
    let text = fs::read_to_string(root().join(file)).expect("the file is there");
    serde_saphyr::from_str(&text).expect("YAML")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Runs a script with podloom on PATH; returns its exit code and what it printed on standard error.
fn run(directory: &Path, script: &str, arguments: &[&str], env: &[(&str, &str)]) -> (i32, String) {
    let podloom = Path::new(env!("CARGO_BIN_EXE_podloom"));
    let path = std::env::var("PATH").expect("a PATH");
    let path = format!(
        "{}:{path}",
        podloom.parent().expect("a directory").display()
    );
    let output = Command::new("bash")
        .args([
            "--noprofile",
            "--norc",
            "-eo",
            "pipefail",
            "-c",
            script,
            "bash",
        ])
        .args(arguments)
        .current_dir(directory)
        .env("PATH", path)
        .envs(env.iter().copied())
        .output()
        .expect("bash runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().expect("it exits"), stderr)
}

#[test]
fn the_action_leaves_a_report_and_fails_as_podloom_does() {
    let Some(repository) = repository() else {
        return;
    };
    let directory = repository.path();
    let action = read("deploy/github-action/action.yml");
    let step = list(&action["runs"]["steps"]).last().expect("a step");
    for (plugins, manifests, code, results) in [
        ("chain", "", 0, Some(0)),
        ("chain", "good.yaml\n", 0, Some(0)),
        ("chain", "good.yaml\ndenied.yaml\n", 1, Some(1)),
        ("gone", "", 1, Some(1)),
        ("chain", "--wrong\n", 2, None),
    ] {
        let env = step["env"].as_object().expect("variables").keys();
        let env = env.map(|name| {
            let value = match name.as_str() {
                "PLUGINS" => plugins,
                "MANIFESTS" => manifests,
                "NAMESPACE" => "shop",
                "STRICT" => "false",
                "SARIF" => "out.sarif",
                "GITHUB_OUTPUT" => "out.txt",
                other => panic!("the test does not know {other}"),
            };
            (name.as_str(), value)
        });
        let known = [("GITHUB_OUTPUT", "out.txt"), ("RUNNER_TEMP", ".")];
        let env: Vec<_> = env.chain(known).collect();
        let (found, stderr) = run(directory, text(&step["run"]), &[], &env);
        assert_eq!(found, code, "{plugins} {manifests}: {stderr}");
        let report = fs::read_to_string(directory.join("out.sarif")).ok();
        let report = report.map(|it| serde_json::from_str::<Value>(&it).expect("JSON"));
        let known = report.map(|it| list(&it["runs"][0]["results"]).len());
        assert_eq!(
            known.is_some(),
            results.is_some(),
            "{plugins} {manifests}: {stderr}"
        );
        assert!(known >= results, "{plugins} {manifests}: {known:?}");
    }
    let said = fs::read_to_string(directory.join("out.txt")).expect("outputs");
    assert_eq!(said, "sarif=out.sarif\n".repeat(4));
}

#[test]
fn hooks_pass_a_good_chain_and_refuse_a_bad_one() {
    let Some(repository) = repository() else {
        return;
    };
    let directory = repository.path();
    let hooks = read(".pre-commit-hooks.yaml");
    let broken = directory.join("broken");
    fs::create_dir(&broken).expect("a directory");
    fs::write(broken.join("chain.yaml"), "kind: Odd\n").expect("the chain is written");
    let [check, render] = list(&hooks) else {
        panic!("two hooks")
    };
    for (hook, given, code) in [
        (check, &["chain/chain.yaml"][..], 0),
        (check, &["broken/chain.yaml", "chain/chain.yaml"], 1),
        (
            render,
            &["--plugins", "chain", "--filename", "good.yaml"],
            0,
        ),
        (
            render,
            &[
                "--plugins",
                "chain",
                "--filename",
                "good.yaml",
                "denied.yaml",
            ],
            1,
        ),
        // Without a chain it would check nothing.
        (render, &["--filename", "denied.yaml"], 2),
        (check, &["chain/labels.wasm", "chain/README"], 0),
    ] {
        for field in ["id", "name", "entry", "language"] {
            assert!(!text(&hook[field]).is_empty(), "{field}");
        }
        let script = format!("{} \"$@\"", text(&hook["entry"]));
        let (found, stderr) = run(directory, &script, given, &[]);
        assert_eq!(found, code, "{given:?}: {stderr}");
    }
}

/// The release workflow replaces the words for digests, by the names of the files that it packs.
#[test]
fn krew_gets_the_programs_of_this_version() {
    let plugin = read("deploy/krew/podloom.yaml");
    assert_eq!(
        plugin["apiVersion"],
        "krew.googlecontainertools.github.com/v1alpha2"
    );
    assert_eq!(
        (&plugin["kind"], &plugin["metadata"]["name"]),
        (&json!("Plugin"), &json!("podloom"))
    );
    let spec = &plugin["spec"];
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    assert_eq!(spec["version"], version);
    assert!(text(&spec["shortDescription"]).len() <= 50 && !text(&spec["description"]).is_empty());
    let workflow =
        fs::read_to_string(root().join(".github/workflows/release.yml")).expect("it is there");
    assert!(workflow.contains("s/SHA256-OF-$(basename \"$program\")/$digest/"));
    let platforms = list(&spec["platforms"]);
    for (platform, arch) in platforms.iter().zip(["amd64", "arm64"]) {
        assert_eq!(
            platform["selector"]["matchLabels"],
            json!({ "os": "linux", "arch": arch })
        );
        let file = format!("podloom-linux-{arch}.tar.gz");
        let uri = format!(
            "{}/releases/download/{version}/{file}",
            text(&spec["homepage"])
        );
        assert_eq!(
            (text(&platform["uri"]), text(&platform["bin"])),
            (&*uri, "podloom")
        );
        assert_eq!(text(&platform["sha256"]), format!("SHA256-OF-{file}"));
        assert!(workflow.contains(&format!("architecture: {arch}\n")));
    }
    assert_eq!(platforms.len(), 2);
}

#[test]
fn artifact_hub_gets_the_kinds_and_the_image_of_the_chart() {
    let chart = read("deploy/helm/Chart.yaml");
    let about = |name: &str| {
        let text = text(&chart["annotations"][format!("artifacthub.io/{name}")]);
        serde_saphyr::from_str::<Value>(text).expect("YAML in YAML")
    };
    let image = concat!("ghcr.io/podloom/podloom:", env!("CARGO_PKG_VERSION"));
    assert_eq!(about("images")[0]["image"], image);
    let fields = ["kind", "version", "name"];
    let mut said: Vec<[String; 3]> = list(&about("crds"))
        .iter()
        .map(|it| fields.map(|field| text(&it[field]).to_owned()))
        .collect();
    let mut kinds = Vec::new();
    for directory in fs::read_dir(root().join("deploy/helm/files/crds")).expect("kinds") {
        for file in fs::read_dir(directory.expect("a directory").path()).expect("files") {
            let text = fs::read_to_string(file.expect("a file").path()).expect("UTF-8");
            let crd: Value = serde_saphyr::from_str(&text).expect("YAML");
            let (spec, name) = (&crd["spec"], &crd["metadata"]["name"]);
            let found = [&spec["names"]["kind"], &spec["versions"][0]["name"], name];
            kinds.push(found.map(|it| it.as_str().expect("a text").to_owned()));
        }
    }
    said.sort();
    kinds.sort();
    assert_eq!(said, kinds);
}
