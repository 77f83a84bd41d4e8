//! The portal controller is installed and uninstalled as deploy/PORTAL.md says, and its examples run.

use serde_json::Value;

use crate::cluster::{Cluster, SYSTEM, cluster};
use crate::guide;

/// The namespace of the examples.
const DEMO: &str = "portal-demo";

impl Cluster {
    #[track_caller]
    fn expose(&self, name: &str) -> Value {
        self.get(&["portalexpose", name, "--namespace", DEMO])
    }

    /// Waits until a condition of a PortalExpose has a reason.
    #[track_caller]
    fn until_reason(&self, name: &str, condition: &str, reason: &str) {
        self.eventually(&format!("{condition} of {name} is {reason}"), || {
            let expose = self.expose(name);
            let conditions = expose["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let found = conditions.find(|it| it["type"] == condition);
            match found {
                Some(found) if found["reason"] == reason => Ok(()),
                _ => Err(expose["status"].to_string()),
            }
        });
    }
}

#[test]
fn tunnels_of_the_guide_run_and_the_guide_uninstalls_them() {
    let Some(cluster) = cluster() else { return };
    for line in guide::portal() {
        // The strictest namespace that there is.
        if line.contains("exposes.yaml") {
            let label = "pod-security.kubernetes.io/enforce=restricted";
            cluster.kubectl(&["label", "namespace", DEMO, label]);
        }
        cluster.shell(&line);
    }
    cluster.shell("kubectl rollout status deployment/podloom-portal --namespace podloom-system --timeout 150s");
    the_tunnel_runs(&cluster);
    // No relay of the examples exists.
    cluster.until_reason("shop", "RelayConnected", "NoRelayConnected");
    // Its class asks for nodes that this cluster does not have.
    cluster.until_reason("preview", "TunnelDeploymentReady", "PodsNotReady");
    for line in guide::uninstall_portal() {
        cluster.shell(&line);
    }
    nothing_is_left(&cluster);
    cluster.kubectl(&["delete", "namespace", DEMO]);
}

fn the_tunnel_runs(cluster: &Cluster) {
    // The controller creates the Deployment a moment after its own is rolled out, so `kubectl rollout status` would not find it.
    cluster.until_reason("shop", "TunnelDeploymentReady", "AllPodsReady");
    let deployment = cluster.get(&["deployment", "shop-tunnel", "--namespace", DEMO]);
    let stamp = &deployment["metadata"]["annotations"]["podloom.dev/chain"];
    assert!(stamp.is_string(), "{}", deployment["metadata"]);
    let key = cluster.get(&["secret", "shop-tunnel-identity", "--namespace", DEMO]);
    assert!(key["data"]["identity.json"].is_string());
}

fn nothing_is_left(cluster: &Cluster) {
    let mut tunnels = cluster.get(&["deployments", "--namespace", DEMO]);
    assert_eq!(tunnels["items"].take(), Value::Array(Vec::new()));
    let selector = "--selector=app.kubernetes.io/name=podloom-portal";
    let kinds = "deployments,services,serviceaccounts,roles,rolebindings,leases";
    let mut left = cluster.get(&[kinds, "--namespace", SYSTEM, selector]);
    assert_eq!(left["items"].take(), Value::Array(Vec::new()));
    let global = "clusterroles,clusterrolebindings,customresourcedefinitions";
    let mut left = cluster.get(&[global, selector]);
    assert_eq!(left["items"].take(), Value::Array(Vec::new()));
    // The key of a hostname stays, and so does the namespace, in which other controllers may be.
    cluster.kubectl(&["get", "secret", "shop-tunnel-identity", "--namespace", DEMO]);
    cluster.kubectl(&["get", "namespace", SYSTEM]);
}
