//! A cluster with one PortalExpose: an API server in memory, and caches that show what the test lets them see.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use kube::Client;
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::watcher::Event;
use podloom_api::{PortalExpose, TunnelClass};
use podloom_control_loop::NoRecorder;
use podloom_engine::cache::{Cache, Cacheable, Watch};
use podloom_engine::clock::Clock;
use podloom_engine::error::Error;
use podloom_engine::namespaces::{self, Namespaces};
use podloom_engine::outbound::{OutboundMetrics, Roots, Tls};
use podloom_engine::pass::Next;
use podloom_engine::testing::{alone, context};
use podloom_mutation::{MutatedPod, PodMutator, PodRejection, PodRequest, RejectedPod};
use podloom_scripted::{Requests, scripted, status};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::server::{Fault, State, next_fault};
use crate::check::Authority;
use crate::class::ClassKind;
use crate::kind::user;
use crate::kind::{Caches, ExposeKind, Resources, Tunnels};
use crate::memory::Memory;
use crate::relays::{Observation, RelayMetrics, RelaySettings, Relays, UserId};
use crate::rivals::Rivals;
use crate::rolls::{Limits, Rolls};
use crate::settings::TunnelSettings;
use crate::world::{Action, ActionOutcome};
use crate::world::{ChainPolicy, Settings};

/// A chain of plugins: it marks each pod with its digest, or rejects it.
#[derive(Default)]
pub(crate) struct Chain {
    pub(super) digest: Mutex<Option<String>>,
    /// What the digest changes in the template, besides the stamps.
    pub(super) marks: Mutex<bool>,
    pub(super) rejects: Mutex<Option<PodRejection>>,
    pub(super) calls: AtomicUsize,
    /// What the digest becomes when the chain is called next.
    pub(super) next: Mutex<Option<String>>,
}

impl Chain {
    /// A chain of this digest, which changes the template.
    pub(crate) fn marking(digest: &str) -> Self {
        Self {
            digest: Mutex::new(Some(digest.to_owned())),
            marks: Mutex::new(true),
            ..Self::default()
        }
    }
}

impl PodMutator for Chain {
    fn mutate(
        &self,
        mut pod: Value,
        request: PodRequest,
    ) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        assert_eq!((request.kind, request.name.as_str()), ("Pod", ""));
        assert_eq!(request.selector.len(), 4);
        if let Some(rejection) = self.rejects.lock().unwrap().clone() {
            return future::ready(Err(rejection.into())).boxed();
        }
        if let Some(next) = self.next.lock().unwrap().take() {
            *self.digest.lock().unwrap() = Some(next);
        }
        let chain = self.digest.lock().unwrap().clone();
        if let Some(chain) = &chain {
            let annotations = &mut pod["metadata"]["annotations"];
            annotations["podloom.dev/chain"] = json!(chain);
            annotations["podloom.dev/mutations"] = json!("[]");
            if *self.marks.lock().unwrap() {
                annotations["example.com/chain"] = json!(chain);
            }
        }
        let mutated = MutatedPod {
            chain,
            ..MutatedPod::untouched(pod)
        };
        future::ready(Ok(mutated)).boxed()
    }

    fn chain(&self) -> Option<String> {
        self.digest.lock().unwrap().clone()
    }
}

pub(super) struct Cluster {
    state: Arc<Mutex<State>>,
    /// The writes to come, and what happens to one of them.
    fault: Arc<Mutex<Option<(usize, Fault)>>>,
    pub(super) requests: Requests,
    pub(super) chain: Arc<Chain>,
    pub(super) kind: Arc<ExposeKind>,
    client: Client,
    namespaces: Cache<PartialObjectMeta<Namespace>>,
}

