//! An Infrastructure Manager behind TLS, whose authority only its provider knows.

use kube::api::{Patch, PatchParams};
use podloom_tests::doubles::Double;
use podloom_tests::im::{ImServer, templates};
use podloom_tests::infrastructure::{Infrastructure, condition, kubeconfig, message};
use podloom_tests::{Cluster, blackbox_on};
use serde_json::json;
use tempfile::TempDir;

/// Without the authority nothing is created; with it the Cluster is created, and deleted again.
#[test]
fn im_is_asked_over_tls() {
    blackbox_on(Cluster::without_operator, "infra-tls", async |scene| {
        let im = ImServer::shared().await;
        let files = TempDir::new().unwrap();
        let authority = files.path().join("ca.pem");
        let front = Double::tls_to(&authority, im.address);
        let url = format!("https://{}", front.address);
        let infrastructure = Infrastructure::at(&scene, im, &url).await;
        let _operator = infrastructure.operator(&[]).await;
        infrastructure
            .cluster(&templates::single_node(&kubeconfig()))
            .await;
        let status = infrastructure
            .until("is refused", |status| {
                condition(status, "InfrastructureReady") == "False/Unreachable"
            })
            .await;
        let text = message(&status, "InfrastructureReady");
        assert!(text.contains("certificate"), "{text}");
        assert!(infrastructure.owner.list().is_empty());

        let bundle = std::fs::read_to_string(&authority).unwrap();
        let trust = Patch::Merge(json!({ "spec": { "im": { "caBundle": bundle } } }));
        infrastructure
            .providers()
            .patch("im", &PatchParams::default(), &trust)
            .await
            .unwrap();
        let id = infrastructure.until_configured(1).await;
        assert_eq!(infrastructure.owner.list(), [id]);
        infrastructure.until_gone().await;
        assert!(infrastructure.owner.list().is_empty());
    });
}
