//! Objects whose annotations or labels say how long they live: each gets a Cleaner, and nothing but that Cleaner deletes it.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Resource, ResourceExt};
use podloom_tests::cleaner::Cleaners;
use podloom_tests::{Cluster, Scene, blackbox_on, eventually};
use serde_json::{Value, json};

const TTL: &str = "janitor/ttl";
const KINDS: &[&str] = &["--cleaner-ttl-kinds", "configmaps,deployments.apps"];
const DRY: &[&str] = &[
    "--cleaner-ttl-kinds",
    "configmaps,deployments.apps",
    "--cleaner-ttl-dry-run",
];

/// The name that the Cleaner of an object has.
fn name_of(kind: &str, object: &impl Resource) -> String {
    let meta = object.meta();
    let uid = &meta.uid.as_ref().unwrap()[..8];
    format!("{kind}-{}-{uid}", meta.name.as_ref().unwrap())
}

/// Creates a ConfigMap that lives so long, and returns the name that its Cleaner has.
async fn map(cleaners: &Cleaners<'_>, name: &str, ttl: &str) -> String {
    let map = cleaners.map(name, json!({}), "").await;
    cleaners.annotate_map(name, TTL, json!(ttl)).await;
    name_of("configmap", &map)
}

async fn deployment(scene: &Scene, name: &str, labels: Value) -> (Api<Deployment>, String) {
    let deployments: Api<Deployment> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let pods = json!({ "metadata": { "labels": { "app": name } }, "spec": { "containers": [{ "name": "a", "image": "a" }] } });
    let deployment = json!({ "metadata": { "name": name, "labels": labels },
        "spec": { "replicas": 0, "selector": { "matchLabels": { "app": name } }, "template": pods } });
    let made = scene.create(deployments.clone(), deployment).await;
    (deployments, name_of("deployment", &made))
}

#[test]
fn an_object_is_only_reported_in_a_dry_run_and_then_goes_when_its_time_has_come() {
    blackbox_on(Cluster::without_operator, "lifetime-dry", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let mut operator = cleaners.operator(DRY).await;
        let web = map(&cleaners, "web", "1s").await;
        cleaners.map("other", json!({}), "").await;
        let kyverno = json!({ "cleanup.kyverno.io/ttl": "2020-01-31T120000Z" });
        let (deployments, app) = deployment(&scene, "app", kyverno).await;
        for name in [&web, &app] {
            let cleaner = cleaners.until_ready(name, "DryRun: all conditions").await;
            assert_eq!(cleaner.labels()["cleaner.vtex.dev/made-from"], "ttl");
        }
        cleaners.for_a_while().await;
        assert!(cleaners.has_map("web").await);
        operator.kill();
        let _operator = cleaners.operator(KINDS).await;
        cleaners.until_gone(&web, &["web"]).await;
        cleaners.until_gone(&app, &[]).await;
        assert!(deployments.get_opt("app").await.unwrap().is_none());
        assert!(cleaners.has_map("other").await);
        scene
            .events_are(&web, &["Normal ConditionsMet", "Normal TargetDeleted"])
            .await;
    });
}

#[test]
fn a_cleaner_follows_its_object_and_goes_with_its_mark() {
    blackbox_on(
        Cluster::without_operator,
        "lifetime-follow",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let _operator = cleaners.operator(KINDS).await;
            let web = map(&cleaners, "web", "1h").await;
            let next = async |expected: &str| {
                eventually("the Cleaner follows", async || {
                    let cleaner = cleaners.api().get_opt(&web).await.unwrap();
                    let found = cleaner.map(|it| it.spec.conditions[1].clone());
                    let is_so = found.as_ref().is_some_and(|it| it.ends_with(expected));
                    is_so.then_some(()).ok_or_else(|| format!("{found:?}"))
                })
                .await;
            };
            next("\"1h\"").await;
            cleaners.annotate_map("web", TTL, json!("2h")).await;
            next("\"2h\"").await;
            // A user who deletes the Cleaner gets another one; who takes the mark away, none.
            cleaners.delete(&web).await;
            next("\"2h\"").await;
            cleaners.annotate_map("web", TTL, json!("soon")).await;
            cleaners.until_gone(&web, &[]).await;
            let bad =
                "Warning LifetimeIgnored: the annotation janitor/ttl is \"soon\": write a number";
            scene.events_are("web", &[bad]).await;
            cleaners.annotate_map("web", TTL, json!("3h")).await;
            next("\"3h\"").await;
            cleaners.annotate_map("web", TTL, Value::Null).await;
            cleaners.until_gone(&web, &[]).await;
            assert!(cleaners.has_map("web").await);
        },
    );
}

