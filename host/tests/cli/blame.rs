//! `podloom blame` on files. The black-box tests run it on a cluster.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{Ran, bundle, podloom, podloom_in, root};

const TEMPLATE: &str = "blame/deployment.yaml";
const UNSTAMPED: &str = "blame/unstamped.yaml";

/// The pod of the Deployment after the chain, as the API server would store it without any defaults.
fn pod(bundle: &Path) -> Value {
    let bundle = bundle.to_str().expect("the path is UTF-8");
    let ran = podloom(&["render", "-f", TEMPLATE, "--plugins", bundle, "-o", "json"]);
    let rendered: Value = serde_json::from_str(&ran.stdout).expect("an object");
    let template = &rendered["spec"]["template"];
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"] });
    pod["metadata"]["name"] = "web-1".into();
    pod["metadata"]["namespace"] = "shop".into();
    pod
}

fn file(content: &Value) -> NamedTempFile {
    let file = tempfile::Builder::new().suffix(".json").tempfile();
    let file = file.expect("a file");
    serde_json::to_writer(&file, content).expect("the file is written");
    file
}

/// Blames a pod with the plugins of a bundle.
fn blame(pod: &Value, bundle: &Path, more: &[&str]) -> Ran {
    let pod = file(pod);
    let [pod, bundle] = [pod.path(), bundle].map(|it| it.to_str().expect("the path is UTF-8"));
    let arguments = ["blame", "-f", pod, "--plugins", bundle];
    podloom(&[&arguments[..], more].concat())
}

#[test]
fn lines_of_the_standard_plugins_are_proved() {
    let Some(bundle) = bundle() else { return };
    let pod = pod(&bundle);
    let chain = &pod["metadata"]["annotations"]["podloom.dev/chain"];
    let chain = chain.as_str().expect("a stamp");
    let ran = blame(&pod, &bundle, &["--template", TEMPLATE]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.text());
    insta::assert_snapshot!("blame_proved", ran.stdout.replace(&chain[..12], "(chain)"));
    let ran = blame(&pod, &bundle, &["--template", TEMPLATE, "-o", "json"]);
    let printed: Value = serde_json::from_str(&ran.stdout).expect("an object");
    assert_eq!(printed["proof"]["provable"], true, "{printed}");
    let paths = printed["paths"].as_object().expect("paths");
    let mut whose = std::collections::BTreeMap::new();
    for who in paths.values() {
        let plugin = who["plugin"].as_str().unwrap_or("none");
        *whose.entry(plugin).or_insert(0) += 1;
        assert_eq!(
            who["proved"].as_bool(),
            (plugin != "none").then_some(true),
            "{printed}"
        );
    }
    let plugins: Vec<&str> = whose.into_keys().collect();
    assert_eq!(plugins, ["hardening", "labels", "none", "sidecar"]);
    // No value is printed there.
    assert!(!ran.stdout.contains("UTC"), "{}", ran.text());
}

#[test]
fn what_cannot_be_proved_is_said() {
    let Some(bundle) = bundle() else { return };
    let mut pod = pod(&bundle);
    let note = |ran: &Ran| {
        assert_eq!(ran.code, 0, "{}", ran.text());
        let mut lines = ran.stdout.lines();
        let note = lines.find(|line| line.starts_with("# Not provable"));
        note.unwrap_or_else(|| panic!("{}", ran.text())).to_owned()
    };
    let none = note(&blame(&pod, &bundle, &[]));
    assert!(none.ends_with("as --template."), "{none}");
    let other = note(&blame(
        &pod,
        Path::new("bundles/empty"),
        &["--template", TEMPLATE],
    ));
    assert!(other.contains("bundles/empty has the chain"), "{other}");
    pod["metadata"]["annotations"] = json!({});
    let stamp = note(&blame(&pod, &bundle, &["--template", TEMPLATE]));
    assert!(stamp.contains("no stamp"), "{stamp}");
}

