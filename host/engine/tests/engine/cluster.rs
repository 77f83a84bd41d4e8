//! The control plane that all tests share, and the engine that works on it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use podloom_control_plane::{ControlPlane, Options};
use podloom_engine::blocking::BlockingThreads;
use podloom_engine::clock::Clock;
use podloom_engine::events::{self, Events};
use podloom_engine::kind::Context;
use podloom_engine::metrics::EngineMetrics;
use podloom_engine::namespaces::UnreadNamespaces;
use podloom_engine::readiness::Readiness;
use podloom_engine::scope::{Pace, WatchScope};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::kind::{GROUP, Lamps, Lanterns, Stage, Streets, Variety, start};

/// The account of the engine, so that the audit log tells its requests from those of the tests.
const ENGINE: &str = "system:serviceaccount:default:engine";

/// A control plane with the kinds, on which lamps and streets are lit.
pub(crate) struct Cluster {
    plane: ControlPlane,
    engine: PathBuf,
    pub(crate) stage: Stage,
}

/// A request of the engine that was answered.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) verb: String,
    /// The plural of the kind, with the subresource: `lamps/status`.
    pub(crate) resource: String,
    pub(crate) name: String,
    /// The answer's status.
    pub(crate) status: u64,
    pub(crate) received: Timestamp,
}

impl Cluster {
    /// The one that all tests share. It ends with the process, since a static is never dropped.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        static ENGINE: OnceLock<()> = OnceLock::new();
        let cluster = SHARED.get_or_init(Self::start);
        ENGINE.get_or_init(|| {
            thread::spawn(|| cluster.light());
        });
        cluster
    }

    fn start() -> Self {
        let options = Options {
            nodes: 0,
            audit: true,
            ..Options::default()
        };
        let plane = ControlPlane::start(&options).unwrap();
        let mut objects = vec![
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "engine", "namespace": "default" } }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "engine" },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
                "subjects": [{ "kind": "ServiceAccount", "name": "engine", "namespace": "default" }],
            }),
        ];
        objects.extend([crd::<Lamps>(), crd::<Streets>(), crd::<Lanterns>()]);
        apply(
            &plane,
            &json!({ "apiVersion": "v1", "kind": "List", "items": objects }),
        );
        let wait = [
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=60s",
        ];
        assert!(plane.kubectl().args(wait).status().unwrap().success());
        let engine = plane
            .kubeconfig_for_service_account("default", "engine")
            .unwrap();
        Self {
            plane,
            engine,
            stage: Stage::default(),
        }
    }

    /// Runs the engine for as long as the process lasts.
    fn light(&self) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let pace = Duration::from_mins(10);
            let (scope, send_events) = self.scope(None, pace).await;
            let lamps = start::<Lamps, _>(&scope, &self.stage, []);
            let streets = start::<Streets, _>(&scope, &self.stage, []);
            tokio::join!(lamps, streets, send_events);
        });
    }

    /// What controllers share in a namespace or in all, and the work that sends their Events.
    pub(crate) async fn scope(
        &self,
        namespace: Option<String>,
        resync: Duration,
    ) -> (WatchScope, impl Future<Output = ()> + Send + use<>) {
        let client = client(&self.engine).await;
        let mut registry = Registry::default();
        let counted = events::metrics(&mut registry);
        let (events, send_events) = Events::new(&client, None, "Light", counted);
        let scope = WatchScope {
            namespace,
            ctx: Arc::new(Context {
                client,
                events,
                clock: Clock::new(),
                metrics: EngineMetrics::collected(&mut registry),
                blocking: BlockingThreads::new(),
                unread_namespaces: UnreadNamespaces::Refused,
            }),
            readiness: Readiness::default(),
            stop: CancellationToken::new(),
            pace: Pace {
                concurrency: 16,
                resync,
            },
        };
        (scope, send_events)
    }

    /// An administrator's client. It belongs to the runtime in which it was made.
    pub(crate) async fn client(&self) -> Client {
        client(&self.plane.kubeconfig()).await
    }

    /// Applies an object, or a list of them.
    pub(crate) fn apply(&self, objects: &Value) {
        apply(&self.plane, objects);
    }

    /// What the API server noted of the engine's requests about objects of that name.
    pub(crate) fn requests(&self, resource: &str, name: &str) -> Vec<Request> {
        let log = std::fs::read_to_string(self.plane.audit_log()).unwrap_or_default();
        // The last line may be half written.
        let entries = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        entries
            .filter(|entry| entry["user"]["username"] == ENGINE)
            .map(|entry| request(&entry))
            .filter(|request| request.resource == resource && request.name == name)
            .collect()
    }
}

fn request(entry: &Value) -> Request {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let about = &entry["objectRef"];
    let resource = text(&about["resource"]);
    Request {
        verb: text(&entry["verb"]),
        resource: match about["subresource"].as_str() {
            Some(subresource) => format!("{resource}/{subresource}"),
            None => resource,
        },
        name: text(&about["name"]),
        status: entry["responseStatus"]["code"].as_u64().unwrap_or_default(),
        received: text(&entry["requestReceivedTimestamp"]).parse().unwrap(),
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options);
    Client::try_from(config.await.unwrap()).unwrap()
}

fn apply(plane: &ControlPlane, objects: &Value) {
    let mut kubectl = plane.kubectl();
    kubectl.args(["apply", "--server-side", "--filename", "-"]);
    let mut kubectl = kubectl
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = kubectl.stdin.take().unwrap();
    input.write_all(objects.to_string().as_bytes()).unwrap();
    drop(input);
    assert!(
        kubectl.wait().unwrap().success(),
        "could not apply {objects}"
    );
}

/// A CRD that lets everything in: that our types cannot hold an object is up to them.
fn crd<V: Variety>() -> Value {
    let traits = V::TRAITS;
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{GROUP}", V::PLURAL) },
        "spec": {
            "group": GROUP,
            "names": { "kind": traits.kind, "plural": V::PLURAL, "singular": traits.kind.to_lowercase() },
            "scope": traits.scope.name(),
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "properties": { "spec": anything, "status": anything },
                } },
                "subresources": { "status": {} },
            }],
        },
    })
}
