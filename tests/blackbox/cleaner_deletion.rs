//! What is deleted, and what keeps it from being deleted.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use podloom_tests::cleaner::{Cleaners, condition, map_target, map_targets};
use podloom_tests::faults::{Fault, RequestFilter, Rule};
use podloom_tests::{Cluster, blackbox_on, eventually};
use serde_json::{Value, json};

/// A spec that deletes all ConfigMaps with the label `app: x`, with these fields besides.
fn all(more: Value) -> Value {
    let mut spec = json!({ "retry": { "period": "2s" }, "targets": [map_targets("all", &json!({ "app": "x" }))] });
    let (Some(spec_fields), Value::Object(more)) = (spec.as_object_mut(), more) else {
        unreachable!("both are objects");
    };
    spec_fields.extend(more);
    spec
}

async fn two_maps(cleaners: &Cleaners<'_>) {
    for name in ["a", "b"] {
        cleaners.map(name, json!({ "app": "x" }), "idle").await;
    }
    cleaners.map("other", json!({ "app": "y" }), "idle").await;
}

#[test]
fn more_objects_than_allowed_are_not_deleted() {
    blackbox_on(Cluster::without_operator, "cleaner-radius", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let operator = cleaners.operator(&[]).await;
        two_maps(&cleaners).await;
        cleaners
            .create("shop", all(json!({ "deletion": { "maxObjects": 1 } })))
            .await;
        let cleaner = cleaners
            .until_ready("shop", "BlastRadiusExceeded: 2 objects would be deleted")
            .await;
        assert_eq!(cleaner.metadata.finalizers, None);
        assert!(condition(&cleaner, "ConditionsMet").starts_with("AllTrue"));
        cleaners.for_a_while().await;
        assert!(cleaners.has_map("a").await && cleaners.has_map("b").await);
        scene
            .events_are(
                "shop",
                &["Warning TriggerRefused: 2 objects would be deleted"],
            )
            .await;
        assert!(
            operator.metric("podloom_cleaner_refused_total{reason=\"BlastRadiusExceeded\"}") > 0.0
        );
        cleaners
            .edit("shop", json!({ "deletion": { "maxObjects": 2 } }))
            .await;
        cleaners.until_gone("shop", &["a", "b"]).await;
        assert!(cleaners.has_map("other").await);
    });
}

#[test]
fn a_dry_run_deletes_nothing_until_it_is_over() {
    blackbox_on(Cluster::without_operator, "cleaner-dry", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let _operator = cleaners.operator(&[]).await;
        two_maps(&cleaners).await;
        cleaners
            .create("shop", all(json!({ "dryRun": true })))
            .await;
        let expected = "DryRun: all conditions are true; 2 objects (ConfigMap: 2) would be deleted, but spec.dryRun is true";
        let cleaner = cleaners.until_ready("shop", expected).await;
        assert_eq!(cleaner.metadata.finalizers, None);
        cleaners.for_a_while().await;
        assert!(cleaners.has_map("a").await && cleaners.has_map("b").await);
        cleaners.edit("shop", json!({ "dryRun": false })).await;
        cleaners.until_gone("shop", &["a", "b"]).await;
    });
}

#[test]
fn one_protected_object_protects_all() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-protected",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let _operator = cleaners.operator(&[]).await;
            two_maps(&cleaners).await;
            let protect = "cleaner.vtex.dev/protect";
            cleaners.annotate_map("b", protect, json!("true")).await;
            cleaners.create("shop", all(json!({}))).await;
            cleaners
                .until_ready(
                    "shop",
                    "TargetProtected: the ConfigMap b of target all is annotated",
                )
                .await;
            cleaners.for_a_while().await;
            assert!(cleaners.has_map("a").await && cleaners.has_map("b").await);
            cleaners.annotate_map("b", protect, Value::Null).await;
            cleaners.until_gone("shop", &["a", "b"]).await;
        },
    );
}

