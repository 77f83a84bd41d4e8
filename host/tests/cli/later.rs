//! `podloom render --ephemeral` and `--before` show what plugins do to pods that exist.

use std::fs;

use serde_json::{Value, json};
use tempfile::tempdir;

use super::{Ran, bundle, podloom_in, root};

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: { name: web, namespace: shop }
spec: { containers: [{ name: web, image: 'nginx:1' }] }
";

/// Renders that pod with the standard chain, beside these files.
fn render(files: &[(&str, &str)], more: &[&str]) -> Option<Ran> {
    let bundle = bundle()?;
    let directory = tempdir().expect("a directory");
    fs::write(directory.path().join("pod.yaml"), POD).expect("it is written");
    for (name, text) in files {
        fs::write(directory.path().join(name), text).expect("it is written");
    }
    let path = |name: &str| directory.path().join(name).display().to_string();
    let more: Vec<String> = more
        .iter()
        .map(|it| it.replace("DIR/", &path("")))
        .collect();
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let (pod, plugins) = (path("pod.yaml"), bundle.to_str().expect("it is UTF-8"));
    let fixed = ["render", "-f", &pod, "--plugins", plugins];
    Some(podloom_in(&root(), &[&fixed[..], &more].concat(), ""))
}

#[test]
fn an_ephemeral_container_is_hardened_or_denied_and_the_rest_stays() {
    let debugger = "{ name: debugger, image: 'busybox:1' }";
    let files = [("debug.yaml", debugger)];
    let Some(ran) = render(&files, &["--ephemeral", "DIR/debug.yaml"]) else {
        return;
    };
    assert_eq!(ran.code, 0, "{}", ran.text());
    let pod: Value = serde_saphyr::from_str(&ran.stdout).unwrap();
    let context = &pod["spec"]["ephemeralContainers"][0]["securityContext"];
    assert_eq!(context["capabilities"], json!({ "drop": ["ALL"] }));
    // It exists, so it is neither labelled nor stamped nor hardened itself.
    assert_eq!(
        pod["metadata"],
        json!({ "name": "web", "namespace": "shop" })
    );
    assert_eq!(
        pod["spec"]["containers"],
        json!([{ "name": "web", "image": "nginx:1" }])
    );

    let sysadmin =
        "[{ name: debugger, image: 'busybox:1', securityContext: { privileged: true } }]";
    let ran = render(
        &[("debug.yaml", sysadmin)],
        &["--ephemeral", "DIR/debug.yaml"],
    )
    .unwrap();
    assert_eq!(ran.code, 1, "{}", ran.text());
    assert!(
        ran.stderr
            .contains("[name=debugger]/securityContext/privileged"),
        "{}",
        ran.text()
    );
    let ran = render(
        &[("debug.yaml", "{ image: 'busybox:1' }")],
        &["--ephemeral", "DIR/debug.yaml"],
    )
    .unwrap();
    assert!(
        ran.code != 0 && ran.stderr.contains("needs a name"),
        "{}",
        ran.text()
    );
}

#[test]
fn a_pair_of_pods_is_a_change() {
    let before = POD.replace("nginx:1", "nginx:0");
    let Some(ran) = render(
        &[("before.yaml", &before)],
        &["--before", "DIR/before.yaml", "--explain"],
    ) else {
        return;
    };
    assert_eq!(ran.code, 0, "{}", ran.text());
    let pod: Value = serde_saphyr::from_str(&ran.stdout).unwrap();
    assert_eq!(
        pod["metadata"],
        json!({ "name": "web", "namespace": "shop" })
    );
    assert!(
        ran.stderr.contains("labels") && ran.stderr.contains("operations"),
        "{}",
        ran.text()
    );
    // Nothing changes, or it is another pod.
    let same = render(&[("before.yaml", POD)], &["--before", "DIR/before.yaml"]).unwrap();
    let pod: Value = serde_saphyr::from_str(&same.stdout).unwrap();
    assert!(pod["metadata"]["annotations"].is_null(), "{}", same.text());
    let other = POD.replace("name: web, namespace", "name: other, namespace");
    let new = render(&[("before.yaml", &other)], &["--before", "DIR/before.yaml"]).unwrap();
    assert!(new.stdout.contains("podloom.dev/chain"), "{}", new.text());
}