/// Everyone who may write a pod may write a stamp.
#[test]
fn a_forged_stamp_costs_little() {
    let Some(bundle) = bundle() else { return };
    let mut pod = pod(&bundle);
    let stamp = pod["metadata"]["annotations"]["podloom.dev/mutations"].take();
    let stamp = stamp.as_str().expect("a stamp");
    let mut forge = |entry: Value| {
        let mut entries: Vec<Value> = serde_json::from_str(stamp).expect("a list");
        entries.push(entry);
        pod["metadata"]["annotations"]["podloom.dev/mutations"] = json!(entries).to_string().into();
        let ran = blame(&pod, &bundle, &["--template", TEMPLATE]);
        assert_eq!(ran.code, 0, "{}", ran.text());
        ran.stdout
    };
    let entry = |name: &str, paths: &[String]| json!({ "name": name, "version": "1", "sha256": "0", "writes": 1, "paths": paths });
    let shown = forge(entry("forged", &[]));
    let note = "# Not provable for forged: the chain has no such plugin.\n";
    assert!(shown.contains(note), "{shown}");
    let paths: Vec<String> = (0..50_000).map(|it| format!("/spec/a{it}")).collect();
    for forged in [entry("forged", &paths), entry("labels", &[])] {
        let shown = forge(forged);
        assert!(shown.contains("# Its stamp cannot be read"), "{shown}");
    }
}

#[test]
fn a_pod_without_a_stamp_is_shown() {
    let ran = podloom(&["blame", "-f", UNSTAMPED]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    insta::assert_snapshot!("blame_unstamped", ran.text());
    let ran = podloom(&["blame", "-f", UNSTAMPED, "-o", "json"]);
    insta::assert_snapshot!("blame_unstamped_json", ran.text());
}

#[test]
fn standard_input_is_read() {
    let pod = fs::read_to_string(root().join("host/tests/cli/fixtures").join(UNSTAMPED));
    let ran = podloom_in(
        &root(),
        &["blame", "-f", "-"],
        &pod.expect("the pod is there"),
    );
    assert!(ran.stdout.contains("| kind: Pod\n"), "{}", ran.text());
}

#[test]
fn only_a_terminal_sees_colours() {
    let ran = podloom(&["blame", "-f", UNSTAMPED]);
    assert!(!ran.stdout.contains('\u{1b}'), "{}", ran.text());
    let ran = podloom(&["blame", "-f", UNSTAMPED, "--color", "always"]);
    assert!(ran.stdout.contains("\u{1b}["), "{}", ran.text());
}

#[test]
fn what_is_wrong_is_explained() {
    let proof = ["-f", UNSTAMPED, "--plugins", "bundles/empty", "--template"];
    let proof_of = |template| [&proof[..], &[template]].concat();
    for (name, arguments) in [
        ("nothing", vec![]),
        ("both", vec!["pod/a", "-f", UNSTAMPED]),
        ("deployment", vec!["deployment/web"]),
        ("bad_name", vec!["pod/Web_1"]),
        ("two_pods", vec!["-f", "blame/two-pods.yaml"]),
        ("no_pod", vec!["-f", TEMPLATE]),
        ("no_file", vec!["-f", "missing.yaml"]),
        (
            "template_alone",
            vec!["-f", UNSTAMPED, "--template", TEMPLATE],
        ),
        ("two_templates", proof_of("blame/two-pods.yaml")),
        ("no_template", proof_of("rendered/only-configs.yaml")),
    ] {
        let ran = podloom(&[&["blame"][..], &arguments].concat());
        assert!([1, 2].contains(&ran.code), "{}", ran.text());
        assert_eq!(ran.stdout, "", "{}", ran.text());
        insta::assert_snapshot!(format!("blame_refused_{name}"), ran.text());
    }
}

#[test]
fn a_cluster_that_is_not_there_is_another_error() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    let server = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n\
                  clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: a, user: {}}]\n";
    fs::write(&kubeconfig, server).unwrap();
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_podloom"))
        .args(["blame", "pod/a", "-n", "shop"])
        .env("KUBECONFIG", &kubeconfig)
        .output()
        .unwrap();
    let error = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(3), "{error}");
    assert!(error.contains("error: cannot read pod shop/a: "), "{error}");
}
