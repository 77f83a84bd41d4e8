//! Writes that are lost, or whose answers are lost: still a session has one pod and leaves nothing.

use podloom_tests::faults::{Fault, Proxy, RequestFilter, Rule};
use podloom_tests::{Cluster, Scene, blackbox_on};

/// More writes than any session needs.
const WRITES: u64 = 20;

/// A rule that injects a fault into one of the writes to Browsers and pods.
fn fault_in_write(number: u64, fault: &Fault) -> Rule {
    let resources = ["browsers", "browsers/status", "pods"];
    Rule {
        on: RequestFilter {
            verbs: vec!["write".to_owned()],
            resources: resources.map(str::to_owned).into(),
            path: String::new(),
        },
        after: number,
        times: Some(1),
        fault: fault.clone(),
    }
}

/// Runs one session for each write that a session needs, and lets that write fail; returns the number of writes.
async fn fail_each_write(scene: &Scene, proxy: &Proxy, fault: Fault, version: &str) -> u64 {
    let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
    for number in 0..WRITES {
        let name = format!("{version}-{number}");
        proxy.set_rules(&[fault_in_write(number, &fault)]);
        scene.browser(&name, version).await;
        if version == "running" {
            seen.until_runs(&name).await;
            scene.delete_browser(&name).await;
        }
        seen.until_gone(&name).await;
        assert_eq!(
            pods.uids(&name).len(),
            1,
            "write {number} of {name}: {fault:?}"
        );
        scene.nothing_is_left().await;
        if proxy.hits() == [0] {
            return number;
        }
    }
    WRITES
}

#[test]
fn whichever_answer_is_lost_there_is_one_pod_and_nothing_is_left() {
    blackbox_on(Cluster::without_operator, "lost-answers", async |scene| {
        let proxy = scene.proxy();
        let _operator = scene.operator_behind(&proxy, &[]).await;
        scene.behaviours().await;
        for version in ["running", "browser-exits"] {
            let writes = fail_each_write(&scene, &proxy, Fault::Cut, version).await;
            // The finalizer, the pod, about three statuses, deleting the pod and removing the finalizer.
            assert!((5..WRITES).contains(&writes), "{version}: {writes} writes");
        }
    });
}

#[test]
fn whichever_write_is_lost_there_is_one_pod_and_nothing_is_left() {
    blackbox_on(Cluster::without_operator, "lost-writes", async |scene| {
        let proxy = scene.proxy();
        let _operator = scene.operator_behind(&proxy, &[]).await;
        scene.behaviours().await;
        for version in ["running", "browser-exits"] {
            let writes = fail_each_write(&scene, &proxy, Fault::Drop, version).await;
            assert!((5..WRITES).contains(&writes), "{version}: {writes} writes");
        }
    });
}