/// Without a propagation policy, the API server would leave the pods of a Job.
#[test]
fn the_pods_of_a_job_go_with_it() {
    blackbox_on(Cluster::without_operator, "cleaner-job", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let _operator = cleaners.operator(&[]).await;
        let jobs: Api<Job> = Api::namespaced(scene.client.clone(), &scene.namespace);
        let job = json!({ "metadata": { "name": "job" }, "spec": { "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "a", "image": "a" }] } } } });
        scene.create(jobs.clone(), job).await;
        let pods = async || {
            cleaners
                .pods()
                .list(&Default::default())
                .await
                .unwrap()
                .items
                .len()
        };
        eventually("the Job has a pod", async || {
            let count = pods().await;
            (count == 1).then_some(()).ok_or_else(|| count.to_string())
        })
        .await;
        let target = json!({ "name": "job", "delete": true, "reference": { "apiVersion": "batch/v1", "kind": "job", "name": "job" } });
        cleaners
            .create("shop", json!({ "targets": [target] }))
            .await;
        cleaners.until_gone("shop", &[]).await;
        eventually("Job and pod are gone", async || {
            let left = (jobs.get_opt("job").await.unwrap().is_some(), pods().await);
            (left == (false, 0))
                .then_some(())
                .ok_or_else(|| format!("{left:?}"))
        })
        .await;
    });
}

#[test]
fn what_waits_for_gone_stays_until_all_are() {
    blackbox_on(Cluster::without_operator, "cleaner-gone", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let _operator = cleaners.operator(&[]).await;
        two_maps(&cleaners).await;
        let held = json!({ "metadata": { "finalizers": ["example.com/held"] } });
        cleaners.patch(cleaners.maps(), "a", held).await;
        cleaners
            .create("shop", all(json!({ "deletion": { "waitForGone": true } })))
            .await;
        cleaners.until("shop", "Deleting", "DeletingTargets").await;
        cleaners.for_a_while().await;
        let cleaner = cleaners.api().get("shop").await.unwrap();
        let objects = cleaner.status.unwrap().deletion.unwrap().objects;
        let outcomes: Vec<_> = objects
            .iter()
            .map(|it| it.outcome.unwrap().as_str())
            .collect();
        assert_eq!(outcomes, ["Accepted", "Gone"]);
        let free = json!({ "metadata": { "finalizers": null } });
        cleaners.patch(cleaners.maps(), "a", free).await;
        cleaners.until_gone("shop", &["a", "b"]).await;
    });
}

/// Rejects the deletion of one ConfigMap.
fn reject(name: &str) -> Rule {
    let mut on = RequestFilter::from("delete configmaps");
    on.path = format!("/configmaps/{name}");
    Rule::on(
        on,
        Fault::api_error(403, "Forbidden", "a policy forbids it"),
    )
}

#[test]
fn one_failure_stops_no_other_and_is_late_after_its_time() {
    blackbox_on(Cluster::without_operator, "cleaner-late", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let proxy = cleaners.proxy();
        proxy.set_rules(&[reject("a")]);
        let mut operator = cleaners.operator_behind(&proxy, &[]).await;
        two_maps(&cleaners).await;
        cleaners
            .create("shop", all(json!({ "deletion": { "timeout": "3s" } })))
            .await;
        let late = "DeadlineExceeded: 1 of 2 objects could not be deleted within 3s";
        let cleaner = cleaners.until("shop", "Deleting", late).await;
        let objects = cleaner.status.unwrap().deletion.unwrap().objects;
        assert_eq!(objects[0].message.as_deref(), Some("a policy forbids it"));
        assert!(cleaners.has_map("a").await && !cleaners.has_map("b").await);
        // It is tried every five minutes only; a new process tries at once.
        let before = proxy.count("delete configmaps");
        cleaners.for_a_while().await;
        assert_eq!(proxy.count("delete configmaps"), before);
        proxy.set_rules(&[]);
        operator.kill();
        operator.restart();
        cleaners.until_gone("shop", &["a", "b"]).await;
    });
}

#[test]
fn an_abandoned_deletion_is_let_go() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-abandon",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let proxy = cleaners.proxy();
            proxy.set_rules(&[reject("a")]);
            let _operator = cleaners.operator_behind(&proxy, &[]).await;
            two_maps(&cleaners).await;
            cleaners.create("shop", all(json!({}))).await;
            cleaners.until("shop", "Deleting", "DeletingTargets").await;
            cleaners.for_a_while().await;
            cleaners
                .annotate("shop", "cleaner.vtex.dev/abandon", "true")
                .await;
            cleaners.until_gone("shop", &["b"]).await;
            assert!(cleaners.has_map("a").await);
        },
    );
}

/// The plan is frozen: another object of the same name stays.
#[test]
fn an_object_that_was_made_again_stays() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-replaced",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let proxy = cleaners.proxy();
            proxy.set_rules(&[Rule::on("delete configmaps", Fault::Hold)]);
            let _operator = cleaners.operator_behind(&proxy, &[]).await;
            cleaners.map("web", json!({}), "idle").await;
            cleaners
                .create("shop", json!({ "targets": [map_target("web", "web")] }))
                .await;
            eventually("its deletion is on the way", async || {
                let hits = proxy.hits();
                (hits == [1])
                    .then_some(())
                    .ok_or_else(|| format!("{hits:?}"))
            })
            .await;
            cleaners
                .maps()
                .delete("web", &Default::default())
                .await
                .unwrap();
            cleaners.map("web", json!({}), "new").await;
            proxy.set_rules(&[]);
            cleaners.until_gone("shop", &[]).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert!(cleaners.has_map("web").await);
        },
    );
}

#[test]
fn a_spec_that_cannot_be_used_says_so_and_others_go_on() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-invalid",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let excluded = ["--cleaner-excluded-namespaces", "elsewhere"];
            let _operator = cleaners.operator(&excluded).await;
            cleaners.create("long", json!({ "ttl": "300000w" })).await;
            cleaners.create("fine", json!({})).await;
            cleaners.until_gone("fine", &[]).await;
            let expected =
                "InvalidSpec: spec.ttl: the duration is longer than 292 years, use a shorter one";
            cleaners.until_ready("long", expected).await;
        },
    );
}

#[test]
fn in_an_excluded_namespace_nothing_is_deleted() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-excluded",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let excluded = ["--cleaner-excluded-namespaces", scene.namespace.as_str()];
            let _operator = cleaners.operator(&excluded).await;
            two_maps(&cleaners).await;
            cleaners.create("shop", all(json!({}))).await;
            cleaners.until_ready("shop", "InvalidSpec: metadata.namespace: the operator deletes nothing in the namespace").await;
            assert!(cleaners.has_map("a").await);
        },
    );
}
