//! What conditions see, and what the status says if they cannot be evaluated.

use podloom_tests::cleaner::{Cleaners, map_target, map_targets};
use podloom_tests::{Cluster, blackbox_on};
use serde_json::{Value, json};

#[test]
fn one_condition_sees_a_single_and_a_list_target() {
    blackbox_on(Cluster::without_operator, "cleaner-sees", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let _operator = cleaners.operator(&[]).await;
        cleaners.map("web", json!({}), "running").await;
        for name in ["a", "b"] {
            cleaners.map(name, json!({ "app": "x" }), "idle").await;
        }
        let condition = "has(web.data.state) && web.kind == 'ConfigMap' && web.apiVersion == 'v1' \
                         && web.metadata.annotations.exists(key, key == 'done') \
                         && size(others.items) == 2 && others.kind == 'ConfigMapList' \
                         && others.items.all(it, it.kind == 'ConfigMap' && it.data.state == 'idle')";
        let spec = json!({
            "retry": { "period": "1h" },
            "targets": [map_targets("others", &json!({ "app": "x" })), map_target("web", "web")],
            "conditions": [condition],
        });
        cleaners.create("shop", spec).await;
        // Without annotations there is no such key.
        let cleaner = cleaners
            .until_ready("shop", "ConditionEvaluationError: conditions[0]")
            .await;
        let status = cleaner.status.unwrap();
        let listed = ["a.configmaps/v1", "b.configmaps/v1", "web.configmaps/v1"];
        assert_eq!(status.resolved_targets.unwrap(), listed);
        assert_eq!(status.resolved_target_count, Some(3));
        cleaners.annotate_map("web", "done", json!("yes")).await;
        cleaners.until_gone("shop", &["web", "a", "b"]).await;
        let events = [
            "Normal ConditionsMet: all conditions are true: 3 objects (ConfigMap: 3) and this Cleaner are deleted",
            "Normal TargetDeleted: deleted ConfigMap a of target others",
            "Normal TargetDeleted: deleted ConfigMap b of target others",
            "Normal TargetDeleted: deleted ConfigMap web of target web",
        ];
        scene.events_are("shop", &events).await;
    });
}

#[test]
fn an_unknown_name_shows_before_and_after_the_time() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-unknown",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let _operator = cleaners.operator(&[]).await;
            for ttl in ["0", "10h"] {
                let name = format!("after-{ttl}");
                let spec = json!({ "ttl": ttl, "targets": [map_target("web", "web")], "conditions": ["true", "true || wbe.data.state == 'done'"] });
                cleaners.create(&name, spec).await;
                let expected = "ConditionCompileError: conditions[1]: 1:9: unknown name \"wbe\"; known here: time, web";
                let cleaner = cleaners.until_ready(&name, expected).await;
                let status = cleaner.status.unwrap();
                let results = serde_json::to_value(status.condition_results).unwrap();
                assert_eq!(results[0]["index"], 1);
                assert_eq!(results[0]["result"], "Error");
                // Another spec repairs it.
                cleaners
                    .edit(&name, json!({ "ttl": "10h", "conditions": ["true"] }))
                    .await;
                cleaners.until_ready(&name, "NotExpired").await;
            }
        },
    );
}

#[test]
fn data_that_a_condition_cannot_use_recovers() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-recovers",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let _operator = cleaners.operator(&[]).await;
            let spec = json!({
                "retry": { "period": "1h" },
                "targets": [map_targets("all", &json!({ "app": "x" }))],
                "conditions": ["all.items[0].data.state == 'done'"],
            });
            cleaners.create("shop", spec).await;
            cleaners
                .until_ready("shop", "ConditionEvaluationError: conditions[0]")
                .await;
            cleaners.map("web", json!({ "app": "x" }), "done").await;
            cleaners.until_gone("shop", &["web"]).await;
        },
    );
}

#[track_caller]
fn check(name: &'static str, spec: Value, expected: &str) {
    blackbox_on(Cluster::without_operator, name, async |scene| {
        let cleaners = Cleaners::new(&scene);
        let _operator = cleaners.operator(&[]).await;
        cleaners.create("shop", spec).await;
        let cleaner = cleaners.until_ready("shop", expected).await;
        assert_eq!(cleaner.metadata.finalizers, None);
    });
}

#[test]
fn a_result_that_is_no_bool_is_said() {
    let expected = "ConditionResultNotBoolean: conditions[0]: the result is int, not bool";
    check("cleaner-int", json!({ "conditions": ["2"] }), expected);
}

#[test]
fn conditions_without_end_are_stopped() {
    let range = "lists.range(1000)";
    let endless = format!("{range}.all(a, {range}.all(b, {range}.all(c, a + b + c >= 0)))");
    let expected = "ConditionBudgetExceeded: conditions[0]: the conditions take too";
    check(
        "cleaner-spent",
        json!({ "conditions": [endless] }),
        expected,
    );
}

#[test]
fn an_unknown_kind_names_the_target() {
    let target = json!({ "name": "revisions", "includeWhenEvaluating": true,
        "reference": { "apiGroup": "apps", "version": "v1", "kind": "revision", "matchLabels": { "a": "b" } } });
    let expected =
        "TargetResolveError: target revisions: the API server serves no kind revision in apps/v1";
    check("cleaner-kind", json!({ "targets": [target] }), expected);
}

#[test]
fn a_value_that_no_label_has_names_the_target() {
    let target = json!({ "name": "revisions", "includeWhenEvaluating": true,
        "reference": { "version": "v1", "kind": "pod", "matchLabels": { "vtex.io/proxy": "<nginx-proxy-id>" } } });
    let expected = "TargetResolveError: target revisions: the value \"<nginx-proxy-id>\" of the label vtex.io/proxy is not";
    check("cleaner-label", json!({ "targets": [target] }), expected);
}

#[test]
fn a_kind_that_the_operator_may_not_read_names_the_target() {
    let target = json!({ "name": "limits", "delete": true,
        "reference": { "version": "v1", "kind": "LimitRange", "matchLabels": { "a": "b" } } });
    let expected = "TargetResolveError: target limits: limitranges is forbidden";
    check(
        "cleaner-forbidden",
        json!({ "targets": [target] }),
        expected,
    );
}

#[test]
fn a_cluster_scoped_kind_is_refused_unless_a_flag_names_it() {
    let target = json!({ "name": "roles", "delete": true,
        "reference": { "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "cleaner-test" } });
    let expected = "TargetResolveError: target roles: objects of kind ClusterRole are in no namespace, and the operator's flag \
                    --cleaner-cluster-scoped does not name clusterroles.rbac.authorization.k8s.io";
    check("cleaner-cluster", json!({ "targets": [target] }), expected);
}

#[test]
fn targets_that_are_neither_seen_nor_deleted_never_block() {
    blackbox_on(Cluster::without_operator, "cleaner-unused", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let _operator = cleaners.operator(&[]).await;
        let unused = |name: &str, kind: &str| json!({ "name": name, "reference": { "version": "v1", "kind": kind, "name": "x" } });
        let missing = json!({ "name": "gone", "delete": true, "reference": { "version": "v1", "kind": "ConfigMap", "name": "gone" } });
        let spec = json!({ "targets": [unused("a", "nonsense"), unused("b", "LimitRange"), unused("c", "Pod"), missing] });
        cleaners.create("shop", spec).await;
        cleaners.until_gone("shop", &[]).await;
    });
}
