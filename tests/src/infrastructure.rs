//! The Clusters of one test: their Cloud, their Infrastructure Manager, and the operators that work on them.

mod status;

use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use podloom_api::{
    Cloud, Cluster, ClusterState, ClusterStatus, InfrastructureKind, InfrastructureProvider,
};
use serde_json::{Value, json};

use crate::faults::Proxy;
use crate::im::{ImOwner, ImServer};
use crate::operator::Operator;
use crate::scene::Scene;
use crate::wait::eventually;
use crate::watched::Watched;
use status::told;
pub use status::{condition, is_configured, message};

/// The name of the Cluster of a test that has one.
pub const CLUSTER: &str = "one";

/// The name of the Secret with its kubeconfig.
pub const KUBECONFIG: &str = "one-kubeconfig";

/// A token in the kubeconfig of [`kubeconfig`], which must be found nowhere else.
pub const TOKEN: &str = "t0ken-of-the-cluster";

/// What each operator of a test runs with, unless the test gives another value.
const DEFAULTS: [(&str, &str); 4] = [
    ("--im-allow-cidr", "127.0.0.0/8"),
    ("--im-settle", "2s"),
    ("--drift-interval", "2s"),
    ("--probe-clusters", "false"),
];

/// A test's Clusters, on the Cloud `local` of the provider `im`.
pub struct Infrastructure<'s> {
    scene: &'s Scene,
    /// The account at the Infrastructure Manager: each test has its own, so that all tests can share a server.
    pub owner: ImOwner,
}

impl<'s> Infrastructure<'s> {
    /// Creates a Cloud on the server that the tests share.
    pub async fn new(scene: &'s Scene) -> Self {
        let im = ImServer::shared().await;
        Self::at(scene, im, &im.url()).await
    }

    /// Creates a Cloud on this server, which is found at this URL: its own, or that of a proxy in front of it.
    pub async fn at(scene: &'s Scene, im: &ImServer, url: &str) -> Self {
        let infrastructure = Self::bare(scene, im);
        infrastructure
            .secret("im", json!({ "password": infrastructure.password() }))
            .await;
        infrastructure
            .provider("im", infrastructure.basic(url))
            .await;
        infrastructure.cloud("local", "im").await;
        infrastructure
    }

    /// Creates a Cloud on a server behind this proxy, which counts and delays what is asked of it.
    pub async fn behind(scene: &'s Scene, im: &ImServer, proxy: &Proxy) -> Self {
        Self::at(scene, im, &proxy.url()).await
    }

    /// Creates nothing yet.
    pub fn bare(scene: &'s Scene, im: &ImServer) -> Self {
        let owner = im.owner(&scene.namespace, &password(&scene.namespace));
        Self { scene, owner }
    }

    /// The password of the account, which must be found in no log, no status and no Event.
    #[must_use]
    pub fn password(&self) -> String {
        password(&self.scene.namespace)
    }

    /// The Clusters of the test's namespace.
    pub fn clusters(&self) -> Api<Cluster> {
        self.namespaced()
    }

    /// The Clouds.
    pub fn clouds(&self) -> Api<Cloud> {
        self.namespaced()
    }

    /// The providers.
    pub fn providers(&self) -> Api<InfrastructureProvider> {
        self.namespaced()
    }

    /// The Secrets.
    pub fn secrets(&self) -> Api<Secret> {
        self.namespaced()
    }

    /// The objects of a kind without namespace: its objects have the Rust types of its namespaced twin.
    pub fn global(&self, kind: InfrastructureKind) -> Api<DynamicObject> {
        Api::all_with(self.scene.client.clone(), &kind.resource())
    }

