//! What a tenant who may create Cleaners must not come by.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use podloom_tests::cleaner::{Cleaners, condition, map_target, map_targets};
use podloom_tests::{Cluster, blackbox_on, eventually_within};
use serde_json::{Value, json};

/// The value of a Secret, as its object has it.
const HIDDEN: &str = "aHVudGVyMg==";

/// Each evaluation would tell a bit of the value, and each error all of it.
#[test]
fn conditions_tell_nothing_of_a_secret() {
    blackbox_on(Cluster::without_operator, "cleaner-secret", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let operator = cleaners.operator(&[]).await;
        let secrets: Api<Secret> = Api::namespaced(scene.client.clone(), &scene.namespace);
        let copy = format!("{{\"data\":{{\"password\":\"{HIDDEN}\"}}}}");
        let login = json!({
            "metadata": { "name": "login", "annotations": { "kubectl.kubernetes.io/last-applied-configuration": copy } },
            "data": { "password": HIDDEN },
        });
        scene.create(secrets.clone(), login).await;
        let target = json!({ "name": "login", "includeWhenEvaluating": true, "delete": true,
            "reference": { "apiVersion": "v1", "kind": "secret", "name": "login" } });
        let asked = [
            format!("login.data.password == '{HIDDEN}'"),
            "{}[login.data.password] == 1".to_owned(),
            "login.metadata.annotations.all(key, login.metadata.annotations[key] != '')".to_owned(),
        ];
        for (number, asked) in asked.iter().enumerate() {
            let name = format!("ask{number}");
            let spec = json!({ "targets": [target], "conditions": [asked] });
            cleaners.create(&name, spec).await;
            let cleaner = cleaners
                .until_ready(&name, "ConditionEvaluationError: ")
                .await;
            let said = condition(&cleaner, "Ready");
            assert!(said.ends_with("conditions do not see this value"), "{said}");
            if number > 0 {
                let status = serde_json::to_string(&cleaner.status).unwrap();
                assert!(!status.contains(HIDDEN), "{status}");
            }
        }
        assert!(secrets.get_opt("login").await.unwrap().is_some());
        // Its keys, its labels and its age may decide.
        let watched = cleaners.watch().await;
        let spec = json!({ "targets": [target], "conditions": ["'password' in login.data"] });
        cleaners.create("shop", spec).await;
        cleaners.until_gone("shop", &[]).await;
        assert!(secrets.get_opt("login").await.unwrap().is_none());
        let statuses = format!("{:?}", watched.of("shop"));
        let events = format!("{:?}", scene.events("shop").await);
        for text in [operator.printed(), statuses, events] {
            assert!(!text.contains(HIDDEN), "{text}");
        }
    });
}

/// As many objects as a spec may name, with the longest names: etcd takes what is written down of them.
#[test]
fn the_largest_deletion_fits_into_its_status() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-largest",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let name = |number: usize| format!("{number:0>253}");
            let made = (0..2000).map(|number| {
                let map = json!({ "metadata": { "name": name(number), "labels": { "app": "x" } } });
                scene.create(cleaners.maps(), map)
            });
            let made: Vec<_> = stream::iter(made).buffer_unordered(16).collect().await;
            assert_eq!(made.len(), 2000);
            let _operator = cleaners.operator(&[]).await;
            let long = "y".repeat(8000);
            let conditions: Vec<String> = (0..32).map(|_| format!("'{long}' != ''")).collect();
            let spec = json!({ "targets": [map_targets("all", &json!({ "app": "x" }))], "deletion": { "maxObjects": 2000 } });
            // With so much else in the spec, there is no room.
            let mut larger = spec.clone();
            larger["conditions"] = json!(conditions);
            cleaners.create("larger", larger).await;
            cleaners
                .until_ready(
                    "larger",
                    "BlastRadiusExceeded: 2000 objects would be deleted, and a list of them does not fit into the status",
                )
                .await;
            cleaners
                .api()
                .delete("larger", &DeleteParams::default())
                .await
                .unwrap();
            cleaners.create("shop", spec).await;
            eventually_within("all are gone", Duration::from_mins(4), async || {
                let left = cleaners.api().get_opt("shop").await.unwrap();
                match left {
                    None => Ok(()),
                    Some(cleaner) => Err(condition(&cleaner, "Deleting")),
                }
            })
            .await;
            let labelled = ListParams::default().labels("app=x");
            let left = cleaners.maps().list_metadata(&labelled).await.unwrap();
            assert_eq!(left.items.len(), 0);
        },
    );
}

