//! Each way of deploy/plugins brings a chain into the operator; a changed one is loaded while sessions run, where the guide says so.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{Cluster, SYSTEM, cluster, named, root};

/// The label that only pods of a changed chain have, with the version of the chain.
pub(crate) const LABEL: &str = "chain-version";

/// An overlay of deploy/: a directory of the target directory, since kustomize takes only relative paths.
pub(crate) fn overlay(name: &str, text: &str) -> TempDir {
    let parent = root().join("target");
    fs::create_dir_all(&parent).unwrap();
    let directory = tempfile::Builder::new()
        .prefix(name)
        .tempdir_in(parent)
        .unwrap();
    let start = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- ../../deploy\n";
    fs::write(
        directory.path().join("kustomization.yaml"),
        format!("{start}{text}"),
    )
    .unwrap();
    directory
}

fn component(way: &str) -> String {
    format!("components:\n- ../../deploy/plugins/{way}\n")
}

/// The standard chain, which also sets our label to this version.
pub(crate) fn bundle(version: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    // Every user can read it: the operator is none of ours.
    fs::set_permissions(
        directory.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    for entry in fs::read_dir(named("PODLOOM_BUNDLE")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
    }
    let manifest = directory.path().join("chain.yaml");
    let mut text = fs::read_to_string(&manifest).unwrap();
    for (after, more) in [
        ("  allow:\n", format!("  - /metadata/labels/{LABEL}\n")),
        (
            "    labels:\n",
            format!("    - key: {LABEL}\n      value: \"{version}\"\n"),
        ),
    ] {
        let start = text.find(after).unwrap() + after.len();
        text.insert_str(start, &more);
    }
    fs::write(&manifest, text).unwrap();
    directory
}

/// Waits until all replicas serve the same chain, another than this one, and returns it.
#[track_caller]
fn until_served(cluster: &Cluster, old: &str) -> String {
    cluster.eventually("the chain is served by all replicas", || {
        let mut served = BTreeSet::new();
        for pod in cluster.operators() {
            let answer = cluster.ask(pod["metadata"]["name"].as_str().unwrap(), "/plugins")?;
            let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
            match answer["chain"].as_str() {
                Some(chain) if chain != old => served.insert(chain.to_owned()),
                _ => return Err(answer.to_string()),
            };
        }
        match served.len() {
            1 => Ok(served.pop_first().unwrap()),
            _ => Err(format!("replicas serve {served:?}")),
        }
    })
}

#[track_caller]
pub(crate) fn assert_made_by(pod: &Value, version: &str) {
    assert_eq!(pod["metadata"]["labels"][LABEL], version);
}

/// Applies the ConfigMaps of a chain, as the comments of the component say.
#[track_caller]
fn apply_bundle(cluster: &Cluster, version: &str) {
    let bundle = bundle(version);
    let directory = bundle.path().display();
    cluster.shell(&format!(
        "podloom bundle {directory} | kubectl apply --server-side --force-conflicts -f -"
    ));
}

#[test]
fn a_changed_config_map_is_swapped_by_the_kubelet_under_sessions() {
    let Some(cluster) = cluster() else { return };
    let directory = overlay("config-map", &component("config-map"));
    cluster.kubectl(&["apply", "--kustomize", directory.path().to_str().unwrap()]);
    // The pods wait for the ConfigMap.
    apply_bundle(&cluster, "one");
    cluster.until_rolled_out();
    cluster.configure_sessions();
    let old = cluster.session("old");
    assert_made_by(&old, "one");
    let served = until_served(&cluster, "");

    apply_bundle(&cluster, "two");
    let served = until_served(&cluster, &served);
    let new = cluster.session("new");
    assert_made_by(&new, "two");
    cluster.assert_untouched(&old);

    // A chain that does not load leaves the last good one in use.
    let broken = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "podloom-plugins", "namespace": SYSTEM },
        "data": { "chain.yaml": "kind: Nonsense\n" },
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), broken.to_string()).unwrap();
    cluster.kubectl(&["replace", "--filename", file.path().to_str().unwrap()]);
    cluster.eventually("an Event says why it does not load", || {
        let events = cluster.try_kubectl(&["events", "--namespace", SYSTEM, "--types=Warning"])?;
        events.contains("chain.yaml").then_some(()).ok_or(events)
    });
    assert_eq!(until_served(&cluster, ""), served);
    let last = cluster.session("last");
    assert_made_by(&last, "two");
    cluster.assert_untouched(&new);
    let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].clone();
    assert!(cluster.operators().iter().all(|pod| restarts(pod) == 0));
}

#[test]
fn several_config_maps_are_one_chain() {
    let Some(cluster) = cluster() else { return };
    let directory = overlay("config-maps", &component("config-maps"));
    cluster.kubectl(&["apply", "--kustomize", directory.path().to_str().unwrap()]);
    // The standard plugins would fit into one.
    let bundle = bundle("split");
    cluster.shell(&format!(
        "cd {} && kubectl create configmap podloom-plugins --namespace podloom-system --from-file chain.yaml && \
         kubectl create configmap podloom-plugins-2 --namespace podloom-system $(printf -- '--from-file %s ' *.wasm.gz)",
        bundle.path().display()
    ));
    cluster.until_rolled_out();
    cluster.configure_sessions();
    assert_made_by(&cluster.session("split"), "split");
}

#[test]
fn an_image_is_a_chain() {
    let Some(cluster) = cluster() else { return };
    let files = tempfile::tempdir().unwrap();
    let bundle = bundle("image");
    let archive = files.path().join("plugins.tar");
    cluster.shell(&format!(
        "podloom bundle {} --oci registry.example.com/podloom-plugins:42 --output {}",
        bundle.path().display(),
        archive.display()
    ));
    cluster.node.load(&archive).unwrap();
    let directory = overlay("image", &component("image"));
    cluster.install(directory.path());
    cluster.configure_sessions();
    assert_made_by(&cluster.session("image"), "image");
}

/// Puts a chain into a directory of a volume, and swaps the link to it, as the comments of the component say.
fn swap(volume: &Path, version: &str) {
    let directory = volume.join(version);
    fs::create_dir(&directory).unwrap();
    for entry in fs::read_dir(bundle(version).path()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, directory.join(path.file_name().unwrap())).unwrap();
    }
    let next = volume.join("..data_tmp");
    symlink(version, &next).unwrap();
    fs::rename(next, volume.join("..data")).unwrap();
}

#[test]
fn a_claim_is_a_chain_that_reloads() {
    let Some(cluster) = cluster() else { return };
    let inside = "/var/node/chains";
    let volume = cluster.node.outside(inside);
    fs::create_dir(&volume).unwrap();
    swap(&volume, "one");
    cluster.apply(&json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": "chains" },
        "spec": {
            "capacity": { "storage": "64Mi" },
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "local": { "path": inside },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                { "key": "kubernetes.io/hostname", "operator": "In", "values": ["real-0"] },
            ] }] } },
        },
    }));
    let directory = overlay("claim", &component("claim"));
    cluster.install(directory.path());
    cluster.configure_sessions();
    let old = cluster.session("old");
    assert_made_by(&old, "one");
    let served = until_served(&cluster, "");

    swap(&volume, "two");
    until_served(&cluster, &served);
    assert_made_by(&cluster.session("new"), "two");
    cluster.assert_untouched(&old);
    cluster.kubectl(&["delete", "pv", "chains", "--wait=false"]);
}
