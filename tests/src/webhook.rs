//! The admission webhooks of one test: their rights, their configurations, and the operators that answer.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use podloom_api::names;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::operator::Operator;
use crate::rights::rbac;
use crate::scene::Scene;
use crate::wait::eventually;

/// The annotation that says which chain a pod passed.
pub const STAMP: &str = "podloom.dev/chain";

/// How long the API server waits for an answer, in seconds.
const TIMEOUT: u8 = 10;

/// How the API server finds the webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// By a URL; it then speaks HTTP/2.
    Url,
    /// By a Service; it then speaks HTTP/1.1. There is no kube-proxy, so it is one of type ExternalName.
    Service,
}

/// What happens to an object if the webhook does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// It is refused.
    Fail,
    /// It is admitted.
    Ignore,
}

/// The webhooks for the pods and objects of one namespace, and for no others.
///
/// The namespace's name is the name of everything that `--webhook-name` names, unless `deploy/` gives them theirs. Dropping this
/// deletes the configurations, so that no operation of the cluster waits for operators that have ended.
pub struct Webhook {
    cluster: Arc<Cluster>,
    client: Client,
    namespace: String,
    /// What `--webhook-name` says, and the name of its roles.
    pub name: String,
    /// The namespace of the operator.
    pub home: String,
    route: Route,
    /// The kubeconfig of the account with the rights that `podloom rbac` prints for the webhooks, and no other.
    pub kubeconfig: PathBuf,
    /// The name of that account, as the API server knows it.
    pub user: String,
}

impl Webhook {
    /// Creates the account, and no configuration yet.
    pub fn new(scene: &Scene, route: Route) -> Self {
        let namespace = scene.namespace.as_str();
        scene.cluster.apply_text(&rights(namespace, namespace));
        Self::of(scene, route, namespace, namespace)
    }

    /// Uses the account and the names of `deploy/`.
    pub fn installed(scene: &Scene, route: Route) -> Self {
        Self::of(scene, route, "podloom-webhook", "podloom-system")
    }

    fn of(scene: &Scene, route: Route, name: &str, home: &str) -> Self {
        let cluster = &scene.cluster;
        let plane = &cluster.plane;
        let kubeconfig = plane.kubeconfig_for_service_account(home, name).unwrap();
        Self {
            cluster: Arc::clone(cluster),
            client: scene.client.clone(),
            namespace: scene.namespace.clone(),
            name: name.to_owned(),
            home: home.to_owned(),
            route,
            kubeconfig,
            user: format!("system:serviceaccount:{home}:{name}"),
        }
    }

    /// Starts an operator that does nothing but serve the webhooks, and configures them for it. It waits until they serve.
    pub async fn operator(&self, plugins: &Path, more: &[&str]) -> Operator {
        let operator = self.spawn(plugins, more);
        self.configure(address(&operator).await, Policy::Fail);
        operator.ready().await;
        self.serves().await;
        operator
    }

    /// Starts an operator that does nothing but serve the webhooks. It listens anywhere, unless the arguments say `--webhook`.
    #[must_use]
    pub fn spawn(&self, plugins: &Path, more: &[&str]) -> Operator {
        let (name, home) = (self.name.as_str(), self.home.as_str());
        let mut arguments = vec!["--controllers", "none", "--webhook-name", name];
        arguments.extend(["--pod-namespace", home, "--lease-namespace", home]);
        arguments.extend(["--plugins", plugins.to_str().unwrap()]);
        if self.route == Route::Url {
            arguments.extend(["--webhook-host", "127.0.0.1"]);
        }
        if !more.contains(&"--webhook") {
            arguments.extend(["--webhook", "127.0.0.1:0"]);
        }
        arguments.extend(more);
        Operator::spawn(&self.cluster, &self.kubeconfig, &arguments)
    }

    /// Sends the pods of the namespace to this address. It can be called again, to change the address or the policy.
    pub fn configure(&self, address: SocketAddr, policy: Policy) {
        let mut webhook = self.webhook("pods", address, "/mutate/pods", policy);
        webhook["rules"] = rules("", &["CREATE"], "pods");
        self.apply("MutatingWebhookConfiguration", &[webhook]);
    }

