//! The operator is installed as README.md says, and runs the sessions of the examples.

use serde_json::Value;

use crate::cluster::{SYSTEM, cluster};
use crate::guide;

const EXAMPLES: &str = "shop-tests";

#[test]
fn the_commands_of_the_readme_install_it_and_start_sessions() {
    let Some(cluster) = cluster() else { return };
    for line in guide::install() {
        cluster.shell(&line);
    }
    let operators = cluster.operators();
    assert_eq!(operators.len(), 2);
    for pod in &operators {
        let status = &pod["status"]["containerStatuses"][0];
        assert_eq!(status["ready"], true);
        assert!(
            status["image"]
                .as_str()
                .unwrap()
                .starts_with("ghcr.io/podloom/podloom:")
        );
    }
    // It asks for a whole core, and the node may have only two.
    cluster.kubectl(&[
        "delete",
        "browser",
        "checkout-2",
        "--namespace",
        EXAMPLES,
        "--ignore-not-found",
    ]);
    for name in ["checkout-1", "search-1", "search-2"] {
        let pod = cluster.until_running(EXAMPLES, name);
        assert!(pod["metadata"]["annotations"]["podloom.dev/chain"].is_string());
        assert_eq!(pod["metadata"]["labels"]["team"], "shop");
        let containers = pod["spec"]["initContainers"].as_array().unwrap().iter();
        let companion = |container: &&Value| container["name"] == "companion";
        assert_eq!(
            containers.filter(companion).count(),
            1,
            "the native sidecar"
        );
    }
    let leader = cluster.eventually("one replica leads", || cluster.leader());
    let log = cluster.kubectl(&["logs", &leader, "--namespace", SYSTEM]);
    assert!(log.contains("checkout-1"), "{log}");
    cluster.kubectl(&[
        "delete",
        "browsers",
        "--all",
        "--namespace",
        EXAMPLES,
        "--timeout=60s",
    ]);
    let pods = cluster.get(&["pods", "--namespace", EXAMPLES]);
    assert_eq!(pods["items"].as_array().unwrap().len(), 0);
}
