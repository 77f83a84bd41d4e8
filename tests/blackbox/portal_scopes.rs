//! Which namespaces have tunnels, and which hostnames they may have.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use podloom_api::PortalExpose;
use podloom_tests::portal::{Portal, phase, ready, tunnel_name};
use podloom_tests::{Cluster, Scene, blackbox_on, eventually};
use serde_json::{Value, json};

async fn is_gone(portal: &Portal<'_>) {
    eventually("shop is gone", async || {
        let left = portal.exposes().get_opt("shop").await.unwrap();
        left.map_or(Ok(()), |left| Err(format!("{:?}", left.metadata)))
    })
    .await;
}

#[test]
fn each_watched_namespace_has_its_tunnels_and_no_other() {
    blackbox_on(Cluster::without_operator, "portal-scope-a", async |scene| {
        let (b, c) = (
            scene.beside("portal-scope-b", json!({})).await,
            scene.beside("portal-scope-c", json!({})).await,
        );
        let [first, second, outside] = [&scene, &b, &c].map(Portal::new);
        let (first, second, outside) = (first.await, second.await, outside.await);
        let both = [
            "--namespace",
            "portal-scope-a",
            "--namespace",
            "portal-scope-b",
        ];
        let _operator = first.operator(&both).await;
        let (seen, seen_there) = (first.watch().await, second.watch().await);
        // The same name in each namespace, and a hostname of its own.
        let expose = async |portal: &Portal<'_>, app: &str| {
            portal.expose_with("shop", portal.spec(app)).await;
        };
        expose(&outside, "scope-c").await;
        expose(&first, "scope-a").await;
        expose(&second, "scope-b").await;
        seen.until_is("shop", "is ready", ready).await;
        seen_there.until_is("shop", "is ready", ready).await;
        let args = |tunnel| podloom_tests::portal::args(&tunnel).join(" ");
        assert!(args(first.tunnel("shop").await).contains("--name scope-a"));
        assert!(args(second.tunnel("shop").await).contains("--name scope-b"));
        // What happens in one namespace reaches the tunnel there.
        second.delete("shop").await;
        is_gone(&second).await;
        assert!(ready(&first.exposes().get("shop").await.unwrap()));
        let untouched = outside.exposes().get("shop").await.unwrap();
        assert_eq!(
            (phase(&untouched), untouched.metadata.finalizers),
            (None, None)
        );
        let name = tunnel_name("shop");
        assert!(
            outside
                .deployments()
                .get_opt(&name)
                .await
                .unwrap()
                .is_none()
        );
    });
}

/// The policy of `deploy/PORTAL.md`, for the scene's namespace alone: other tests are on the same cluster.
fn policy(scene: &Scene) -> Value {
    let guide = include_str!("../../deploy/PORTAL.md");
    let (_, block) = guide.split_once("```yaml\napiVersion: admission").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let text = format!("apiVersion: admission{block}")
        .replace("name: portal-hostnames", "name: portal-policy");
    let text = text.replace("policyName: portal-hostnames", "policyName: portal-policy");
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let label = json!({ "kubernetes.io/metadata.name": scene.namespace });
    objects[1]["spec"]["matchResources"] = json!({ "namespaceSelector": { "matchLabels": label } });
    json!({ "apiVersion": "v1", "kind": "List", "items": objects })
}

#[test]
fn a_policy_decides_which_namespace_has_which_hostname() {
    blackbox_on(Cluster::without_operator, "portal-policy", async |scene| {
        let portal = Portal::new(&scene).await;
        let _operator = portal.operator(&[]).await;
        // From before the policy, so it stays.
        let _seen = portal.running().await;
        scene.cluster.apply_text(&policy(&scene).to_string());
        let new = |app: &str| -> PortalExpose {
            let expose = json!({
                "apiVersion": "portal.gosuda.org/v1alpha1", "kind": "PortalExpose",
                "metadata": { "name": app }, "spec": portal.spec(app),
            });
            serde_json::from_value(expose).unwrap()
        };
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let exposes = portal.exposes();
        let refused = async |app: &str| {
            let created = exposes.create(&dry_run, &new(app)).await;
            created.err().map(|error| error.to_string())
        };
        eventually("the policy is in effect", async || {
            let error = refused("blog").await.unwrap_or_default();
            error
                .contains("example.com/hostnames")
                .then_some(())
                .ok_or(error)
        })
        .await;
        let namespaces: Api<Namespace> = Api::all(scene.client.clone());
        let allowed =
            json!({ "metadata": { "annotations": { "example.com/hostnames": "web,blog" } } });
        let allowed = Patch::Merge(allowed);
        namespaces
            .patch(&scene.namespace, &PatchParams::default(), &allowed)
            .await
            .unwrap();
        eventually("the hostname is allowed", async || {
            refused("blog").await.map_or(Ok(()), Err)
        })
        .await;
        assert!(refused("blo").await.is_some());
        // The operator can still write what was there before.
        portal.delete("shop").await;
        is_gone(&portal).await;
    });
}
