//! The leader crashes, and pods are evicted one after the other, as when a node is drained; sessions go on.

use serde_json::json;

use crate::cluster::{Cluster, SYSTEM, cluster, root};
use crate::sessions::NAMESPACE;

/// Evicts a pod, as `kubectl drain` does.
#[track_caller]
fn evict(cluster: &Cluster, namespace: &str, name: &str) {
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "name": name, "namespace": namespace },
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    serde_json::to_writer(&file, &eviction).unwrap();
    let file = file.path().to_str().unwrap();
    let url = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
    // The disruption budget refuses it until the other replica is ready.
    cluster.eventually("the pod is evicted", || {
        cluster.try_kubectl(&["create", "--raw", &url, "--filename", file])
    });
}

#[test]
fn sessions_survive_a_killed_leader_and_evicted_operators() {
    let Some(cluster) = cluster() else { return };
    cluster.install(&root().join("deploy"));
    cluster.configure_sessions();
    let first = cluster.session("before");

    let leader = cluster.eventually("one replica leads", || cluster.leader());
    let pod = cluster.get(&["pod", &leader, "--namespace", SYSTEM]);
    cluster.inside(&["kill", "-KILL", &cluster.process(&pod)]);
    let second = cluster.session("after-kill");
    cluster.eventually("its container restarts, in the same pod", || {
        let now = cluster.get(&["pod", &leader, "--namespace", SYSTEM]);
        let status = &now["status"]["containerStatuses"][0];
        match (status["restartCount"].as_u64(), status["ready"].as_bool()) {
            (Some(1), Some(true)) => Ok(()),
            other => Err(format!("restarts, ready: {other:?}")),
        }
    });

    for pod in cluster.operators() {
        evict(&cluster, SYSTEM, pod["metadata"]["name"].as_str().unwrap());
    }
    let third = cluster.session("after-drain");
    cluster.until_rolled_out();
    for pod in [first, second, third] {
        cluster.assert_untouched(&pod);
    }

    evict(&cluster, NAMESPACE, "before");
    let events = cluster.until_ended("before");
    let disrupted = events
        .iter()
        .any(|event| event.starts_with("PodDisrupted: "));
    assert!(disrupted, "{events:?}");
}
