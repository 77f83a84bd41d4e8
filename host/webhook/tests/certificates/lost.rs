//! Secrets that are lost or damaged while replicas serve.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{authorities, connect};
use crate::cluster::SECRET;
use crate::rotation::Visitor;
use crate::scene::{Scene, certificates, eventually, quiet};
use crate::start::LONG;

/// Text as it is in a Secret: `garbage`.
const GARBAGE: &str = "Z2FyYmFnZQ==";

#[test]
fn replicas_serve_on_without_a_secret_and_then_follow_the_new_one() {
    certificates("deleted", LONG, async |scene: &Scene| {
        scene.configure();
        let leader = scene.leader();
        let replicas = [scene.replica(), scene.replica()];
        let [one, two] = &replicas;
        scene.until_settled(&[one, two]).await;
        let before = scene.bundles().await.remove(0);
        let mut visitor = Visitor::new(scene, &[one, two]);
        let changed = async {
            drop(leader);
            let deleted = scene.secrets().delete(SECRET, &Default::default()).await;
            deleted.unwrap();
            eventually("readiness says so", async || match one.slot.status() {
                Ok(status) if status.contains("does not exist") => Ok(()),
                status => Err(status),
            })
            .await;
            connect(&one.slot, &before, "localhost").await.unwrap();
            let _leader = scene.leader();
            scene.until_settled(&[one, two]).await;
            eventually("the old authority is no longer published", async || {
                let bundle = scene.bundles().await.remove(0);
                let found = authorities(&bundle).len();
                if found == 1 { Ok(()) } else { Err(found) }
            })
            .await;
            scene.until_settled(&[one, two]).await;
        };
        visitor.during(changed).await;
        assert_eq!(visitor.authorities.len(), 2);
    });
}

/// An older Secret is put back, whose authority nobody trusts any more.
#[test]
fn a_secret_of_a_backup_replaces_the_newer_one_without_a_failed_connection() {
    certificates("restored", LONG, async |scene: &Scene| {
        scene.configure();
        let leader = scene.leader();
        let replicas = [scene.replica(), scene.replica()];
        let [one, two] = &replicas;
        scene.until_settled(&[one, two]).await;
        let (backup, before) = (scene.secret().await.data, scene.bundles().await.remove(0));
        drop(leader);
        // Nobody serves or publishes the first authority any more.
        let deleted = scene.secrets().delete(SECRET, &Default::default()).await;
        deleted.unwrap();
        scene.remove_configurations().await;
        scene.configure();
        let _leader = scene.slow_leader();
        scene.until_settled(&[one, two]).await;
        let mut visitor = Visitor::new(scene, &[one, two]);
        let restored = async {
            scene.merge(json!({ "data": backup })).await;
            eventually("only the backup's authority is trusted", async || {
                let bundles = scene.bundles().await;
                if bundles.iter().all(|bundle| *bundle == before) {
                    Ok(())
                } else {
                    Err(bundles)
                }
            })
            .await;
            scene.until_settled(&[one, two]).await;
        };
        visitor.during(restored).await;
        assert_eq!(visitor.authorities.len(), 2);
    });
}

/// Damages the Secret in several ways, one after the other, while a client connects all the time.
#[test]
fn a_damaged_secret_is_repaired_without_a_failed_connection() {
    certificates("damaged", LONG, async |scene: &Scene| {
        scene.configure();
        let _leader = scene.leader();
        let replicas = [scene.replica(), scene.replica()];
        let [one, two] = &replicas;
        scene.until_settled(&[one, two]).await;
        let mut visitor = Visitor::new(scene, &[one, two]);
        let damages: [Value; 5] = [
            json!({ "tls.key": GARBAGE }),
            json!({ "tls.crt": null }),
            json!({ "ca.key": GARBAGE }),
            json!({ "ca.crt": GARBAGE, "other": GARBAGE }),
            json!({ "ca.crt": "", "ca.key": "", "tls.crt": "", "tls.key": "" }),
        ];
        let damaged = async {
            for damage in damages {
                let version = scene.secret().await.metadata.resource_version;
                scene.merge(json!({ "data": damage })).await;
                eventually("the leader repairs it", async || {
                    let secret = scene.secret().await;
                    let data = secret.data.unwrap_or_default();
                    let is_whole = ["ca.crt", "ca.key", "tls.crt", "tls.key"]
                        .iter()
                        .all(|name| data.get(*name).is_some_and(|value| value.0.len() > 100));
                    if is_whole && secret.metadata.resource_version != version {
                        Ok(())
                    } else {
                        Err(())
                    }
                })
                .await;
                scene.until_settled(&[one, two]).await;
            }
            // A replica that starts now finds everything in place.
            let three = scene.replica();
            scene.until_settled(&[one, two, &three]).await;
            quiet(Duration::from_secs(1)).await;
        };
        visitor.during(damaged).await;
    });
}
