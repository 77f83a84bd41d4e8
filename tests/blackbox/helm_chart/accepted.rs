//! A real API server accepts what the chart makes of values, without a warning about a field that it does not know.

use std::fs;

use podloom_tests::{Cluster, blackbox_on};
use serde_json::{Value, json};

use super::{Chart, everything};

/// Releases of all duties: with a Deployment each, with one, and for one namespace.
fn releases(namespace: &str) -> [Value; 3] {
    let mut each = everything();
    // This API server does not know the kind.
    each["podMonitor"] = json!({ "enabled": false });
    each["plugins"] = json!({ "configMaps": ["podloom-plugins", "podloom-plugins-2"] });
    each["candidate"] = json!({ "configMaps": ["podloom-candidate"] });
    let mut together = each.clone();
    together["together"] = json!({ "enabled": true });
    together["selenosisApi"] = json!("split");
    let mut narrow = each.clone();
    narrow["webhook"] = json!({ "enabled": false });
    narrow["namespaces"] = json!([namespace]);
    [each, together, narrow]
}

#[test]
fn releases_are_accepted() {
    let Some(chart) = Chart::new() else { return };
    blackbox_on(Cluster::without_operator, "helm-accepted", async |scene| {
        for values in releases(&scene.namespace) {
            let objects = chart.template(("team", &scene.namespace), &values);
            let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects.unwrap() });
            let file = chart.home.path().join("objects.json");
            fs::write(&file, list.to_string()).unwrap();
            let mut kubectl = scene.cluster.plane.kubectl();
            // Others have installed the CustomResourceDefinitions.
            let apply = [
                "apply",
                "--server-side",
                "--dry-run=server",
                "--force-conflicts",
            ];
            let output = kubectl
                .args(apply)
                .arg("--filename")
                .arg(&file)
                .output()
                .unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && stderr.is_empty(),
                "{values}: {stderr}"
            );
        }
    });
}

/// Where something is that another tool has installed, nothing is installed; the guide says what to do then.
#[test]
fn what_others_installed_is_refused_as_the_guide_shows() {
    let Some(chart) = Chart::new() else { return };
    blackbox_on(Cluster::without_operator, "helm-refused", async |scene| {
        let directory = Chart::directory();
        let kubeconfig = scene.cluster.plane.kubeconfig();
        let [directory, kubeconfig] = [&directory, &kubeconfig].map(|path| path.to_str().unwrap());
        let install = [
            "install",
            "team",
            directory,
            "--namespace",
            &scene.namespace,
        ];
        let access = ["--kubeconfig", kubeconfig];
        let output = chart.run(&[&install[..], &access].concat(), &json!({}));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        let guide = Chart::directory().join("../TROUBLESHOOTING.md");
        let guide = fs::read_to_string(guide).unwrap();
        let shown = guide
            .lines()
            .find(|line| line.contains("invalid ownership metadata"));
        let (shown, _) = shown.unwrap().split_once("...").unwrap();
        assert!(stderr.contains(shown), "{stderr}");
    });
}