async fn two_maps(cleaners: &Cleaners<'_>) {
    for name in ["a", "b"] {
        cleaners.map(name, json!({ "app": "x" }), "idle").await;
    }
    cleaners.map("other", json!({ "app": "y" }), "idle").await;
}

/// Writes a plan into the status of a Cleaner, as nobody but the operator should.
async fn forge(cleaners: &Cleaners<'_>, name: &str, objects: Vec<Value>) {
    let forged = json!({ "status": { "deletion": { "phase": "Targets", "phaseStartedAt": "2026-01-01T00:00:00.000000Z",
        "objects": objects } } });
    let (all, patch) = (PatchParams::default(), Patch::Merge(forged));
    let written = cleaners.api().patch_status(name, &all, &patch).await;
    written.unwrap();
}

/// An object of a plan.
fn planned((kind, plural): (&str, &str), namespace: &str, name: &str, uid: &str) -> Value {
    json!({ "target": "all", "group": "", "version": "v1", "kind": kind, "resource": plural, "namespace": namespace,
        "name": name, "uid": uid })
}

async fn uid(cleaners: &Cleaners<'_>, name: &str) -> String {
    let map = cleaners.maps().get(name).await.unwrap();
    map.metadata.uid.unwrap()
}

/// Whoever may write the status of a Cleaner that deletes cannot delete what no target selects.
#[test]
fn a_forged_status_deletes_nothing_more() {
    blackbox_on(Cluster::without_operator, "cleaner-forged", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let beside = scene.beside("cleaner-forged-beside", json!({})).await;
        let foreign = Cleaners::new(&beside);
        foreign.map("foreign", json!({}), "idle").await;
        two_maps(&cleaners).await;
        cleaners.map("kept", json!({ "app": "x" }), "idle").await;
        let protect = "cleaner.vtex.dev/protect";
        cleaners.annotate_map("kept", protect, json!("true")).await;
        let secrets: Api<Secret> = Api::namespaced(scene.client.clone(), &scene.namespace);
        let login = json!({ "metadata": { "name": "login" } });
        let login = scene.create(secrets.clone(), login).await;
        let login = login.metadata.uid.unwrap();
        let spec = json!({ "ttl": "10h", "targets": [map_targets("all", &json!({ "app": "x" }))] });
        let (here, there) = (&scene.namespace, &beside.namespace);
        let map = ("ConfigMap", "configmaps");
        let objects = vec![
            planned(("Secret", "secrets"), here, "login", &login),
            planned(("ConfigMap", "secrets"), here, "login", &login),
            planned(map, there, "foreign", &uid(&foreign, "foreign").await),
            planned(map, here, "a", "another-uid"),
            planned(map, here, "b", &uid(&cleaners, "b").await),
            planned(map, here, "other", &uid(&cleaners, "other").await),
            planned(map, here, "kept", &uid(&cleaners, "kept").await),
        ];
        cleaners.create("shop", spec.clone()).await;
        committed(&cleaners, "shop", objects.clone()).await;
        let mut small = spec.clone();
        small["deletion"] = json!({ "maxObjects": 6 });
        cleaners.create("small", small).await;
        committed(&cleaners, "small", objects).await;
        let _operator = cleaners
            .operator(&["--namespace", here, "--namespace", there])
            .await;
        cleaners.until_gone("small", &[]).await;
        cleaners.until_gone("shop", &["b"]).await;
        assert!(secrets.get_opt("login").await.unwrap().is_some());
        assert!(foreign.has_map("foreign").await && cleaners.has_map("a").await);
        assert!(cleaners.has_map("other").await && cleaners.has_map("kept").await);
        let warning = "Warning DeleteTargetFailed: left Secret login alone: no target of the spec that is deleted has its kind; \
                       left ConfigMap foreign alone: it is in another namespace";
        scene.has_event("shop", warning).await;
        let too_many = "Warning DeleteTargetFailed: left Secret login alone: the status lists 7 objects, more than \
                        spec.deletion.maxObjects allows: 6";
        scene.has_event("small", too_many).await;
    });
}

