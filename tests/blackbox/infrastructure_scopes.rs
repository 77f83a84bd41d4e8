//! Which namespaces have Clusters, and which infrastructures are whose.

use podloom_tests::faults::Proxy;
use podloom_tests::im::{ImServer, templates};
use podloom_tests::infrastructure::{CLUSTER, Infrastructure, kubeconfig};
use podloom_tests::{Cluster, blackbox_on, eventually};
use serde_json::json;

#[test]
fn each_watched_namespace_has_its_clusters_and_no_other() {
    blackbox_on(Cluster::without_operator, "infra-scope-a", async |scene| {
        let second = scene.beside("infra-scope-b", json!({})).await;
        let outside = scene.beside("infra-scope-c", json!({})).await;
        let first = Infrastructure::new(&scene).await;
        let (second, outside) = (
            Infrastructure::new(&second).await,
            Infrastructure::new(&outside).await,
        );
        let both = [
            "--namespace",
            "infra-scope-a",
            "--namespace",
            "infra-scope-b",
        ];
        let _operator = first.operator(&both).await;
        let template = templates::single_node(&kubeconfig());
        for infrastructure in [&outside, &first, &second] {
            infrastructure.cluster(&template).await;
        }
        first.until_configured(1).await;
        second.until_configured(1).await;
        first.until_gone().await;
        // Each has an owner of its own, so nothing else was deleted.
        assert!(first.owner.list().is_empty());
        assert_eq!(second.owner.list().len(), 1);
        let untouched = outside.now().await;
        assert_eq!(untouched.status, None);
        assert_eq!(untouched.metadata.finalizers, None);
        assert!(outside.owner.list().is_empty());
    });
}

/// An infrastructure that was made for a Cluster which is gone is counted and told once, and is left alone.
#[test]
fn orphans_are_counted() {
    blackbox_on(Cluster::without_operator, "infra-orphans", async |scene| {
        let im = ImServer::shared().await;
        let proxy = Proxy::to(im.address);
        let infrastructure = Infrastructure::behind(&scene, im, &proxy).await;
        let mut lost = templates::single_node(&kubeconfig());
        lost["metadata"] = json!({ "infra_name": "podloom-00000000-1111-2222-3333-444444444444" });
        let orphan = infrastructure.owner.create(&lost);
        // What somebody else made is nobody's orphan.
        let foreign = infrastructure
            .owner
            .create(&templates::single_node("theirs"));
        let operator = infrastructure.operator(&[]).await;
        infrastructure
            .cluster(&templates::single_node(&kubeconfig()))
            .await;
        let id = infrastructure.until_configured(1).await;
        let counted = async |wanted: f64| {
            eventually(&format!("{wanted} orphans are counted"), async || {
                let is = operator.metric("podloom_im_orphaned_infrastructures");
                let is_so = (is - wanted).abs() < 0.1;
                is_so.then_some(()).ok_or_else(|| is.to_string())
            })
            .await;
        };
        counted(1.0).await;
        // Two more looks: it is told once.
        proxy.sees_more("GET /infrastructures", 2).await;
        counted(1.0).await;
        let told = operator.logged(&["WARN", &orphan]);
        assert_eq!(told.len(), 1, "{told:#?}");
        let mut all = infrastructure.owner.list();
        all.sort_unstable();
        let mut wanted = [orphan.clone(), foreign, id];
        wanted.sort_unstable();
        assert_eq!(all, wanted);
        infrastructure.owner.delete(&orphan).await;
        counted(0.0).await;
    });
}

/// A Cluster that is deleted and created again with its name has nothing of the first one.
#[test]
fn a_cluster_of_the_same_name_is_another() {
    blackbox_on(Cluster::without_operator, "infra-again", async |scene| {
        let im = ImServer::shared().await;
        let infrastructure = Infrastructure::at(&scene, im, &im.url()).await;
        let _operator = infrastructure.operator(&[]).await;
        let template = templates::single_node(&kubeconfig());
        let orphan = json!({ "tosca": template, "deletionPolicy": "Orphan" });
        infrastructure.cluster_with(CLUSTER, orphan).await;
        let first = infrastructure.until_configured(1).await;
        infrastructure.until_gone().await;
        infrastructure.cluster(&template).await;
        let second = infrastructure.until_configured(1).await;
        assert_ne!(first, second);
        infrastructure.until_gone().await;
        assert_eq!(infrastructure.owner.list(), [first]);
    });
}
