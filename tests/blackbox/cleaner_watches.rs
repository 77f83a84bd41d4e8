//! Changes of targets are noticed at once, also of those that do not exist yet.

use std::time::{Duration, Instant};

use podloom_tests::cleaner::{Cleaners, condition, map_target, map_targets};
use podloom_tests::{Cluster, blackbox_on, eventually};
use serde_json::json;

#[test]
fn a_missing_target_is_noticed_when_it_is_created() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-missing",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let _operator = cleaners.operator(&[]).await;
            let spec = json!({
                "retry": { "period": "1h" },
                "targets": [{ "name": "web", "includeWhenEvaluating": true, "reference": { "version": "v1", "kind": "pod", "name": "web" } }],
                "conditions": ["web.metadata.name == 'other'"],
            });
            cleaners.create("shop", spec).await;
            cleaners
                .until_ready(
                    "shop",
                    "TargetResolveError: target web: there is no Pod web in this namespace",
                )
                .await;
            let pod = json!({ "metadata": { "name": "web" }, "spec": { "containers": [{ "name": "a", "image": "a" }] } });
            scene.create(cleaners.pods(), pod).await;
            let begun = Instant::now();
            cleaners.until_ready("shop", "WaitingForConditions").await;
            assert!(
                begun.elapsed() < Duration::from_secs(3),
                "{:?}",
                begun.elapsed()
            );
        },
    );
}

#[test]
fn an_object_that_leaves_or_enters_a_selector_is_noticed() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-selector",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let _operator = cleaners.operator(&[]).await;
            for name in ["a", "b"] {
                cleaners.map(name, json!({ "app": "x" }), "idle").await;
            }
            let spec = json!({
                "retry": { "period": "1h" },
                "targets": [map_targets("all", &json!({ "app": "x" }))],
                "conditions": ["size(all.items) == 5"],
            });
            cleaners.create("shop", spec).await;
            let count = async |expected: i64| {
                let begun = Instant::now();
                eventually("so many objects are seen", async || {
                    let cleaner = cleaners.api().get("shop").await.unwrap();
                    let status = cleaner.status.unwrap_or_default();
                    let found = status.resolved_target_count;
                    (found == Some(expected))
                        .then_some(())
                        .ok_or_else(|| format!("{found:?}"))
                })
                .await;
                assert!(
                    begun.elapsed() < Duration::from_secs(3),
                    "{:?}",
                    begun.elapsed()
                );
            };
            count(2).await;
            let relabel = |app: &str| json!({ "metadata": { "labels": { "app": app } } });
            cleaners.patch(cleaners.maps(), "a", relabel("y")).await;
            count(1).await;
            cleaners.patch(cleaners.maps(), "a", relabel("x")).await;
            count(2).await;
            cleaners.map("c", json!({ "app": "x" }), "idle").await;
            count(3).await;
            cleaners
                .maps()
                .delete("b", &Default::default())
                .await
                .unwrap();
            count(2).await;
        },
    );
}

#[test]
fn a_target_that_changes_all_the_time_is_looked_at_once_a_second_and_costs_no_write() {
    blackbox_on(Cluster::without_operator, "cleaner-busy", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let proxy = cleaners.proxy();
        let _operator = cleaners.operator_behind(&proxy, &[]).await;
        cleaners.map("web", json!({}), "0").await;
        let spec = json!({ "retry": { "period": "1h" }, "targets": [map_target("web", "web")], "conditions": ["web.data.state == 'done'"] });
        cleaners.create("shop", spec).await;
        let before = cleaners.until_ready("shop", "WaitingForConditions").await;
        let looks = || proxy.count("get configmaps");
        let (started, begun) = (looks(), Instant::now());
        for number in 1..=80 {
            cleaners.set_state("web", &number.to_string()).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let (seconds, made) = (begun.elapsed().as_secs(), looks() - started);
        assert!(
            (2..=seconds + 2).contains(&made),
            "{made} looks in {seconds} s"
        );
        let after = cleaners.api().get("shop").await.unwrap();
        assert_eq!(
            after.metadata.resource_version,
            before.metadata.resource_version
        );
        // The last change is not missed.
        cleaners.set_state("web", "done").await;
        cleaners.until_gone("shop", &["web"]).await;
    });
}

#[test]
fn kinds_are_watched_once_and_no_longer_than_they_are_used() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-counted",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let proxy = cleaners.proxy();
            let operator = cleaners.operator_behind(&proxy, &[]).await;
            cleaners.map("web", json!({}), "running").await;
            let spec = json!({ "retry": { "period": "1h" }, "targets": [map_target("web", "web")], "conditions": ["web.data.state == 'done'"] });
            for name in ["a", "b", "c"] {
                cleaners.create(name, spec.clone()).await;
                cleaners.until(name, "TargetsWatched", "Watching").await;
            }
            let watched = async |expected: f64| {
                eventually("so many kinds are watched", async || {
                    let found = operator.metric("podloom_cleaner_watched_kinds");
                    ((found - expected).abs() < 0.1)
                        .then_some(())
                        .ok_or_else(|| found.to_string())
                })
                .await;
            };
            watched(1.0).await;
            assert_eq!(proxy.answered("list configmaps"), 1);
            cleaners.delete("a").await;
            cleaners.edit("b", json!({ "ttl": "10h" })).await;
            cleaners.until_ready("b", "NotExpired").await;
            watched(1.0).await;
            cleaners.delete("c").await;
            watched(0.0).await;
        },
    );
}

/// The tests' rights let the operator read and delete pod templates, and not watch them.
#[test]
fn a_kind_that_may_not_be_watched_is_looked_at_by_the_period() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-unwatched",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let _operator = cleaners.operator(&[]).await;
            let template = json!({ "metadata": { "name": "web", "labels": { "app": "x" } },
            "template": { "spec": { "containers": [{ "name": "a", "image": "a" }] } } });
            let templates: kube::Api<k8s_openapi::api::core::v1::PodTemplate> =
                kube::Api::namespaced(scene.client.clone(), &scene.namespace);
            scene.create(templates.clone(), template).await;
            let spec = json!({
                "retry": { "period": "2s", "monotonic": true },
                "targets": [{ "name": "web", "includeWhenEvaluating": true, "delete": true,
                    "reference": { "version": "v1", "kind": "PodTemplate", "name": "web" } }],
                "conditions": ["web.metadata.labels.app == 'done'"],
            });
            cleaners.create("shop", spec).await;
            let cleaner = cleaners
                .until(
                    "shop",
                    "TargetsWatched",
                    "WatchForbidden: the operator may not list and watch podtemplates",
                )
                .await;
            assert!(condition(&cleaner, "Ready").starts_with("WaitingForConditions"));
            let done = json!({ "metadata": { "labels": { "app": "done" } } });
            cleaners.patch(templates.clone(), "web", done).await;
            cleaners.until_gone("shop", &[]).await;
            assert!(templates.get_opt("web").await.unwrap().is_none());
        },
    );
}
