//! The commands that other tools call: `podloom fn` and `podloom post-render`.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};

use super::{Ran, bundle, fixtures, podloom_in};

fn deployment(container: &Value) -> Value {
    let annotations = json!({
        "internal.config.kubernetes.io/path": "deploy/web.yaml", "internal.config.kubernetes.io/index": "3",
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "shop", "annotations": annotations },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [container] } },
        },
    })
}

fn function(list: &str) -> Option<Ran> {
    let plugins = bundle()?;
    let arguments = ["fn", "--plugins", plugins.to_str().expect("UTF-8")];
    Some(podloom_in(&fixtures(), &arguments, list))
}

/// A ResourceList with a Deployment and something that is only passed on.
fn list(container: &Value) -> Value {
    let config = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" }, "data": { "a": "0644" } });
    json!({
        "apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList",
        "items": [deployment(container), config],
    })
}

fn read(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("YAML")
}

#[test]
fn a_function_passes_the_items_and_keeps_all_else() {
    let given = list(&json!({ "name": "a", "image": "example.com/a:1" }));
    let Some(ran) = function(&given.to_string()) else {
        return;
    };
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.text());
    let printed = read(&ran.stdout);
    let [before, after] = [&given, &printed].map(|it| it["items"][0].clone());
    assert_eq!(after["metadata"], before["metadata"]);
    let container = &after["spec"]["template"]["spec"]["containers"][0];
    let hardened = &container["securityContext"]["allowPrivilegeEscalation"];
    assert_eq!(*hardened, json!(false), "{container:#}");
    assert_eq!(printed["items"][1], given["items"][1]);
    let results = printed["results"].as_array().expect("notes of plugins");
    assert!(results.iter().all(|it| it["severity"] == "info"));
}

#[test]
fn a_function_says_what_is_wrong_with_which_item() {
    let given = list(&json!({ "name": "a", "image": ["example.com/a:1"] }));
    let Some(ran) = function(&given.to_string()) else {
        return;
    };
    assert_eq!(ran.code, 1, "{}", ran.text());
    let printed = read(&ran.stdout);
    assert_eq!(printed["items"], given["items"], "as it came");
    let results = printed["results"].as_array().expect("results");
    let about = results.iter().find(|it| it["severity"] == "error");
    let about = about.expect("one that is an error");
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop",
    });
    assert_eq!(about["resourceRef"], expected);
    let file = json!({ "path": "deploy/web.yaml", "index": 3 });
    assert_eq!(about["file"], file);
    let field = about["field"]["path"].as_str().expect("a text");
    assert!(
        field.starts_with("spec.template.spec.containers[0]"),
        "{about:#}"
    );
    let place = "deploy/web.yaml: document 1, Deployment";
    assert!(ran.stderr.contains(place), "{}", ran.text());
}

#[test]
fn what_is_no_resource_list_gets_one_clear_error() {
    let plain = deployment(&json!({ "name": "a", "image": "b" })).to_string();
    let odd =
        json!({ "apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": 1 });
    for (input, expected) in [
        (String::new(), "no ResourceList"),
        (format!("{plain}\n---\n{plain}"), "more than one document"),
        (plain, "not a ResourceList of config.kubernetes.io/v1"),
        (odd.to_string(), "items of the ResourceList is not a list"),
    ] {
        let ran = podloom_in(&fixtures(), &["fn", "--plugins", "nowhere"], &input);
        let lines: Vec<&str> = ran.stderr.lines().collect();
        assert_eq!((ran.code, lines.len()), (1, 1), "{}", ran.text());
        assert!(ran.stderr.contains(expected), "{}", ran.text());
        assert_eq!(ran.stdout, "");
    }
    let list = list(&json!({ "name": "a", "image": "b" })).to_string();
    let ran = podloom_in(&fixtures(), &["fn"], &list);
    let advice = "set data.plugins in the functionConfig, --plugins, or PODLOOM_PLUGINS";
    assert!(
        ran.code == 1 && ran.stderr.contains(advice),
        "{}",
        ran.text()
    );
}

#[test]
fn the_function_names_a_chain_unless_who_runs_it_does() {
    let Some(plugins) = bundle() else { return };
    let mut given = list(&json!({ "name": "a", "image": "example.com/a:1" }));
    let run = |arguments: &[&str], given: &Value| {
        podloom_in(
            &fixtures(),
            &[&["fn"], arguments].concat(),
            &given.to_string(),
        )
    };
    given["functionConfig"] = json!({ "kind": "ConfigMap", "data": { "plugins": plugins } });
    let ran = run(&[], &given);
    assert!(
        ran.stdout.contains("allowPrivilegeEscalation: false"),
        "{}",
        ran.text()
    );
    let ran = run(&["--plugins", "nowhere"], &given);
    assert!(
        ran.code != 0 && ran.stderr.contains("nowhere"),
        "{}",
        ran.text()
    );
    given["functionConfig"]["data"]["plugins"] = json!(["a"]);
    let ran = run(&[], &given);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(
        ran.stderr.contains("is no directory: write a text"),
        "{}",
        ran.text()
    );
}

#[test]
fn a_list_in_the_list_passes_no_chain_unnoticed() {
    let mut given = list(&json!({ "name": "a", "image": "example.com/a:1" }));
    let inner = json!([deployment(
        &json!({ "name": "b", "image": "example.com/b:1" })
    )]);
    let inner = json!({ "apiVersion": "v1", "kind": "List", "items": inner });
    given["items"].as_array_mut().expect("items").push(inner);
    let Some(ran) = function(&given.to_string()) else {
        return;
    };
    let printed = read(&ran.stdout);
    assert_eq!((ran.code, &printed["items"]), (1, &given["items"]));
    let place = "items[2]: document 3: it is a list";
    assert!(ran.stderr.contains(place), "{}", ran.text());
}

#[test]
fn a_post_renderer_needs_a_chain_and_objects() {
    let ran = podloom_in(&fixtures(), &["post-render"], "");
    assert!(
        ran.code == 2 && ran.stderr.contains("--plugins"),
        "{}",
        ran.text()
    );
    let Some(plugins) = bundle() else { return };
    let arguments = ["post-render", "-p", plugins.to_str().expect("UTF-8")];
    let ran = podloom_in(&fixtures(), &arguments, "\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.contains("no objects in -"), "{}", ran.text());
}

#[test]
fn as_a_plugin_of_kubectl_it_calls_itself_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let plugin = folder.path().join("kubectl-podloom");
    symlink(env!("CARGO_BIN_EXE_podloom"), &plugin).expect("a link");
    let output = Command::new(&plugin).args(["drift", "--help"]).output();
    let help = String::from_utf8(output.expect("it runs").stdout).expect("UTF-8");
    assert!(help.contains("Usage: kubectl podloom drift"), "{help}");
}
