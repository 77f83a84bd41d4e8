//! Many Cleaners at once.

use std::time::Instant;

use kube::api::ListParams;
use podloom_tests::cleaner::{Cleaners, map_target};
use podloom_tests::faults::Proxy;
use podloom_tests::{Cluster, blackbox_on, eventually};
use serde_json::{Value, json};

const COUNT: usize = 100;

/// What a Cleaner looks at besides what it deletes: one object for all of them.
fn signal() -> Value {
    json!({ "name": "signal", "includeWhenEvaluating": true,
        "reference": { "apiVersion": "v1", "kind": "ConfigMap", "name": "signal" } })
}

/// How many writes to Cleaners and ConfigMaps went well. The cache may still show a Cleaner that is gone; then one more finds nothing.
fn writes(proxy: &Proxy) -> u64 {
    let requests = [
        "patch cleaners",
        "patch cleaners/status",
        "delete cleaners",
        "delete configmaps",
    ];
    let counts = proxy.counts();
    let done = requests
        .iter()
        .filter_map(|request| counts.get(*request)?.get("200"));
    done.sum()
}

#[test]
fn one_change_wakes_all_and_each_deletes_its_own() {
    blackbox_on(Cluster::without_operator, "cleaner-many", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let proxy = cleaners.proxy();
        let operator = cleaners.operator_behind(&proxy, &[]).await;
        cleaners.map("signal", json!({}), "wait").await;
        for number in 0..COUNT {
            let name = format!("shop{number}");
            cleaners.map(&name, json!({}), "idle").await;
            cleaners
                .map(&format!("{name}-other"), json!({}), "idle")
                .await;
            let spec = json!({ "retry": { "period": "10h" }, "targets": [signal(), map_target("own", &name)],
                "conditions": ["signal.data.state == 'go' && own.data.state == 'idle'"] });
            cleaners.create(&name, spec).await;
        }
        let waiting = "podloom_objects{controller=\"cleaner\",phase=\"WaitingForConditions\"}";
        let count = f64::from(u32::try_from(COUNT).unwrap());
        eventually("all wait", async || {
            let found = operator.metric(waiting);
            ((found - count).abs() < 0.1)
                .then_some(())
                .ok_or_else(|| found.to_string())
        })
        .await;
        assert_eq!(proxy.answered("list configmaps"), 1, "one watch for all");
        let (before, begun) = (writes(&proxy), Instant::now());
        cleaners.set_state("signal", "go").await;
        eventually("all are gone", async || {
            let left = cleaners.api().list_metadata(&ListParams::default()).await;
            let left = left.unwrap().items.len();
            (left == 0)
                .then_some(())
                .ok_or_else(|| format!("{left} are left"))
        })
        .await;
        eprintln!("{COUNT} Cleaners were done after {:?}", begun.elapsed());
        // The finalizer, the plan, the Cleaner, its object, what became of it, and the finalizer again.
        let expected = 6 * u64::try_from(COUNT).unwrap();
        eventually("the last Event is written", async || {
            let written = writes(&proxy) - before;
            (written >= expected)
                .then_some(())
                .ok_or_else(|| written.to_string())
        })
        .await;
        assert_eq!(writes(&proxy) - before, expected);
        let left = cleaners.maps().list_metadata(&ListParams::default()).await;
        let names = left
            .unwrap()
            .items
            .into_iter()
            .filter_map(|it| it.metadata.name);
        let others = names.filter(|name| name.ends_with("-other")).count();
        assert_eq!(others, COUNT);
        assert!(!cleaners.has_map("shop0").await && cleaners.has_map("signal").await);
    });
}
