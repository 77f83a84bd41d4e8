//! `podloom render` and `podloom plugin test` show what plugins do to pods that exist.

use std::fs;
use std::path::Path;

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

/// Tries hardening on the cases of a directory, with the rights that the standard chain grants it.
fn try_cases(directory: &Path, more: &[&str]) -> Option<Ran> {
    let bundle = bundle()?;
    let plugin = bundle.join("hardening.wasm.gz");
    let [plugin, chain] = [&plugin, &bundle].map(|path| path.to_str().expect("it is UTF-8"));
    let fixed = ["plugin", "test", plugin, "--chain", chain, "--cases", "."];
    Some(podloom_in(directory, &[&fixed[..], more].concat(), ""))
}

#[test]
fn cases_of_a_plugin_can_be_changes_of_pods_that_exist() {
    let directory = tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        fs::write(directory.path().join(name), text).expect("it is written");
    };
    for name in ["image", "plain", "sysadmin"] {
        write(&format!("{name}.pod.yaml"), POD);
    }
    write("image.before.yaml", &POD.replace("nginx:1", "nginx:0"));
    write("plain.ephemeral.yaml", "{ name: d, image: 'busybox:1' }");
    write(
        "sysadmin.ephemeral.yaml",
        "{ name: d, image: 'busybox:1', securityContext: { privileged: true } }",
    );
    let Some(ran) = try_cases(directory.path(), &["--update"]) else {
        return;
    };
    assert_eq!(ran.code, 0, "{}", ran.text());
    let golden = |name: &str| {
        let path = directory.path().join(format!("{name}.golden.yaml"));
        fs::read_to_string(path).expect("a golden file")
    };
    assert!(golden("sysadmin").starts_with("# denied:"));
    let pod: Value = serde_saphyr::from_str(&golden("plain")).unwrap();
    let hardened = &pod["spec"]["ephemeralContainers"][0]["securityContext"];
    assert_eq!(hardened["allowPrivilegeEscalation"], false, "{pod}");
    // The containers that were there before stay.
    assert_eq!(pod["spec"]["containers"][0].get("securityContext"), None);
    let pod: Value = serde_saphyr::from_str(&golden("image")).unwrap();
    assert_eq!(pod, serde_saphyr::from_str::<Value>(POD).unwrap());
    let ran = try_cases(directory.path(), &[]).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.text());

    // Nothing changes; a change of two kinds; a change of nothing.
    write("image.before.yaml", POD);
    write("plain.before.yaml", POD);
    write("other.before.yaml", POD);
    let ran = try_cases(directory.path(), &[]).unwrap();
    assert!(
        ran.stderr
            .contains("belongs to no case: add other.pod.yaml"),
        "{}",
        ran.text()
    );
    fs::remove_file(directory.path().join("other.before.yaml")).expect("it is there");
    let ran = try_cases(directory.path(), &[]).unwrap();
    for error in ["differs in nothing that may change", "keep one of them"] {
        assert!(ran.stderr.contains(error), "{error}: {}", ran.text());
    }
}

#[test]
fn one_pod_of_a_plugin_can_be_a_change() {
    let Some(bundle) = bundle() else { return };
    let directory = tempdir().expect("a directory");
    fs::write(
        directory.path().join("debug.yaml"),
        "{ name: d, image: 'busybox:1' }",
    )
    .unwrap();
    fs::write(directory.path().join("pod.yaml"), POD).unwrap();
    let plugin = bundle.join("hardening.wasm.gz");
    let [plugin, chain] = [&plugin, &bundle].map(|path| path.to_str().expect("it is UTF-8"));
    let test = |pod: &str, containers: &str| {
        let fixed = ["plugin", "test", plugin, "--chain", chain];
        let given = ["--pod", pod, "--ephemeral", containers];
        podloom_in(directory.path(), &[&fixed[..], &given].concat(), "")
    };
    let ran = test("pod.yaml", "debug.yaml");
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(
        ran.stdout
            .contains("/spec/ephemeralContainers/[name=d]/securityContext"),
        "{}",
        ran.text()
    );
    assert!(
        !ran.stdout.contains("/spec/containers/[name=web]"),
        "{}",
        ran.text()
    );
    let other = POD.replace("name: web, namespace", "name: other, namespace");
    fs::write(directory.path().join("other.yaml"), other).unwrap();
    let fixed = ["plugin", "test", plugin, "--chain", chain];
    let given = ["--pod", "pod.yaml", "--before", "other.yaml"];
    let ran = podloom_in(directory.path(), &[&fixed[..], &given].concat(), "");
    assert!(
        ran.stderr.contains("has none of this namespace and name"),
        "{}",
        ran.text()
    );
    let ran = test("-", "-");
    assert!(
        ran.stderr.contains("both read standard input"),
        "{}",
        ran.text()
    );
}
