//! The infrastructure controller with a real Infrastructure Manager, whose Dummy cloud creates no machines: the life of a Cluster.

use kube::ResourceExt;
use kube::api::DeleteParams;
use podloom_api::{ClusterState, OperationKind};
use podloom_tests::faults::Proxy;
use podloom_tests::im::templates;
use podloom_tests::infrastructure::{CLUSTER, Infrastructure, KUBECONFIG, condition, kubeconfig};
use podloom_tests::{Change, Cluster, blackbox_on, eventually};
use serde_json::json;

/// Its states up to ONLINE, a complete status, and a Secret that is IM's output byte for byte.
#[test]
fn a_cluster_goes_from_pending_to_online() {
    blackbox_on(Cluster::without_operator, "infra-online", async |scene| {
        let infrastructure = Infrastructure::new(&scene).await;
        let api_server = Proxy::start(infrastructure.kubeconfig());
        let text = infrastructure.kubeconfig_behind(&api_server);
        let seen = infrastructure.watch().await;
        let _operator = infrastructure.operator(&["--probe-clusters", "true"]).await;
        infrastructure.cluster(&templates::single_node(&text)).await;
        let status = infrastructure.until_state(ClusterState::Online).await;

        let all = [
            ClusterState::Creating,
            ClusterState::Connecting,
            ClusterState::Online,
        ];
        // A watch may be a moment behind.
        eventually("the watch has seen all states", async || {
            let changes = seen.of(CLUSTER).into_iter();
            let states = changes.filter_map(|change| match change {
                Change::Is(cluster) => cluster.status?.state,
                Change::Gone(_) => None,
            });
            let mut states: Vec<ClusterState> = states.collect();
            states.dedup();
            let are_all = states.ends_with(&all);
            are_all.then_some(()).ok_or(format!("{states:?}"))
        })
        .await;
        assert_eq!(infrastructure.stored().await.unwrap(), text);
        for kind in [
            "Scheduled",
            "TemplateApplied",
            "InfrastructureReady",
            "KubeconfigReady",
            "Connected",
            "Ready",
        ] {
            assert!(condition(&status, kind).starts_with("True/"), "{kind}");
        }
        let cluster = infrastructure.now().await;
        assert_eq!(status.observed_generation, cluster.metadata.generation);
        assert_eq!(status.running_on, status.scheduled_to);
        assert_eq!(status.running_on, cluster.spec.cloud_ref);
        assert_eq!(status.last_applied_tosca, cluster.spec.tosca);
        assert_eq!(infrastructure.owner.list(), [status.cluster_id.unwrap()]);
        let operation = status.operation.unwrap();
        assert_eq!(operation.kind, OperationKind::Create);
        assert!(operation.finished_at.is_some());

        // The cluster's API server is gone for a while.
        api_server.drop_connections();
        api_server.silence_all();
        infrastructure.until_state(ClusterState::Connecting).await;
        api_server.resume();
        infrastructure.until_state(ClusterState::Online).await;
        infrastructure.until_gone().await;
        assert!(infrastructure.owner.list().is_empty());
    });
}

/// The pool grows, and shrinks, and stays the same infrastructure.
#[test]
fn a_pool_grows_and_shrinks() {
    blackbox_on(Cluster::without_operator, "infra-pool", async |scene| {
        let infrastructure = Infrastructure::new(&scene).await;
        let _operator = infrastructure.operator(&[]).await;
        infrastructure.cluster(&templates::pool(1, &[])).await;
        let id = infrastructure.until_configured(2).await;
        infrastructure
            .replace_template(&templates::pool(3, &[]))
            .await;
        assert_eq!(infrastructure.until_configured(4).await, id);
        infrastructure
            .replace_template(&templates::pool(2, &["1"]))
            .await;
        assert_eq!(infrastructure.until_configured(3).await, id);
        assert_eq!(infrastructure.owner.list(), [id]);
    });
}

/// A deletion while IM still adds machines, which it refuses with 409, gets through.
#[test]
fn a_cluster_that_is_still_being_created_is_deleted() {
    blackbox_on(Cluster::without_operator, "infra-early", async |scene| {
        let infrastructure = Infrastructure::new(&scene).await;
        let _operator = infrastructure.operator(&[]).await;
        infrastructure.cluster(&templates::pool(7, &[])).await;
        infrastructure
            .until("has an infrastructure", |status| {
                status.cluster_id.is_some()
            })
            .await;
        infrastructure.until_gone().await;
        assert!(infrastructure.owner.list().is_empty());
    });
}

/// The Cluster goes after its infrastructure; its Secret, which it owns, after it.
#[test]
fn deletion_removes_the_infrastructure_first() {
    blackbox_on(Cluster::without_operator, "infra-deleted", async |scene| {
        let infrastructure = Infrastructure::new(&scene).await;
        let _operator = infrastructure.operator(&[]).await;
        infrastructure
            .cluster(&templates::single_node(&kubeconfig()))
            .await;
        infrastructure.until_configured(1).await;
        let secret = infrastructure.secrets().get(KUBECONFIG).await.unwrap();
        let owner = secret.owner_references().first().cloned().unwrap();
        assert_eq!(
            (owner.kind.as_str(), owner.name.as_str()),
            ("Cluster", CLUSTER)
        );
        infrastructure.delete().await;
        eventually("the Cluster is gone", async || {
            let cluster = infrastructure.clusters().get_opt(CLUSTER).await.unwrap();
            let left = infrastructure.owner.list();
            assert!(cluster.is_some() || left.is_empty(), "{left:?}");
            cluster.is_none().then_some(()).ok_or(format!("{left:?}"))
        })
        .await;
    });
}

/// A Cloud and a provider that a Cluster needs can be deleted only after it.
#[test]
fn what_a_cluster_needs_is_deleted_after_it() {
    blackbox_on(Cluster::without_operator, "infra-in-use", async |scene| {
        let infrastructure = Infrastructure::new(&scene).await;
        let _operator = infrastructure.operator(&[]).await;
        infrastructure
            .cluster(&templates::single_node(&kubeconfig()))
            .await;
        let id = infrastructure.until_configured(1).await;
        let all = DeleteParams::default();
        let (clouds, providers, secrets) = (
            infrastructure.clouds(),
            infrastructure.providers(),
            infrastructure.secrets(),
        );
        clouds.delete("local", &all).await.unwrap();
        providers.delete("im", &all).await.unwrap();
        secrets.delete("im", &all).await.unwrap();
        // They still resolve: the Cluster can change, and is deleted with them.
        infrastructure
            .patch(json!({ "timeoutSeconds": { "create": 100 } }))
            .await;
        let generation = infrastructure.now().await.metadata.generation;
        infrastructure
            .until("is observed", |status| {
                status.observed_generation == generation
            })
            .await;
        assert!(clouds.get_opt("local").await.unwrap().is_some());
        assert!(providers.get_opt("im").await.unwrap().is_some());
        assert!(secrets.get_opt("im").await.unwrap().is_some());
        assert_eq!(infrastructure.owner.list(), [id]);
        infrastructure.until_gone().await;
        assert!(infrastructure.owner.list().is_empty());
        eventually("all is gone", async || {
            let cloud = clouds.get_opt("local").await.unwrap().is_some();
            let provider = providers.get_opt("im").await.unwrap().is_some();
            let secret = secrets.get_opt("im").await.unwrap().is_some();
            let left = [cloud, provider, secret];
            (left == [false; 3])
                .then_some(())
                .ok_or(format!("{left:?}"))
        })
        .await;
    });
}
