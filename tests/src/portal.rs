//! The PortalExposes of one test: their class, their Service, and the operators that work on them.

mod relays;

use std::path::Path;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use podloom_api::{PortalExpose, PortalPhase, TunnelClass};
use serde_json::{Value, json};

use crate::faults::Proxy;
use crate::operator::Operator;
use crate::scene::Scene;
use crate::wait::eventually;
use crate::watched::Watched;

pub use relays::{ASK_HERE, Relays, relay_hostname};

/// A test's PortalExposes.
///
/// TunnelClasses have no namespace, so the test's class has the name of its namespace, and no test marks one as the default unless
/// it has a cluster of its own.
pub struct Portal<'s> {
    scene: &'s Scene,
    /// The name of that account, as the API server knows it.
    pub user: String,
}

impl<'s> Portal<'s> {
    /// Creates the class, with one small replica, and the Service `app` with port 8080.
    pub async fn new(scene: &'s Scene) -> Self {
        let portal = Self::bare(scene);
        portal
            .class(json!({ "replicas": 1, "size": "small" }))
            .await;
        portal.service("app", 8080).await;
        portal
    }

    /// Creates nothing yet.
    pub fn bare(scene: &'s Scene) -> Self {
        Self {
            scene,
            user: "system:serviceaccount:podloom-system:podloom-portal".to_owned(),
        }
    }

    /// The PortalExposes of the test's namespace.
    pub fn exposes(&self) -> Api<PortalExpose> {
        self.namespaced()
    }

    /// The Deployments.
    pub fn deployments(&self) -> Api<Deployment> {
        self.namespaced()
    }

    /// The Secrets.
    pub fn secrets(&self) -> Api<Secret> {
        self.namespaced()
    }

    /// The Services.
    pub fn services(&self) -> Api<Service> {
        self.namespaced()
    }

    /// The TunnelClasses of the cluster.
    pub fn classes(&self) -> Api<TunnelClass> {
        Api::all(self.client())
    }

    fn namespaced<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), &self.scene.namespace)
    }

    fn client(&self) -> Client {
        self.scene.client.clone()
    }

    /// Watches the PortalExposes from now on.
    pub async fn watch(&self) -> Watched<PortalExpose> {
        Watched::new(self.exposes()).await
    }

    /// Watches the Deployments from now on.
    pub async fn watch_deployments(&self) -> Watched<Deployment> {
        Watched::new(self.deployments()).await
    }

    /// Starts an operator for this namespace that believes that all relays are connected, and without plugins, unless the arguments
    /// say otherwise.
    pub async fn operator(&self, arguments: &[&str]) -> Operator {
        let operator = self.spawn(self.kubeconfig(), arguments);
        operator.ready().await;
        operator
    }

    /// Like [`Portal::operator`], with a proxy between it and the API server.
    pub async fn operator_behind(&self, proxy: &Proxy, arguments: &[&str]) -> Operator {
        let operator = self.spawn(&proxy.kubeconfig(self.kubeconfig()), arguments);
        operator.ready().await;
        operator
    }

    /// A proxy for [`Portal::operator_behind`].
    pub fn proxy(&self) -> Proxy {
        Proxy::start(self.kubeconfig())
    }

    /// The kubeconfig of the account that `deploy/` gives the portal controller.
    pub fn kubeconfig(&self) -> &Path {
        self.scene.cluster.portal_kubeconfig()
    }

    /// Starts an operator, and does not wait until it is ready.
    #[must_use]
    pub fn spawn(&self, kubeconfig: &Path, arguments: &[&str]) -> Operator {
        let mut all = vec!["--controllers", "portal"];
        if !arguments.contains(&"--namespace") {
            all.extend(["--namespace", &self.scene.namespace]);
        }
        if !arguments.contains(&"--portal-relay-observation") {
            all.extend(["--portal-relay-observation", "assume"]);
        }
        all.extend(arguments);
        Operator::spawn(&self.scene.cluster, kubeconfig, &all)
    }

    /// Creates or replaces the test's class.
    pub async fn class(&self, spec: Value) {
        self.class_named(&self.scene.namespace, spec, &json!({}))
            .await;
    }

    /// Creates or replaces a class with these annotations.
    pub async fn class_named(&self, name: &str, spec: Value, annotations: &Value) {
        let class = json!({
            "apiVersion": "portal.gosuda.org/v1alpha1", "kind": "TunnelClass",
            "metadata": { "name": name, "annotations": annotations }, "spec": spec,
        });
        let all = PatchParams::apply("test").force();
        let (classes, class) = (self.classes(), Patch::Apply(class));
        classes.patch(name, &all, &class).await.unwrap();
    }

    /// Creates or replaces a Service.
    pub async fn service(&self, name: &str, port: u16) {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
            "spec": { "selector": { "app": name }, "ports": [{ "port": port }] },
        });
        let all = PatchParams::apply("test").force();
        let (services, service) = (self.services(), Patch::Apply(service));
        services.patch(name, &all, &service).await.unwrap();
    }

    /// The spec of a PortalExpose of the Service `app`, in the test's class, at one relay.
    pub fn spec(&self, app: &str) -> Value {
        json!({
            "app": { "name": app, "service": { "name": "app", "port": 8080 } },
            "relay": { "targets": [{ "name": "main", "url": "wss://relay.example.com/relay" }] },
            "tunnelClassName": self.scene.namespace,
        })
    }

    /// Creates a PortalExpose of this name, whose application has the name too.
    pub async fn expose(&self, name: &str) -> PortalExpose {
        self.expose_with(name, self.spec(name)).await
    }

    /// Creates a PortalExpose with this spec.
    pub async fn expose_with(&self, name: &str, spec: Value) -> PortalExpose {
        let expose = json!({ "metadata": { "name": name }, "spec": spec });
        self.scene.create(self.exposes(), expose).await
    }

    /// Changes a PortalExpose by a merge patch.
    pub async fn patch(&self, name: &str, patch: Value) -> PortalExpose {
        let (exposes, merge) = (self.exposes(), Patch::Merge(patch));
        let all = PatchParams::default();
        exposes.patch(name, &all, &merge).await.unwrap()
    }

    /// Deletes a PortalExpose, and does not wait until it is gone.
    pub async fn delete(&self, name: &str) {
        let exposes = self.exposes();
        exposes
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Creates the PortalExpose `shop`, and waits until it is ready. The result has all its changes.
    pub async fn running(&self) -> Watched<PortalExpose> {
        let seen = self.watch().await;
        self.expose("shop").await;
        seen.until_is("shop", "is ready", ready).await;
        seen
    }

    /// Waits until the tunnel of `shop` has rolled since then, and all of its pods are new and ready.
    pub async fn rolled(&self, before: &Deployment) -> Deployment {
        eventually("the tunnel has rolled", async || {
            let now = self.tunnel("shop").await;
            let status = now.status.clone().unwrap_or_default();
            let is_new = now.metadata.generation > before.metadata.generation
                && status.observed_generation == now.metadata.generation
                && status.updated_replicas == now.spec.as_ref().unwrap().replicas
                && status.ready_replicas == status.updated_replicas
                && status.replicas == status.updated_replicas;
            let generation = now.metadata.generation;
            is_new
                .then_some(now)
                .ok_or_else(|| format!("{generation:?} {status:?}"))
        })
        .await
    }

    /// How many ReplicaSets there are: each roll makes one.
    pub fn replica_sets(&self) -> usize {
        let namespace = ["--namespace", self.scene.namespace.as_str()];
        let get = [&["get", "replicasets", "--output=name"], &namespace[..]].concat();
        self.scene.cluster.kubectl(&get).lines().count()
    }

    /// The Deployment of a PortalExpose with a short name.
    pub async fn tunnel(&self, name: &str) -> Deployment {
        self.deployments().get(&tunnel_name(name)).await.unwrap()
    }
}

