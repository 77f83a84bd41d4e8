//! The operator is upgraded while a session runs, and then uninstalled; the commands are those of deploy/README.md.

use std::collections::BTreeSet;
use std::fs;

use podloom_image::{Config, Image, Layer};
use podloom_real_node::stand_in;
use serde_json::Value;

use crate::cluster::{Cluster, SYSTEM, cluster, named, root};
use crate::guide;
use crate::sessions::NAMESPACE;
use crate::ways::{LABEL, assert_made_by, bundle, overlay};

/// The chain of plugins in the operator's image.
const PLUGINS: &str = "usr/share/podloom/plugins";

/// The tag of the earlier version.
const EARLIER: &str = "0.0.1";

/// Loads the operator's image as an earlier version, with another chain of plugins in it, and returns its name.
fn load_earlier(cluster: &Cluster) -> String {
    let name = format!("ghcr.io/podloom/podloom:{EARLIER}");
    let bundle = bundle("earlier");
    let mut layer = Layer::default();
    layer.add(&named("PODLOOM_DIST_ROOT"), "").unwrap();
    layer.add(bundle.path(), PLUGINS).unwrap();
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let image = Image {
        names: vec![name.clone()],
        architecture: stand_in::architecture().to_owned(),
        config: Config {
            user: "65532:65532".to_owned(),
            entrypoint: words(&["/usr/bin/podloom"]),
            command: words(&["run", "--plugins", &format!("/{PLUGINS}")]),
            ..Config::default()
        },
        layer,
    };
    let files = tempfile::tempdir().unwrap();
    let archive = files.path().join("earlier.tar");
    podloom_image::write(&image, &archive).unwrap();
    cluster.node.load(&archive).unwrap();
    name
}

/// The images that the operator's pods run, each once: its name, and the digest of what the kubelet found under it.
fn images(cluster: &Cluster) -> BTreeSet<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let image = |pod: &Value| {
        let container = &pod["status"]["containerStatuses"][0];
        (text(&container["image"]), text(&container["imageID"]))
    };
    cluster.operators().iter().map(image).collect()
}

#[test]
fn a_session_survives_an_upgrade_and_nothing_survives_uninstalling() {
    let Some(cluster) = cluster() else { return };
    let image = format!("ghcr.io/podloom/podloom:{}", env!("CARGO_PKG_VERSION"));
    let earlier = load_earlier(&cluster);
    let text = format!("images:\n- name: ghcr.io/podloom/podloom\n  newTag: {EARLIER}\n");
    let directory = overlay("upgrade", &text);
    cluster.install(directory.path());
    cluster.configure_sessions();
    let session = cluster.session("long");
    assert_made_by(&session, "earlier");
    let before = images(&cluster);
    assert!(
        before.iter().all(|(name, _)| *name == earlier),
        "{before:?}"
    );

    let guide_text = fs::read_to_string(root().join("deploy/README.md")).unwrap();
    let (_, upgrading) = guide_text.split_once("\n## Upgrading\n").unwrap();
    assert!(upgrading.contains("`kubectl apply -k deploy`"));
    cluster.shell("kubectl apply -k deploy");
    cluster.until_rolled_out();
    let after = images(&cluster);
    assert!(after.iter().all(|(name, _)| *name == image), "{after:?}");
    let digests = |images: &BTreeSet<(String, String)>| -> BTreeSet<String> {
        images.iter().map(|(_, digest)| digest.clone()).collect()
    };
    assert!(digests(&before).is_disjoint(&digests(&after)), "{after:?}");
    let new = cluster.session("new");
    assert!(new["metadata"]["labels"][LABEL].is_null(), "{new}");
    cluster.assert_untouched(&session);

    for line in guide::uninstall() {
        cluster.shell(&line);
    }
    let pods = cluster.get(&["pods", "--namespace", NAMESPACE]);
    assert_eq!(pods["items"].as_array().unwrap().len(), 0);
    for what in [
        "namespace",
        "crd",
        "clusterrole",
        "clusterrolebinding",
        "flowschema",
    ] {
        let left = cluster.kubectl(&["get", what, "--output=name"]);
        let ours = |line: &&str| line.contains("podloom") || line.contains("selenosis");
        let left: Vec<&str> = left.lines().filter(ours).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    assert!(cluster.try_kubectl(&["get", "namespace", SYSTEM]).is_err());
}