    fn namespaced<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.scene.client.clone(), &self.scene.namespace)
    }

    /// Watches the Clusters from now on.
    pub async fn watch(&self) -> Watched<Cluster> {
        Watched::new(self.clusters()).await
    }

    /// Creates a Secret with these texts.
    pub async fn secret(&self, name: &str, texts: Value) {
        let secret = json!({ "metadata": { "name": name }, "stringData": texts });
        self.scene.create(self.secrets(), secret).await;
    }

    /// What `spec.im` of a provider at this URL is: the account of the test, whose password is in the Secret `im`.
    #[must_use]
    pub fn basic(&self, url: &str) -> Value {
        let secret = json!({ "name": "im" });
        json!({ "url": url, "basic": { "username": self.scene.namespace, "passwordSecretRef": secret } })
    }

    /// Creates an InfrastructureProvider.
    pub async fn provider(&self, name: &str, im: Value) {
        let provider = json!({ "metadata": { "name": name }, "spec": { "im": im } });
        self.scene.create(self.providers(), provider).await;
    }

    /// Lets templates name files on the server, as some of [`templates`](crate::im::templates) do.
    pub async fn allow_files(&self) {
        let allow = json!({ "spec": { "im": { "allowFileReferences": true } } });
        let (providers, patch) = (self.providers(), Patch::Merge(allow));
        let all = PatchParams::default();
        providers.patch("im", &all, &patch).await.unwrap();
    }

    /// Creates a Cloud of IM's Dummy type.
    pub async fn cloud(&self, name: &str, provider: &str) {
        let provider = json!({ "kind": "InfrastructureProvider", "name": provider });
        let spec = json!({ "providerRef": provider, "generic": { "type": "Dummy" } });
        let cloud = json!({ "metadata": { "name": name }, "spec": spec });
        self.scene.create(self.clouds(), cloud).await;
    }

    /// Creates the test's Cluster from a template, on the Cloud `local`. It is read each second.
    pub async fn cluster(&self, template: &Value) -> Cluster {
        self.cluster_with(CLUSTER, json!({ "tosca": template }))
            .await
    }

    /// Creates a Cluster with this spec; a template without `cloudRef` is for the Cloud `local`, unless `cloudRef` is null.
    pub async fn cluster_with(&self, name: &str, spec: Value) -> Cluster {
        let mut all = json!({ "pollIntervalSeconds": 1 });
        if spec.get("tosca").is_some() {
            all["cloudRef"] = json!({ "kind": "Cloud", "name": "local" });
        }
        for (field, value) in spec.as_object().unwrap() {
            all[field] = value.clone();
        }
        let cluster = json!({ "metadata": { "name": name }, "spec": all });
        self.scene.create(self.clusters(), cluster).await
    }

    /// Changes the spec of the test's Cluster by a merge patch.
    pub async fn patch(&self, spec: Value) {
        self.patch_all(json!({ "spec": spec })).await;
    }

    /// Changes the test's Cluster by a merge patch.
    pub async fn patch_all(&self, change: Value) {
        let (clusters, patch) = (self.clusters(), Patch::Merge(change));
        let all = PatchParams::default();
        clusters.patch(CLUSTER, &all, &patch).await.unwrap();
    }

    /// Replaces the template. A merge patch would keep what it lacks.
    pub async fn replace_template(&self, template: &Value) {
        let change = json!([{ "op": "replace", "path": "/spec/tosca", "value": template }]);
        let patch = Patch::Json::<()>(serde_json::from_value(change).unwrap());
        let clusters = self.clusters();
        clusters
            .patch(CLUSTER, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// The test's Cluster.
    pub async fn now(&self) -> Cluster {
        self.clusters().get(CLUSTER).await.unwrap()
    }

    /// Waits until the test's Cluster is so.
    pub async fn until(&self, what: &str, is: impl Fn(&ClusterStatus) -> bool) -> ClusterStatus {
        self.until_of(CLUSTER, what, is).await
    }

    /// Waits until a Cluster is so.
    pub async fn until_of(
        &self,
        name: &str,
        what: &str,
        is: impl Fn(&ClusterStatus) -> bool,
    ) -> ClusterStatus {
        let clusters = self.clusters();
        eventually(&format!("{name} {what}"), async || {
            let status = clusters.get(name).await.unwrap().status;
            let status = status.unwrap_or_default();
            if is(&status) {
                return Ok(status);
            }
            Err(told(&status))
        })
        .await
    }

    /// Waits until the test's Cluster has this state.
    pub async fn until_state(&self, state: ClusterState) -> ClusterStatus {
        let what = format!("is {state:?}");
        self.until(&what, |status| status.state == Some(state))
            .await
    }

    /// Waits until a condition of the test's Cluster is so: `False/TemplateInvalid`.
    pub async fn until_condition(&self, kind: &str, wanted: &str) -> ClusterStatus {
        let what = format!("has {kind} {wanted}");
        self.until(&what, |status| condition(status, kind) == wanted)
            .await
    }

    /// Waits until all machines are configured, as many as this, and the kubeconfig is stored. Returns the infrastructure's id.
    pub async fn until_configured(&self, machines: i32) -> String {
        let what = format!("has {machines} configured machines and a kubeconfig");
        let status = self.until(&what, |status| is_configured(status, machines));
        status.await.cluster_id.unwrap()
    }

    /// What the Secret with the kubeconfig has, if it exists.
    pub async fn stored(&self) -> Option<String> {
        let secret = self.secrets().get_opt(KUBECONFIG).await.unwrap()?;
        let bytes = secret.data?.remove("kubeconfig")?;
        Some(String::from_utf8(bytes.0).unwrap())
    }

    /// Deletes the test's Cluster, and does not wait until it is gone.
    pub async fn delete(&self) {
        let clusters = self.clusters();
        clusters
            .delete(CLUSTER, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Deletes the test's Cluster, and waits until it is gone.
    pub async fn until_gone(&self) {
        self.delete().await;
        self.gone().await;
    }

    /// Waits until the test's Cluster is gone.
    pub async fn gone(&self) {
        let clusters = self.clusters();
        eventually("the Cluster is gone", async || {
            match clusters.get_opt(CLUSTER).await.unwrap() {
                None => Ok(()),
                Some(cluster) => Err(told(&cluster.status.unwrap_or_default())),
            }
        })
        .await;
    }

    /// Waits until the account has this many infrastructures, and returns their ids.
    pub async fn until_owned(&self, count: usize) -> Vec<String> {
        eventually(&format!("there are {count} infrastructures"), async || {
            let list = self.owner.list();
            let is_so = list.len() == count;
            is_so.then_some(list.clone()).ok_or(format!("{list:?}"))
        })
        .await
    }

    /// Starts an operator for this namespace, whose poll and drift intervals are short, and which probes no clusters, unless the
    /// arguments say otherwise.
    pub async fn operator(&self, arguments: &[&str]) -> Operator {
        let operator = self.spawn(self.kubeconfig(), arguments);
        operator.ready().await;
        operator
    }

    /// Like [`Infrastructure::operator`], with a proxy between it and the API server.
    pub async fn operator_behind(&self, proxy: &Proxy, arguments: &[&str]) -> Operator {
        let operator = self.spawn(&proxy.kubeconfig(self.kubeconfig()), arguments);
        operator.ready().await;
        operator
    }

    /// The kubeconfig of the account that `deploy/` gives the infrastructure controller.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        self.scene.cluster.infrastructure_kubeconfig()
    }

    /// A kubeconfig of the test's own API server behind this proxy, with an account that may ask for its version.
    #[must_use]
    pub fn kubeconfig_behind(&self, proxy: &Proxy) -> String {
        let own = fs::read_to_string(self.kubeconfig()).unwrap();
        let own: Value = serde_saphyr::from_str(&own).unwrap();
        let token = own["users"][0]["user"]["token"].as_str().unwrap();
        kubeconfig_of(&format!("http://{}", proxy.address), token)
    }

    /// Starts an operator, and does not wait until it is ready.
    #[must_use]
    pub fn spawn(&self, kubeconfig: &Path, arguments: &[&str]) -> Operator {
        let namespace = self.scene.namespace.as_str();
        let mut all = vec!["--controllers", "infrastructure"];
        let own = [
            ("--namespace", namespace),
            ("--global-secret-namespace", namespace),
        ];
        for (flag, value) in own.into_iter().chain(DEFAULTS) {
            if !arguments.contains(&flag) {
                all.extend([flag, value]);
            }
        }
        all.extend(arguments);
        Operator::spawn(&self.scene.cluster, kubeconfig, &all)
    }
}

fn password(namespace: &str) -> String {
    format!("pa55-of-{namespace}")
}

/// A kubeconfig with one token, of a server that nobody listens at.
#[must_use]
pub fn kubeconfig() -> String {
    kubeconfig_of("https://127.0.0.1:1", TOKEN)
}

/// A kubeconfig of the API server at this URL.
#[must_use]
pub fn kubeconfig_of(server: &str, token: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{ "name": "c", "cluster": { "server": server } }],
        "users": [{ "name": "u", "user": { "token": token } }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
    })
    .to_string()
}
