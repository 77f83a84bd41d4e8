//! A Deployment that is updated in the middle of a rollout: its own rollout and that of the chain do not spoil each other.

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;

use super::*;

const BEHAVIOUR: &str = "kubelet.test/behaviour";
const REPLICAS: i32 = 3;

impl Setting<'_> {
    /// The Deployment `web` with this variable in its template. At each moment, all its pods but one new one are Ready.
    fn web(&self, version: &str) {
        let container = json!({
            "name": "a", "image": "registry.k8s.io/pause:3.10", "env": [{ "name": "VERSION", "value": version }],
        });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "namespace": self.scene.namespace },
            "spec": {
                "replicas": REPLICAS, "selector": { "matchLabels": { "app": "web" } },
                "strategy": { "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } },
                "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [container] } },
            },
        });
        self.scene.cluster.apply_text(&deployment.to_string());
    }

    /// Waits until all pods of the Deployment are of the present template, and no other is left. None of it is ever missing.
    async fn web_is_complete(&self, was_available: bool) {
        let api = Api::<Deployment>::namespaced(self.scene.client.clone(), &self.scene.namespace);
        eventually_within("its rollout ends", 2 * PATIENCE, async || {
            let deployment = api.get("web").await.unwrap();
            let status = deployment.status.unwrap_or_default();
            let available = status.available_replicas.unwrap_or_default();
            assert!(!was_available || available >= REPLICAS, "{status:?}");
            let is_complete = status.observed_generation == deployment.metadata.generation
                && [
                    status.updated_replicas,
                    status.available_replicas,
                    status.replicas,
                ] == [Some(REPLICAS); 3];
            is_complete.then_some(()).ok_or(format!("{status:?}"))
        })
        .await;
    }
}

#[test]
fn a_bad_candidate_holds_the_update_of_a_deployment_until_it_is_taken_back() {
    blackbox_on(Cluster::without_operator, "rollout-update", async |scene| {
        let setting = Setting::new(&scene, &label(BEHAVIOUR, "failed"));
        setting.serving.update(&label(BEHAVIOUR, "running"));
        let _replica = setting.answering("one").await;
        let _judge = setting.judge(&[]);
        setting.web("1");
        setting.web_is_complete(false).await;

        let limits = json!({ "unready": { "pods": 1, "percent": 5 } });
        setting
            .wants(&json!({ "steps": [{ "percent": 100, "duration": "1h" }], "limits": limits }));
        let status = setting.until_phase("Progressing").await;
        setting.followed(1).await;
        setting.web("2");
        let taken_back = setting.until_phase("RolledBack").await;
        assert_eq!(taken_back["reason"], "TooManyUnready", "{taken_back:#}");
        // Nobody touches it: its ReplicaSet makes new pods in place of those that failed.
        setting.web_is_complete(true).await;
        let selected = ListParams::default().labels("app=web");
        let mut pods = scene.pods().list(&selected).await.unwrap().items;
        let is_bad = |pod: &Pod| stamp(pod) == status["candidate"];
        assert!(pods.iter().any(is_bad), "nothing passed the candidate");
        pods.retain(|it| it.status.as_ref().unwrap().phase.as_deref() != Some("Failed"));
        assert_eq!(owners_with(&pods, &status["serving"]), 1);
    });
}
