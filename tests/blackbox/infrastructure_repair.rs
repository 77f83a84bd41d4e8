//! What somebody does to the machines or the kubeconfig of a Cluster behind its back.

use kube::api::{DeleteParams, Patch, PatchParams};
use podloom_api::ClusterState;
use podloom_tests::faults::Proxy;
use podloom_tests::im::{ImServer, templates};
use podloom_tests::infrastructure::{CLUSTER, Infrastructure, KUBECONFIG, condition, kubeconfig};
use podloom_tests::{Cluster, blackbox_on, eventually};
use serde_json::json;

/// With `driftPolicy: Repair` an infrastructure that was deleted is built again; with Report it is only reported.
#[test]
fn a_deleted_infrastructure_is_built_again_or_reported() {
    blackbox_on(Cluster::without_operator, "infra-vanished", async |scene| {
        let im = ImServer::shared().await;
        let proxy = Proxy::to(im.address);
        let infrastructure = Infrastructure::behind(&scene, im, &proxy).await;
        let _operator = infrastructure.operator(&[]).await;
        infrastructure
            .cluster(&templates::single_node(&kubeconfig()))
            .await;
        let id = infrastructure.until_configured(1).await;
        delete_behind(&infrastructure, &proxy, &id).await;
        let other = infrastructure
            .until("has another infrastructure", |status| {
                status.cluster_id.as_ref().is_some_and(|other| *other != id)
            })
            .await;
        infrastructure.until_configured(1).await;
        let other = other.cluster_id.unwrap();
        assert_eq!(infrastructure.owner.list(), std::slice::from_ref(&other));
        scene.has_event(CLUSTER, "Warning DriftDetected").await;

        infrastructure
            .patch(json!({ "driftPolicy": "Report" }))
            .await;
        delete_behind(&infrastructure, &proxy, &other).await;
        let status = infrastructure.until_state(ClusterState::Failed).await;
        assert_eq!(condition(&status, "Stalled"), "True/Vanished");
        assert_eq!(condition(&status, "InfrastructureReady"), "False/Vanished");
        assert!(infrastructure.owner.list().is_empty());
        // It is reported once, not repaired until the policy says so.
        infrastructure
            .patch(json!({ "driftPolicy": "Repair" }))
            .await;
        infrastructure.until_configured(1).await;
        infrastructure.until_owned(1).await;
    });
}

/// Deletes an infrastructure while the operator looks away: a state that is read meanwhile would bring the record back.
async fn delete_behind(infrastructure: &Infrastructure<'_>, proxy: &Proxy, id: &str) {
    infrastructure.patch(json!({ "paused": true })).await;
    infrastructure
        .until_condition("Ready", "False/Paused")
        .await;
    // A read that began before may end later, on a machine that has much to do: then the record is deleted once more.
    proxy.sees_more("GET /infrastructures", 2).await;
    while infrastructure.owner.list().iter().any(|known| known == id) {
        infrastructure.owner.delete(id).await;
        proxy.sees_more("GET /infrastructures", 2).await;
    }
    infrastructure.patch(json!({ "paused": false })).await;
}

#[test]
fn stopped_machines_are_started_again() {
    blackbox_on(Cluster::without_operator, "infra-stopped", async |scene| {
        let infrastructure = Infrastructure::new(&scene).await;
        let _operator = infrastructure.operator(&[]).await;
        infrastructure.cluster(&templates::pool(1, &[])).await;
        let id = infrastructure.until_configured(2).await;
        infrastructure.owner.stop_machines(&id);
        infrastructure
            .until("is not ready", |status| {
                condition(status, "InfrastructureReady") != "True/Configured"
            })
            .await;
        assert_eq!(infrastructure.until_configured(2).await, id);
        assert_eq!(infrastructure.owner.state(&id).state, "configured");
    });
}

/// IM only knows the machines that are left. With `driftPolicy: Repair` the deleted one is created again, and only that.
#[test]
fn a_deleted_machine_is_created_again_or_reported() {
    blackbox_on(Cluster::without_operator, "infra-machine", async |scene| {
        let im = ImServer::shared().await;
        let proxy = Proxy::to(im.address);
        let infrastructure = Infrastructure::behind(&scene, im, &proxy).await;
        let _operator = infrastructure.operator(&[]).await;
        infrastructure.cluster(&templates::pool(2, &[])).await;
        let id = infrastructure.until_configured(3).await;
        let update = "POST /infrastructures/{id}";
        assert_eq!(proxy.count(update), 0);
        let first = |id: &str| {
            let machines = infrastructure.owner.state(id).machines;
            machines.into_keys().next_back().unwrap()
        };
        infrastructure.owner.delete_machine(&id, &first(&id));
        eventually("the machine is created again", async || {
            let machines = infrastructure.owner.state(&id).machines.len();
            (machines == 3 && proxy.count(update) == 1)
                .then_some(())
                .ok_or_else(|| format!("{machines} {:#?}", proxy.requests()))
        })
        .await;
        assert_eq!(infrastructure.until_configured(3).await, id);
        scene.has_event(CLUSTER, "Warning DriftDetected").await;
        // Nothing more is sent.
        proxy.sees_more("GET /infrastructures/{id}/state", 3).await;
        assert_eq!(proxy.count(update), 1);

        infrastructure
            .patch(json!({ "driftPolicy": "Report" }))
            .await;
        infrastructure.owner.delete_machine(&id, &first(&id));
        let status = infrastructure.until_state(ClusterState::Failed).await;
        assert_eq!(condition(&status, "Stalled"), "True/MachinesMissing");
        proxy.sees_more("GET /infrastructures/{id}/state", 3).await;
        assert_eq!(proxy.count(update), 1);
        infrastructure
            .patch(json!({ "driftPolicy": "Repair" }))
            .await;
        assert_eq!(infrastructure.until_configured(3).await, id);
    });
}