    /// Waits until new pods are younger than the configuration: times are in seconds, and pods of the same one count as older.
    pub async fn is_older(&self, scene: &Scene) {
        let configurations: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let made = configurations.get(&self.name).await.unwrap();
        let made = made.creation_timestamp();
        eventually("the next second has begun", async || {
            let pod = scene.pods().create(&dry_run(), &plain_pod("probe")).await;
            let now = pod.unwrap().creation_timestamp();
            (now > made).then_some(()).ok_or_else(|| format!("{now:?}"))
        })
        .await;
    }

    /// As [`configure`](Self::configure), and what is changed in pods that exist, as `deploy/options/updates` does.
    pub fn configure_updates(&self, address: SocketAddr) {
        let mut new = self.webhook("pods", address, "/mutate/pods", Policy::Fail);
        new["rules"] = rules("", &["CREATE"], "pods");
        let mut later = self.webhook("updates", address, "/mutate/pods", Policy::Fail);
        take_from_option(&mut later, "updates");
        self.apply("MutatingWebhookConfiguration", &[new, later]);
    }

    /// Sends the workloads of the namespace to this address, as `deploy/options/workloads` does.
    pub fn configure_workloads(&self, address: SocketAddr) {
        let mut webhook = self.webhook("workloads", address, "/review/workloads", Policy::Ignore);
        take_from_option(&mut webhook, "workloads");
        self.apply("ValidatingWebhookConfiguration", &[webhook]);
    }

    /// Sends the new Browsers of the namespace to this address, where they get their finalizer and labels.
    pub fn configure_marks(&self, address: SocketAddr, policy: Policy) {
        let mut webhook = self.webhook("browsers", address, "/mutate/browsers", policy);
        webhook["rules"] = rules("selenosis.io", &["CREATE"], "browsers");
        self.apply("MutatingWebhookConfiguration", &[webhook]);
    }

    /// As [`configure`](Self::configure), for an operator that does not write the authority to trust.
    pub fn configure_trusting(&self, address: SocketAddr, authority: &str) {
        let mut webhook = self.webhook("pods", address, "/mutate/pods", Policy::Fail);
        webhook["rules"] = rules("", &["CREATE"], "pods");
        webhook["clientConfig"]["caBundle"] = json!(ByteString(authority.into()));
        self.apply("MutatingWebhookConfiguration", &[webhook]);
    }

    /// Sends the Browsers and BrowserConfigs of the namespace to this address; they are refused if nobody answers.
    pub fn configure_validation(&self, address: SocketAddr) {
        let webhooks = ["browsers", "browserconfigs"].map(|plural| {
            let path = format!("/validate/{plural}");
            let mut webhook = self.webhook(plural, address, &path, Policy::Fail);
            webhook["rules"] = rules("selenosis.io", &["CREATE", "UPDATE"], plural);
            webhook
        });
        self.apply("ValidatingWebhookConfiguration", &webhooks);
    }

    /// Sends the PortalExposes of the namespace to this address. TunnelClasses have none: those of other tests would be sent too.
    pub fn configure_portal(&self, address: SocketAddr, policy: Policy) {
        let version = (names::portal::GROUP, names::portal::VERSION);
        self.configure_kinds(address, policy, version, &["portalexposes"]);
    }

    /// Sends the Clusters, Clouds and InfrastructureProviders of the namespace to this address; they are refused if nobody answers.
    /// The kinds without a namespace are left out, as TunnelClasses are.
    pub fn configure_infrastructure(&self, address: SocketAddr) {
        let version = (names::infrastructure::GROUP, names::infrastructure::VERSION);
        let plurals = ["clusters", "clouds", "infrastructureproviders"];
        self.configure_kinds(address, Policy::Fail, version, &plurals);
    }

    /// Sends the Cleaners of the namespace to this address; they are refused if nobody answers.
    pub fn configure_cleaners(&self, address: SocketAddr) {
        let version = (names::cleaner::GROUP, names::cleaner::VERSION);
        self.configure_kinds(address, Policy::Fail, version, &["cleaners"]);
    }

    fn configure_kinds(
        &self,
        address: SocketAddr,
        policy: Policy,
        (group, version): (&str, &str),
        plurals: &[&str],
    ) {
        let webhook = |plural: &&str| {
            let mut webhook = self.webhook(plural, address, &format!("/validate/{plural}"), policy);
            let mut rules = rules(group, &["CREATE", "UPDATE"], plural);
            rules[0]["apiVersions"] = json!([version]);
            webhook["rules"] = rules;
            webhook
        };
        let webhooks: Vec<Value> = plurals.iter().map(webhook).collect();
        self.apply("ValidatingWebhookConfiguration", &webhooks);
    }

