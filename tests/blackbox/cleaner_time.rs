//! When a Cleaner looks at its targets: after its time, by its period, and when time alone makes its conditions true.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use podloom_tests::cleaner::{Cleaners, map_target};
use podloom_tests::{Cluster, Scene, blackbox_on, eventually};
use serde_json::json;

/// When a Cleaner is looked at next, by its status.
fn planned(cleaner: &podloom_api::Cleaner) -> Option<Timestamp> {
    let status = cleaner.status.as_ref()?;
    let next = status.next_scheduled_evaluation.as_deref();
    Some(next?.parse().unwrap())
}

fn next(cleaner: &podloom_api::Cleaner) -> Timestamp {
    planned(cleaner).unwrap()
}

fn created(cleaner: &podloom_api::Cleaner) -> Timestamp {
    cleaner.metadata.creation_timestamp.as_ref().unwrap().0
}

#[track_caller]
fn expires_after(cleaner: &podloom_api::Cleaner, seconds: i64) {
    let expected = created(cleaner) + Duration::from_secs(seconds.unsigned_abs());
    assert_eq!(next(cleaner), expected);
}

#[test]
fn before_its_time_a_cleaner_reads_nothing_and_has_no_finalizer() {
    blackbox_on(Cluster::without_operator, "cleaner-waits", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let proxy = cleaners.proxy();
        let _operator = cleaners
            .operator_behind(&proxy, &["--resync", "100ms"])
            .await;
        let seen = cleaners.watch().await;
        let spec = json!({ "ttl": "360h", "targets": [map_target("web", "web")], "conditions": ["web.data.state == 'done'"] });
        cleaners.create("shop", spec).await;
        let cleaner = cleaners.until_ready("shop", "NotExpired").await;
        expires_after(&cleaner, 360 * 3600);
        assert_eq!(cleaner.metadata.finalizers, None);
        columns(&scene);
        // Passes go on and write nothing.
        cleaners.for_a_while().await;
        let reads = |verb: &str| proxy.count(&format!("{verb} configmaps"));
        assert_eq!((reads("get"), reads("list"), reads("watch")), (0, 0, 0));
        assert_eq!(seen.of("shop").len(), 2, "its creation and one status");
    });
}

fn columns(scene: &Scene) {
    let arguments = ["get", "cleaners", "--namespace", &scene.namespace];
    let said = scene.cluster.ask_kubectl(&arguments);
    let mut lines = said.out.lines();
    let words = |line: Option<&str>| -> Vec<String> {
        line.unwrap()
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(
        words(lines.next()),
        ["NAME", "TTL", "STATUS", "NEXT", "AGE"]
    );
    let row = words(lines.next());
    assert_eq!(&row[..3], ["shop", "360h", "NotExpired"]);
}

#[test]
fn a_cleaner_that_waits_is_deleted_at_once_and_nothing_else() {
    blackbox_on(Cluster::without_operator, "cleaner-manual", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let _operator = cleaners.operator(&[]).await;
        cleaners.create("young", json!({ "ttl": "5m" })).await;
        cleaners.until_ready("young", "NotExpired").await;
        cleaners.map("web", json!({}), "running").await;
        let spec = json!({ "targets": [map_target("web", "web")], "conditions": ["web.data.state == 'done'"] });
        cleaners.create("old", spec).await;
        cleaners
            .until_ready("old", "WaitingForConditions: conditions[0] is false")
            .await;
        for name in ["young", "old"] {
            cleaners.delete(name).await;
            cleaners.until_gone(name, &[]).await;
        }
        // What would be deleted now is left alone.
        cleaners.set_state("web", "done").await;
        cleaners.for_a_while().await;
        assert!(cleaners.has_map("web").await);
    });
}

#[test]
fn a_ttl_moves_both_ways() {
    blackbox_on(Cluster::without_operator, "cleaner-ttl", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let _operator = cleaners.operator(&[]).await;
        cleaners.create("shop", json!({ "ttl": "1h" })).await;
        for (ttl, seconds) in [("2d", 172_800), ("10m", 600), ("1.5h", 5400)] {
            cleaners.edit("shop", json!({ "ttl": ttl })).await;
            eventually("it waits until then", async || {
                let cleaner = cleaners.api().get("shop").await.unwrap();
                let found = planned(&cleaner);
                let expected = created(&cleaner) + Duration::from_secs(seconds);
                (found == Some(expected))
                    .then_some(())
                    .ok_or_else(|| format!("{found:?}"))
            })
            .await;
        }
        cleaners.edit("shop", json!({ "ttl": "1s" })).await;
        cleaners.until_gone("shop", &[]).await;
    });
}