/// Neither the Cleaner of an object nor one with the same rules that nothing takes away deletes what came after it.
#[test]
fn a_later_object_of_the_name_and_one_that_has_changed_its_mind_survive() {
    blackbox_on(Cluster::without_operator, "lifetime-later", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let mut operator = cleaners.operator(DRY).await;
        for name in ["later", "changed"] {
            let ttl = map(&cleaners, name, "1s").await;
            let made = cleaners.until_ready(&ttl, "DryRun").await;
            let mut spec = json!(made.spec);
            spec["dryRun"] = json!(false);
            spec["ttl"] = json!("1h");
            cleaners.create(&format!("twin-of-{name}"), spec).await;
        }
        // Nobody follows the marks any more.
        operator.kill();
        let _operator = cleaners.operator(&[]).await;
        let maps = cleaners.maps();
        maps.delete("later", &DeleteParams::default())
            .await
            .unwrap();
        cleaners.map("later", json!({}), "").await;
        cleaners.annotate_map("changed", TTL, Value::Null).await;
        for (name, index) in [("later", 0), ("changed", 1)] {
            let twin = format!("twin-of-{name}");
            cleaners.edit(&twin, json!({ "ttl": "0" })).await;
            let waiting = format!("WaitingForConditions: conditions[{index}] is false");
            cleaners.until_ready(&twin, &waiting).await;
            assert!(cleaners.has_map(name).await);
        }
    });
}

#[test]
fn a_cleaner_of_somebody_else_stays_as_it_is() {
    blackbox_on(
        Cluster::without_operator,
        "lifetime-foreign",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let _operator = cleaners.operator(KINDS).await;
            let web = cleaners.map("web", json!({}), "").await;
            let foreign = name_of("configmap", &web);
            let theirs = cleaners.create(&foreign, json!({ "ttl": "360h" })).await;
            cleaners.until_ready(&foreign, "NotExpired").await;
            cleaners.annotate_map("web", TTL, json!("1s")).await;
            let said =
                format!("Warning LifetimeIgnored: a Cleaner {foreign} exists that the operator");
            scene.events_are("web", &[&said]).await;
            cleaners.for_a_while().await;
            let now = cleaners.api().get(&foreign).await.unwrap();
            assert_eq!(now.metadata.uid, theirs.metadata.uid);
            assert_eq!(now.metadata.generation, Some(1));
            assert!(cleaners.has_map("web").await);
        },
    );
}

#[test]
fn kinds_that_cannot_be_followed_hold_up_no_other() {
    blackbox_on(Cluster::without_operator, "lifetime-kinds", async |scene| {
        let cleaners = Cleaners::new(&scene);
        // Without a right, not served, and cluster-scoped.
        let kinds = "resourcequotas,nonsense.example.com,namespaces,configmaps";
        let operator = cleaners.operator(&["--cleaner-ttl-kinds", kinds]).await;
        let web = map(&cleaners, "web", "1s").await;
        cleaners.until_gone(&web, &["web"]).await;
        for words in [
            ["watch broke, restarting", "resourcequotas is forbidden"],
            ["do not count for now", "nonsense.example.com"],
            ["do not count for now", "are in no namespace"],
        ] {
            assert_eq!(operator.logged(&words).len(), 1, "{words:?}");
        }
    });
}

/// What is excluded, and what is not listed, gets no Cleaner; what is there already costs no request.
#[test]
fn many_objects_get_one_cleaner_each_and_then_nothing_is_asked() {
    blackbox_on(Cluster::without_operator, "lifetime-many", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let proxy = cleaners.proxy();
        for number in 0..60 {
            map(&cleaners, &format!("map{number}"), "1h").await;
        }
        let (_, app) = deployment(&scene, "app", json!({ "cleanup.kyverno.io/ttl": "1h" })).await;
        let listed = ["--cleaner-ttl-kinds", "configmaps", "--resync", "200ms"];
        let mut operator = cleaners.operator_behind(&proxy, &listed).await;
        let count = async || {
            let all = cleaners.api().list_metadata(&ListParams::default()).await;
            all.unwrap().items.len()
        };
        eventually("each has a Cleaner", async || {
            let found = count().await;
            (found == 60).then_some(()).ok_or_else(|| found.to_string())
        })
        .await;
        let not_expired = "podloom_objects{controller=\"cleaner\",phase=\"NotExpired\"}";
        eventually("each has its status", async || {
            let found = operator.metric(not_expired);
            ((found - 60.0).abs() < 0.1)
                .then_some(())
                .ok_or_else(|| found.to_string())
        })
        .await;
        let writes = proxy.writes();
        cleaners.for_a_while().await;
        assert_eq!(proxy.writes(), writes, "passes go on and write nothing");
        assert_eq!(proxy.count("create cleaners"), 60);
        assert!(cleaners.api().get_opt(&app).await.unwrap().is_none());
        operator.kill();
        let namespace = scene.namespace.as_str();
        let excluded = [KINDS, &["--cleaner-excluded-namespaces", namespace]].concat();
        let _operator = cleaners.operator(&excluded).await;
        eventually("an excluded namespace has none", async || {
            let found = count().await;
            (found == 0).then_some(()).ok_or_else(|| found.to_string())
        })
        .await;
        let maps: Api<ConfigMap> = cleaners.maps();
        let left = maps.list_metadata(&ListParams::default()).await.unwrap();
        assert!(left.items.len() >= 60);
    });
}
