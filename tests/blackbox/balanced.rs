//! Several API servers behind one address, as in a highly available control plane.

use kube::config::Kubeconfig;
use podloom_tests::doubles::{BackendState, Double};
use podloom_tests::faults::through;
use podloom_tests::{Cluster, Operator, blackbox_on};
use tempfile::NamedTempFile;

#[test]
fn an_operator_goes_on_with_the_api_server_that_is_left() {
    blackbox_on(Cluster::without_operator, "balanced", async |scene| {
        // Both lead to the same API server; what matters is that connections through one of them end.
        let servers = [scene.proxy(), scene.proxy()];
        let addresses = servers.each_ref().map(|server| server.address);
        let balancer = Double::balancer(&addresses);
        let original = Kubeconfig::read_from(scene.cluster.operator_kubeconfig()).unwrap();
        let kubeconfig = NamedTempFile::new().unwrap();
        serde_json::to_writer(&kubeconfig, &through(original, balancer.address())).unwrap();
        let arguments = ["--namespace", &scene.namespace];
        let operator = Operator::spawn(&scene.cluster, kubeconfig.path(), &arguments);
        operator.ready().await;

        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        for (lost, left, name) in [(0, 1, "first-is-lost"), (1, 0, "second-is-lost")] {
            balancer.set(addresses[left], BackendState::Serving);
            balancer.set(addresses[lost], BackendState::Cut);
            let made = servers[left].count("create pods");
            scene.browser(name, "running").await;
            seen.until_runs(name).await;
            assert_eq!(servers[left].count("create pods"), made + 1, "{name}");
        }
        for name in ["first-is-lost", "second-is-lost"] {
            scene.delete_browser(name).await;
            seen.until_gone(name).await;
        }
        scene.nothing_is_left().await;
    });
}