/// An orphaned infrastructure goes on, and another Cluster takes it over without new machines.
#[test]
fn an_orphaned_infrastructure_is_adopted() {
    blackbox_on(Cluster::without_operator, "infra-orphan", async |scene| {
        let infrastructure = Infrastructure::new(&scene).await;
        let _operator = infrastructure.operator(&[]).await;
        let template = templates::pool(1, &[]);
        let spec = json!({ "tosca": template, "deletionPolicy": "Orphan" });
        infrastructure.cluster_with(CLUSTER, spec).await;
        let id = infrastructure.until_configured(2).await;
        let before = infrastructure.owner.state(&id);
        infrastructure.until_gone().await;
        assert_eq!(infrastructure.owner.list(), std::slice::from_ref(&id));

        let spec = json!({ "tosca": template, "adoptInfrastructureId": id });
        infrastructure.cluster_with(CLUSTER, spec).await;
        assert_eq!(infrastructure.until_configured(2).await, id);
        assert_eq!(infrastructure.owner.state(&id), before);
        scene
            .has_event(CLUSTER, "Normal InfrastructureAdopted")
            .await;

        // What one Cluster has, another cannot take.
        let spec = json!({ "tosca": template, "adoptInfrastructureId": id });
        infrastructure.cluster_with("thief", spec).await;
        let status = infrastructure
            .until_of("thief", "is refused", |status| {
                condition(status, "InfrastructureReady") == "False/AdoptionFailed"
            })
            .await;
        assert_eq!(status.cluster_id, None);
        infrastructure.until_gone().await;
    });
}

/// A Secret of ours that is deleted or edited is restored; a foreign one is left alone.
#[test]
fn the_kubeconfig_is_restored_and_a_foreign_secret_is_not_touched() {
    blackbox_on(Cluster::without_operator, "infra-secret", async |scene| {
        let infrastructure = Infrastructure::new(&scene).await;
        let _operator = infrastructure.operator(&[]).await;
        infrastructure
            .secret(KUBECONFIG, json!({ "kubeconfig": "somebody's" }))
            .await;
        infrastructure
            .cluster(&templates::single_node(&kubeconfig()))
            .await;
        infrastructure
            .until_condition("KubeconfigReady", "False/SecretConflict")
            .await;
        assert_eq!(infrastructure.stored().await.unwrap(), "somebody's");
        let secrets = infrastructure.secrets();
        for _ in 0..2 {
            // First the foreign one, then our own.
            secrets
                .delete(KUBECONFIG, &DeleteParams::default())
                .await
                .unwrap();
            is_restored(&infrastructure).await;
        }
        let edit = Patch::Merge(json!({ "stringData": { "kubeconfig": "edited" } }));
        secrets
            .patch(KUBECONFIG, &PatchParams::default(), &edit)
            .await
            .unwrap();
        is_restored(&infrastructure).await;
        infrastructure.until_configured(1).await;
    });
}

async fn is_restored(infrastructure: &Infrastructure<'_>) {
    eventually("the kubeconfig is stored", async || {
        let stored = infrastructure.stored().await;
        let is_so = stored.as_deref() == Some(kubeconfig().as_str());
        is_so.then_some(()).ok_or(format!("{stored:?}"))
    })
    .await;
}

/// `paused` stops everything, the deletion too; without it everything goes on.
#[test]
fn a_paused_cluster_is_left_alone() {
    blackbox_on(Cluster::without_operator, "infra-paused", async |scene| {
        let im = ImServer::shared().await;
        let proxy = Proxy::to(im.address);
        let infrastructure = Infrastructure::behind(&scene, im, &proxy).await;
        let _operator = infrastructure.operator(&[]).await;
        infrastructure.cluster(&templates::pool(1, &[])).await;
        let id = infrastructure.until_configured(2).await;
        infrastructure.patch(json!({ "paused": true })).await;
        infrastructure
            .until_condition("Ready", "False/Paused")
            .await;
        let before = proxy.writes();
        infrastructure
            .replace_template(&templates::pool(2, &[]))
            .await;
        infrastructure.owner.stop_machines(&id);
        infrastructure.delete().await;
        // Looks for orphans go on at each drift interval. Nothing else may happen in three of them.
        proxy.sees_more("GET /infrastructures", 3).await;
        assert_eq!(proxy.writes(), before);
        assert_eq!(infrastructure.owner.state(&id).state, "stopped");
        infrastructure.patch(json!({ "paused": false })).await;
        infrastructure.gone().await;
        assert!(infrastructure.owner.list().is_empty());
    });
}