impl Cluster {
    /// A cluster with a new PortalExpose, its Service and its class.
    pub(super) fn new() -> Self {
        let state = Arc::new(Mutex::new(State {
            expose: expose(),
            ..State::default()
        }));
        let fault: Arc<Mutex<Option<(usize, Fault)>>> = Arc::default();
        let (served, failing) = (Arc::clone(&state), Arc::clone(&fault));
        let (client, requests) = scripted(move |request, body| {
            let mut state = served.lock().unwrap();
            let fault = match request.starts_with("GET ") {
                true => None,
                false => next_fault(&mut failing.lock().unwrap()),
            };
            match fault {
                None => state.serve(request, body),
                Some(Fault::Lost) => {
                    state.serve(request, body);
                    (500, status(500, "InternalError", "the answer is lost"))
                }
                Some(Fault::Answer(code, reason)) => (code, status(code, reason, "no")),
            }
        });
        let chain = Arc::new(Chain {
            digest: Mutex::new(Some("chain-1".to_owned())),
            ..Chain::default()
        });
        let namespaces = Cache::of(namespaces::metadata(), []);
        Self {
            kind: Arc::new(kind(&chain, Namespaces::of(namespaces.clone()))),
            namespaces,
            state,
            fault,
            requests,
            chain,
            client,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn status(&self) -> Value {
        self.state().expose["status"].clone()
    }

    /// A condition of the status: its status and its reason.
    pub(super) fn condition(&self, type_: &str) -> (String, String) {
        let status = self.status();
        let mut conditions = status["conditions"].as_array().unwrap().iter();
        let found = conditions.find(|it| it["type"] == type_).unwrap();
        let text = |key: &str| found[key].as_str().unwrap().to_owned();
        (text("status"), text("reason"))
    }

    /// The next write but this many goes wrong.
    pub(super) fn fail(&self, write: usize, fault: Fault) {
        *self.fault.lock().unwrap() = Some((write, fault));
    }

    /// Whether that write came.
    pub(super) fn has_failed(&self) -> bool {
        self.fault.lock().unwrap().is_none()
    }

    /// The caches show what the API server has.
    pub(super) fn sync(&self) {
        let state = self.state();
        let caches = &self.kind.caches;
        fill(&caches.deployments, state.deployment.clone());
        let secret = state.secret.as_ref();
        // Without its value, as the watch has it.
        fill(
            &caches.secrets,
            secret.map(|secret| json!({ "metadata": secret["metadata"] })),
        );
    }

    /// Another watch scope has an older PortalExpose with the same hostname.
    pub(super) fn has_older(&self, namespace: &str) {
        let mut older = expose();
        let metadata = json!({
            "name": "their-shop", "namespace": namespace, "uid": "e-0", "creationTimestamp": "2025-01-01T00:00:00Z",
        });
        older["metadata"] = metadata;
        let older = serde_json::from_value(older).unwrap();
        self.kind.tunnels.rivals.put(&older);
    }

    /// The namespace has this resource version.
    pub(super) fn changes_namespace(&self, version: &str) {
        let namespace = json!({ "metadata": { "name": "team", "resourceVersion": version } });
        let namespace = serde_json::from_value(namespace).unwrap();
        self.namespaces.show(None, &Event::Apply(namespace));
    }

    /// The PortalExpose is gone, and its watch has shown it.
    pub(super) fn loses_expose(&self) {
        let expose = serde_json::from_value(expose()).unwrap();
        let exposes = &self.kind.caches.exposes;
        exposes.show(None, &Event::Delete(expose));
        let tunnels = &self.kind.tunnels;
        tunnels.relays.forget(&self.user());
        tunnels.memory.forget("e-1");
    }

    /// Whether a relay is watched for the PortalExpose.
    pub(super) fn watches_relays(&self) -> bool {
        let relay = Authority::parse("wss://relay.example.com/relay").unwrap();
        let link = self
            .kind
            .tunnels
            .relays
            .link(&self.user(), &relay, "shop.relay.example.com");
        link.is_some()
    }

    fn user(&self) -> UserId {
        user(&serde_json::from_value(self.state().expose.clone()).unwrap())
    }

    /// The Service is gone.
    pub(super) fn loses_service(&self) {
        let services = &self.kind.caches.services;
        services.show(None, &Event::Delete(service()));
    }

    /// Makes a pass over the PortalExpose as the API server has it.
    pub(super) async fn pass(&self) -> Result<Next, Error> {
        let expose = self.state().expose.clone();
        let expose = serde_json::from_value(expose).unwrap();
        let resource = Arc::clone(&self.kind.resources.expose);
        alone(
            Arc::clone(&self.kind),
            &resource,
            context(self.client.clone()),
        )
        .reconcile(&expose)
        .await
    }

    /// Carries out one action, whatever the plan says.
    pub(super) async fn act(&self, action: &Action) -> ActionOutcome {
        let expose = serde_json::from_value(self.state().expose.clone()).unwrap();
        let world = self.kind.look_around(&expose);
        let ctx = context(self.client.clone());
        self.kind.carry_out(&ctx, &world, action).await.unwrap()
    }

    /// Makes passes until one asks nothing of the API server.
    pub(super) async fn settle(&self) {
        for _ in 0..20 {
            self.sync();
            let before = self.requests.made().len();
            let failed = self.pass().await.is_err();
            if !failed && self.requests.made().len() == before {
                return;
            }
            // What failed is tried again after a few milliseconds.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        unreachable!("{:#?}", self.requests.made());
    }

    /// The requests since there were this many.
    pub(super) fn since(&self, before: usize) -> Vec<String> {
        self.requests.made().split_off(before)
    }
}

fn fill<K: Cacheable>(cache: &Cache<K>, object: Option<Value>) {
    cache.show(None, &Event::Init);
    if let Some(object) = object {
        let object = serde_json::from_value(object).unwrap();
        cache.show(None, &Event::InitApply(object));
    }
    cache.show(None, &Event::InitDone);
}

fn expose() -> Value {
    json!({
        "metadata": {
            "name": "shop", "namespace": "team", "uid": "e-1", "generation": 1, "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "app": { "name": "shop", "service": { "name": "web", "port": 80 } },
            "relay": { "targets": [{ "name": "one", "url": "wss://relay.example.com/relay" }] },
        },
    })
}

fn service() -> Service {
    let service = json!({ "metadata": { "name": "web", "namespace": "team" }, "spec": { "ports": [{ "port": 80 }] } });
    serde_json::from_value(service).unwrap()
}

fn kind(chain: &Arc<Chain>, namespaces: Namespaces) -> ExposeKind {
    let class = json!({
        "metadata": { "name": "standard", "annotations": { "portal.gosuda.org/is-default-class": "true" } },
        "spec": { "replicas": 1, "size": "small" },
    });
    let class = serde_json::from_value(class).unwrap();
    let classes = Watch::of_kind::<ClassKind>("", &Arc::new(TunnelClass::resource()));
    let resource = Arc::new(PortalExpose::resource());
    let exposes = Watch::of_kind::<ExposeKind>("", &resource);
    let deployments = Cache::of(Watch::of("Deployment", ""), []);
    ExposeKind {
        caches: Caches {
            exposes: Cache::of(exposes, [serde_json::from_value(expose()).unwrap()]),
            classes: Cache::of(classes, [class]),
            services: Cache::of(Watch::of("Service", ""), [service()]),
            deployments: deployments.clone(),
            secrets: Cache::of(Watch::of("Secret", ""), []),
            namespaces,
        },
        resources: Resources {
            expose: resource,
            deployment: ApiResource::erase::<Deployment>(&()),
            secret: ApiResource::erase::<Secret>(&()),
        },
        tunnels: Tunnels {
            mutator: Arc::<Chain>::clone(chain),
            relays: relays(Clock::new()),
            rolls: Rolls::new(Limits::new(1, Duration::from_mins(2), false), deployments),
            memory: Memory::default(),
            rivals: Rivals::default(),
        },
        settings: Settings {
            tunnel: TunnelSettings::default(),
            chain_policy: ChainPolicy::Roll,
            relay_grace: Duration::from_secs(30),
            observation: Observation::Assume,
        },
    }
}

/// Reading all certificates takes long.
static TLS: LazyLock<Tls> = LazyLock::new(|| Tls::new(&Roots::Public, None).unwrap());

/// Relays that nobody asks.
pub(crate) fn relays(clock: Clock) -> Relays {
    let settings = RelaySettings {
        observation: Observation::Assume,
        interval: Duration::from_secs(30),
        allow: Vec::new(),
        deny: Vec::new(),
        tls: TLS.clone(),
        recorder: Arc::new(NoRecorder),
    };
    let mut registry = Registry::default();
    let outbound = OutboundMetrics::register(&mut registry);
    let metrics = RelayMetrics::register(&mut registry, outbound);
    let (relays, _) = Relays::start(settings, clock, metrics, CancellationToken::new());
    relays
}
