//! What a tenant who may create Cleaners must not come by.

use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use podloom_tests::cleaner::{Cleaners, condition, map_targets};
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