/// Puts a Cleaner into the state that the operator makes before it deletes anything.
async fn committed(cleaners: &Cleaners<'_>, name: &str, objects: Vec<Value>) {
    let finalizers = json!({ "metadata": { "finalizers": ["cleaner.vtex.dev/deletion"] } });
    cleaners.patch(cleaners.api(), name, finalizers).await;
    cleaners.delete(name).await;
    forge(cleaners, name, objects).await;
}

/// Whoever may write only the status of a Cleaner cannot begin a deletion.
#[test]
fn a_forged_status_begins_no_deletion() {
    blackbox_on(Cluster::without_operator, "cleaner-hasty", async |scene| {
        let cleaners = Cleaners::new(&scene);
        two_maps(&cleaners).await;
        let spec = json!({ "ttl": "10h", "targets": [map_targets("all", &json!({ "app": "x" }))] });
        cleaners.create("shop", spec).await;
        let b = uid(&cleaners, "b").await;
        let objects = vec![planned(
            ("ConfigMap", "configmaps"),
            &scene.namespace,
            "b",
            &b,
        )];
        forge(&cleaners, "shop", objects).await;
        let _operator = cleaners.operator(&[]).await;
        let cleaner = cleaners.until_ready("shop", "NotExpired").await;
        assert_eq!(cleaner.metadata.deletion_timestamp, None);
        assert_eq!(cleaner.status.unwrap().deletion, None);
        assert!(cleaners.has_map("b").await);
        let warning = "Warning TriggerRefused: the status lists objects to delete, but this Cleaner has not the finalizer";
        scene.has_event("shop", warning).await;
    });
}

/// How long it takes until a Cleaner with a simple condition has deleted its target.
async fn time_of_a_simple_one(cleaners: &Cleaners<'_>, name: &str) -> Duration {
    cleaners.map(name, json!({}), "idle").await;
    let began = Instant::now();
    let spec =
        json!({ "targets": [map_target("web", name)], "conditions": ["web.data.state == 'idle'"] });
    cleaners.create(name, spec).await;
    cleaners.until_gone(name, &[name]).await;
    began.elapsed()
}

#[test]
fn expensive_conditions_of_one_namespace_do_not_delay_another() {
    blackbox_on(Cluster::without_operator, "cleaner-fair", async |scene| {
        let beside = scene.beside("cleaner-fair-beside", json!({})).await;
        let (greedy, simple) = (Cleaners::new(&scene), Cleaners::new(&beside));
        let (here, there) = (&scene.namespace, &beside.namespace);
        let _operator = greedy
            .operator(&["--namespace", here, "--namespace", there])
            .await;
        let alone = time_of_a_simple_one(&simple, "alone").await;
        let keys: serde_json::Map<String, Value> = (0..400)
            .map(|key| (format!("key-{key}"), json!("")))
            .collect();
        let map = json!({ "metadata": { "name": "large" }, "data": keys });
        scene.create(greedy.maps(), map).await;
        let endless = "large.data.all(a, large.data.all(b, large.data.all(c, a + b + c != '')))";
        let spec = json!({ "retry": { "period": "1s", "monotonic": true },
            "targets": [map_target("large", "large")], "conditions": [endless] });
        for number in 0..40 {
            greedy
                .create(&format!("runaway-{number}"), spec.clone())
                .await;
        }
        greedy
            .until_ready("runaway-0", "ConditionBudgetExceeded")
            .await;
        let beside = time_of_a_simple_one(&simple, "beside").await;
        let most = 4 * alone + Duration::from_secs(3);
        assert!(beside < most, "{beside:?}, and {alone:?} alone");
    });
}
