//! The operator is upgraded while a session runs, and then uninstalled; the commands are those of deploy/README.md.

use std::fs;

use crate::cluster::{SYSTEM, cluster, root};
use crate::guide;
use crate::sessions::NAMESPACE;
use crate::ways::overlay;

/// The image of the manifests under another tag, as an earlier version.
const EARLIER: &str = "0.0.1";

#[test]
fn a_session_survives_an_upgrade_and_nothing_survives_uninstalling() {
    let Some(cluster) = cluster() else { return };
    let image = format!("ghcr.io/podloom/podloom:{}", env!("CARGO_PKG_VERSION"));
    let earlier = format!("ghcr.io/podloom/podloom:{EARLIER}");
    let tagged = cluster
        .node
        .ctr()
        .args(["images", "tag", "--force", &image, &earlier])
        .status();
    assert!(tagged.unwrap().success());
    let text = format!("images:\n- name: ghcr.io/podloom/podloom\n  newTag: {EARLIER}\n");
    let directory = overlay("upgrade", &text);
    cluster.install(directory.path());
    cluster.configure_sessions();
    let session = cluster.session("long");
    let image_of = |pod: &serde_json::Value| pod["spec"]["containers"][0]["image"].clone();
    assert!(
        cluster
            .operators()
            .iter()
            .all(|pod| image_of(pod) == earlier)
    );

    let guide_text = fs::read_to_string(root().join("deploy/README.md")).unwrap();
    let (_, upgrading) = guide_text.split_once("\n## Upgrading\n").unwrap();
    assert!(upgrading.contains("`kubectl apply -k deploy`"));
    cluster.shell("kubectl apply -k deploy");
    cluster.until_rolled_out();
    assert!(cluster.operators().iter().all(|pod| image_of(pod) == image));
    cluster.session("new");
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