    /// Sends the pods of the namespace to another server first, whose answers do not matter.
    pub fn listen_in(&self, address: SocketAddr, authority: &Path) {
        let bundle = ByteString(fs::read(authority).unwrap());
        let mut webhook = self.webhook("listener", address, "/", Policy::Ignore);
        webhook["rules"] = rules("", &["CREATE"], "pods");
        webhook["clientConfig"] =
            json!({ "url": format!("https://{address}/"), "caBundle": bundle });
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": { "name": self.listener() }, "webhooks": [webhook],
        });
        self.cluster.apply_text(&configuration.to_string());
    }

    /// Configurations are called in the order of their names.
    fn listener(&self) -> String {
        format!("0-{}", self.name)
    }

    /// Waits until pods of the namespace pass the chain.
    pub async fn serves(&self) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let probe = plain_pod("probe");
        eventually("pods pass the chain", async || {
            let created = pods.create(&dry_run(), &probe).await;
            let created = created.map_err(|error| error.to_string())?;
            let is_stamped = created.annotations().contains_key(STAMP);
            is_stamped
                .then_some(())
                .ok_or_else(|| "the pod was admitted without the chain".to_owned())
        })
        .await;
    }

    fn webhook(&self, name: &str, address: SocketAddr, path: &str, policy: Policy) -> Value {
        let client = match self.route {
            Route::Url => json!({ "url": format!("https://{address}{path}") }),
            Route::Service => json!({ "service": {
                "namespace": self.home, "name": self.name, "port": address.port(), "path": path,
            } }),
        };
        json!({
            "name": format!("{name}.podloom.dev"), "admissionReviewVersions": ["v1"], "clientConfig": client,
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": self.namespace } },
            "failurePolicy": format!("{policy:?}"), "timeoutSeconds": TIMEOUT, "sideEffects": "None",
        })
    }

    fn apply(&self, kind: &str, webhooks: &[Value]) {
        let (name, home) = (self.name.as_str(), self.home.as_str());
        let mut items = vec![json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": { "name": name }, "webhooks": webhooks,
        })];
        if self.route == Route::Service {
            items.push(json!({
                "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": home },
                "spec": { "type": "ExternalName", "externalName": "localhost" },
            }));
        }
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        self.cluster.apply_text(&list.to_string());
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        let kinds = "mutatingwebhookconfiguration,validatingwebhookconfiguration";
        let names = [self.name.as_str(), &self.listener()].map(str::to_owned);
        let delete = ["delete", kinds, "--ignore-not-found"];
        // If it cannot be deleted, it still selects only this namespace.
        let _ = self
            .cluster
            .plane
            .kubectl()
            .args(delete)
            .args(names)
            .output();
    }
}

/// The address where an operator serves the webhooks.
pub async fn address(operator: &Operator) -> SocketAddr {
    eventually("the operator serves the webhooks", async || {
        let listens = operator.listens("webhook");
        listens.ok_or_else(|| operator.tail(""))
    })
    .await
}

/// Parameters of a request that stores nothing.
#[must_use]
pub fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

/// A pod as people write it.
#[must_use]
pub fn plain_pod(name: &str) -> Pod {
    let pod = json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "a", "image": "registry.k8s.io/pause:3.10" }] },
    });
    serde_json::from_value(pod).unwrap()
}

/// What the webhook of an option of `deploy/` is asked about.
fn take_from_option(webhook: &mut Value, option: &str) {
    let options = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/options");
    let text = fs::read_to_string(options.join(option).join("webhook.yaml")).unwrap();
    let patch: Value = serde_saphyr::from_str(&text).unwrap();
    for field in ["rules", "matchConditions"] {
        webhook[field] = patch["webhooks"][0][field].clone();
    }
}

fn rules(group: &str, operations: &[&str], plural: &str) -> Value {
    json!([{
        "apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": [plural],
        "scope": "Namespaced",
    }])
}

/// What `podloom rbac` prints for webhooks of this name, and an operator in this namespace.
fn rights(name: &str, home: &str) -> String {
    let webhook = ["--controllers", "webhook", "--webhook-name", name];
    rbac(&[&webhook[..], &["--operator-namespace", home]].concat())
}