/// The name of the Deployment of a PortalExpose with a short name.
#[must_use]
pub fn tunnel_name(expose: &str) -> String {
    format!("{expose}-tunnel")
}

/// The name of the Secret of a PortalExpose with a short name.
#[must_use]
pub fn identity_name(expose: &str) -> String {
    format!("{expose}-tunnel-identity")
}

/// The phase of a PortalExpose.
#[must_use]
pub fn phase(expose: &PortalExpose) -> Option<PortalPhase> {
    expose.status.as_ref()?.phase
}

/// Whether a PortalExpose is ready.
#[must_use]
pub fn ready(expose: &PortalExpose) -> bool {
    is(expose, PortalPhase::Ready)
}

/// Whether a PortalExpose has failed.
#[must_use]
pub fn failed(expose: &PortalExpose) -> bool {
    is(expose, PortalPhase::Failed)
}

/// The spec of a tunnel's pods.
#[must_use]
pub fn pod(deployment: &Deployment) -> Value {
    let template = &deployment.spec.as_ref().unwrap().template;
    serde_json::to_value(template.spec.as_ref().unwrap()).unwrap()
}

/// The arguments of a tunnel's client.
#[must_use]
pub fn args(deployment: &Deployment) -> Vec<String> {
    serde_json::from_value(pod(deployment)["containers"][0]["args"].clone()).unwrap()
}

/// The public URL of a PortalExpose; empty if it has none.
#[must_use]
pub fn url(expose: &PortalExpose) -> &str {
    let url = expose
        .status
        .as_ref()
        .and_then(|status| status.public_url.as_deref());
    url.unwrap_or_default()
}

/// Whether a PortalExpose is in this phase, and the status describes its present spec.
#[must_use]
pub fn is(expose: &PortalExpose, wanted: PortalPhase) -> bool {
    let status = expose.status.as_ref();
    status.and_then(|status| status.observed_generation) == expose.metadata.generation
        && phase(expose) == Some(wanted)
}

/// A condition of a PortalExpose as `Status/Reason`; empty if it has none.
#[must_use]
pub fn condition(expose: &PortalExpose, kind: &str) -> String {
    found(expose, kind).map_or_else(String::new, |condition| {
        format!("{}/{}", condition.status, condition.reason)
    })
}

/// The message of a condition of a PortalExpose; empty if it has none.
#[must_use]
pub fn message(expose: &PortalExpose, kind: &str) -> String {
    found(expose, kind).map_or_else(String::new, |condition| condition.message.clone())
}

fn found<'e>(expose: &'e PortalExpose, kind: &str) -> Option<&'e Condition> {
    let conditions = expose.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}