#[test]
fn a_period_is_kept_and_stretched_by_a_tenth_at_most() {
    blackbox_on(Cluster::without_operator, "cleaner-period", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let proxy = cleaners.proxy();
        let _operator = cleaners.operator_behind(&proxy, &[]).await;
        cleaners.map("web", json!({}), "running").await;
        let spec = json!({ "retry": { "period": "2s" }, "targets": [map_target("web", "web")], "conditions": ["web.data.state == 'done'"] });
        cleaners.create("shop", spec).await;
        let looks = || -> Vec<f64> {
            let requests = proxy.requests();
            let looks = requests
                .iter()
                .filter(|it| it.method == "GET" && it.path.ends_with("/configmaps/web"));
            looks.map(|it| it.seconds).collect()
        };
        eventually("there were five looks", async || {
            let count = looks().len();
            (count >= 5).then_some(()).ok_or_else(|| count.to_string())
        })
        .await;
        let looks = looks();
        // On a busy machine a request arrives late, and the next one then comes sooner after it: so one pause says less than their mean.
        let mut pauses = looks.windows(2).map(|pair| pair[1] - pair[0]);
        let mean = (looks[4] - looks[0]) / 4.0;
        assert!((1.8..2.45).contains(&mean), "{looks:?}");
        assert!(pauses.all(|it| (1.5..3.0).contains(&it)), "{looks:?}");
    });
}

#[test]
fn without_retry_the_period_is_five_minutes() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-default",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let _operator = cleaners.operator(&[]).await;
            cleaners.map("web", json!({}), "running").await;
            let spec = json!({ "targets": [map_target("web", "web")], "conditions": ["web.data.state == 'done'"] });
            let before = cleaners.create("shop", spec).await;
            let cleaner = cleaners.until_ready("shop", "WaitingForConditions").await;
            let wait = next(&cleaner).duration_since(created(&before)).as_secs();
            assert!((300..336).contains(&wait), "{wait} s");
        },
    );
}

#[test]
fn a_condition_that_time_makes_true_is_looked_at_exactly_then_also_after_a_restart() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-monotonic",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let mut operator = cleaners.operator(&[]).await;
            let map = cleaners.map("web", json!({}), "running").await;
            let made = map.metadata.creation_timestamp.unwrap().0;
            let spec = json!({
                "retry": { "period": "10h", "monotonic": true },
                "targets": [map_target("web", "web")],
                "conditions": ["time - timestamp(web.metadata.creationTimestamp) >= duration('20s')"],
            });
            cleaners.create("shop", spec).await;
            let cleaner = cleaners.until_ready("shop", "WaitingForConditions").await;
            let due = made + Duration::from_secs(20);
            assert_eq!(next(&cleaner), due);
            operator.kill();
            operator.restart();
            operator.ready().await;
            cleaners.for_a_while().await;
            let cleaner = cleaners.api().get("shop").await.unwrap();
            assert_eq!(next(&cleaner), due, "a restart keeps it");
            assert!(cleaners.has_map("web").await);
            let patience = Instant::now();
            cleaners.until_gone("shop", &["web"]).await;
            let late = Timestamp::now().duration_since(due).as_secs_f64();
            assert!(
                (-1.0..4.0).contains(&late),
                "{late} s late after {:?}",
                patience.elapsed()
            );
        },
    );
}

/// A restart does not begin the period again.
#[test]
fn a_restart_keeps_the_due_instant_of_a_period() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-restart",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let mut operator = cleaners.operator(&[]).await;
            cleaners.map("web", json!({}), "running").await;
            let spec = json!({ "retry": { "period": "1h" }, "targets": [map_target("web", "web")], "conditions": ["web.data.state == 'done'"] });
            cleaners.create("shop", spec).await;
            let before = cleaners.until_ready("shop", "WaitingForConditions").await;
            cleaners.for_a_while().await;
            operator.kill();
            operator.restart();
            operator.ready().await;
            cleaners.for_a_while().await;
            let after = cleaners.api().get("shop").await.unwrap();
            assert_eq!(next(&after), next(&before));
            assert_eq!(
                after.metadata.resource_version, before.metadata.resource_version,
                "nothing was written"
            );
        },
    );
}
