//! New clusters, and Secrets that are not ours.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use serde_json::json;

use crate::cluster::SECRET;
use crate::scene::{Scene, certificates, eventually, quiet};

/// A lifetime with which nothing is renewed during a test, and looks come every two seconds.
pub(crate) const LONG: Duration = Duration::from_secs(60);

#[test]
fn replicas_and_leaders_that_start_at_once_agree() {
    certificates("at-once", LONG * 10, async |scene: &Scene| {
        scene.configure();
        // Two leaders overlap, if one does not know yet that it is none.
        let leaders = [scene.leader(), scene.leader()];
        let replicas = [scene.replica(), scene.replica()];
        let [one, two] = &replicas;
        one.slot.first().await;
        let authorities = scene.until_settled(&[one, two]).await;
        assert_eq!(authorities, 1, "the loser's authority is not published");
        let version = scene.secret().await.metadata.resource_version;
        // Somebody applies the manifests again, without a caBundle.
        scene.configure();
        scene.until_settled(&[one, two]).await;
        assert_eq!(scene.secret().await.metadata.resource_version, version);
        drop(leaders);
    });
}

#[test]
fn configurations_that_come_later_are_published_too() {
    certificates("later", LONG, async |scene: &Scene| {
        let (_leader, replica) = (scene.leader(), scene.replica());
        replica.slot.first().await;
        scene.configure();
        scene.until_settled(&[&replica]).await;
    });
}

#[test]
fn a_secret_of_somebody_else_stays_until_it_is_deleted() {
    certificates("foreign", LONG, async |scene: &Scene| {
        scene.configure();
        let foreign: Secret = serde_json::from_value(json!({
            "metadata": { "name": SECRET }, "type": "Opaque", "stringData": { "tls.key": "precious" },
        }))
        .unwrap();
        let created = scene
            .secrets()
            .create(&PostParams::default(), &foreign)
            .await;
        let before = created.unwrap();
        let (leader, replica) = (scene.leader(), scene.replica());
        eventually("readiness says so", async || match replica.slot.status() {
            Err(status) if status.contains("is not podloom's") => Ok(()),
            status => Err(status),
        })
        .await;
        quiet(Duration::from_secs(5)).await;
        assert_eq!(scene.secret().await.metadata, before.metadata);
        let deleted = scene.secrets().delete(SECRET, &Default::default()).await;
        deleted.unwrap();
        scene.until_settled(&[&replica]).await;
        drop(leader);
    });
}

#[test]
fn an_empty_secret_is_filled() {
    certificates("empty", LONG, async |scene: &Scene| {
        scene.configure();
        let empty: Secret = serde_json::from_value(json!({
            "metadata": { "name": SECRET, "annotations": { "kept": "yes" } }, "type": "kubernetes.io/tls",
            "data": { "tls.crt": "", "tls.key": "" },
        }))
        .unwrap();
        let created = scene.secrets().create(&PostParams::default(), &empty).await;
        created.unwrap();
        let (_leader, replica) = (scene.leader(), scene.replica());
        scene.until_settled(&[&replica]).await;
        let metadata = scene.secret().await.metadata;
        assert_eq!(metadata.annotations.unwrap()["kept"], "yes");
        assert_eq!(
            metadata.labels.unwrap()["app.kubernetes.io/managed-by"],
            "podloom"
        );
    });
}
