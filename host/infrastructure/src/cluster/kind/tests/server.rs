//! An API server with one Cluster, and an Infrastructure Manager, both in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kube::Client;
use kube::core::ApiResource;
use podloom_engine::error::Error;
use podloom_engine::metrics::EngineMetrics;
use podloom_engine::outbound::{OutboundMetrics, SystemResolver};
use podloom_engine::pass::Next;
use podloom_engine::testing::{alone, context};
use podloom_scripted::{scripted, status};
use prometheus_client::registry::Registry;
use serde_json::{Map, Value, json};

use crate::InfrastructureMetrics;
use crate::cluster::claims::Claims;
use crate::cluster::kind::ClusterKind;
use crate::cluster::memory::Memory;
use crate::cluster::silent::Silent;
use crate::cluster::world::Settings;
use crate::fixtures::{
    Asked, KUBECONFIG, caches, cloud, cluster, known, manager, metas, provider, resources, secret,
};
use crate::im::{
    Answer, Call, FailureKind, ImRules, ImState, InfrastructureId, Owner, Reading, Target,
};
use crate::kubeconfig::Prober;
use crate::secrets::Secrets;

const CLUSTER: &str = "/apis/infrastructure.podloom.dev/v1alpha1/namespaces/team/clusters/a";
const SECRETS: &str = "/api/v1/namespaces/team/secrets";

/// The id that the next infrastructure gets.
pub(super) const ID: &str = "55555555-5555-4555-8555-555555555555";

/// What both have.
pub(super) struct State {
    pub(super) cluster: Value,
    /// No cache shows it yet.
    pub(super) is_cluster_gone: bool,
    pub(super) secrets: BTreeMap<String, Value>,
    /// The infrastructures of each password, by id: their names.
    pub(super) infrastructures: BTreeMap<InfrastructureId, (String, String)>,
    pub(super) outputs: Value,
    /// Whether IM brings the next one back that it deletes, once it has said that there is none.
    pub(super) comes_back: bool,
    /// What comes back.
    deleted: Option<(InfrastructureId, (String, String))>,
    /// Whether the answer to a create request has no id.
    pub(super) loses_ids: bool,
    /// Whether an admission policy rejects Secrets.
    pub(super) rejects_secrets: bool,
    /// The recorded operation when IM was last asked to change something.
    pub(super) recorded: Value,
    /// The answers to the next writes of a status, from the last to the first.
    pub(super) faults: Vec<Option<Fault>>,
    version: u32,
}

/// What happens to a write.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    /// Somebody else wrote first.
    Conflict,
    /// It is done, and the answer is lost.
    Lost,
}

pub(super) struct Fixture {
    state: Arc<Mutex<State>>,
    pub(super) asked: Asked,
    kind: Arc<ClusterKind>,
    client: Client,
}

/// A Secret as the API server has it.
fn stored(name: &str, data: &[(&str, &str)]) -> Value {
    let mut secret = secret("team", name, data);
    secret["metadata"]["resourceVersion"] = json!("1");
    secret
}

impl Fixture {
    /// Nothing was created yet.
    pub(super) fn new(changes: &Value) -> Self {
        let account = stored("account", &[("password", "new"), ("old", "old")]);
        let token = stored("cloud", &[("value", "secret-token")]);
        let state = Arc::new(Mutex::new(State {
            cluster: cluster(changes),
            is_cluster_gone: false,
            secrets: BTreeMap::from([("account".to_owned(), account), ("cloud".to_owned(), token)]),
            infrastructures: BTreeMap::new(),
            outputs: json!(KUBECONFIG),
            comes_back: false,
            deleted: None,
            loses_ids: false,
            rejects_secrets: false,
            recorded: Value::Null,
            faults: Vec::new(),
            version: 100,
        }));
        let served = Arc::clone(&state);
        let (client, _) =
            scripted(move |request, body| served.lock().unwrap().serve(request, body));
        let managed = Arc::clone(&state);
        let (im, asked) = manager(move |target, call| managed.lock().unwrap().answer(target, call));
        let mut registry = Registry::default();
        let outbound = OutboundMetrics::register(&mut registry);
        let objects = EngineMetrics::collected(&mut registry).objects;
        let metrics = InfrastructureMetrics::declared(&mut registry, &objects, outbound.clone());
        let caches = caches(
            &[cloud(Some("team"), "InfrastructureProvider")],
            &[provider(Some("team"), "http://127.0.0.1:8800")],
        );
        let kind = ClusterKind {
            resources: resources(),
            secret: ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&()),
            claims: Claims(known(&[], caches.clone())),
            caches,
            metas: metas(&[]),
            im,
            secrets: Secrets::new(client.clone()),
            prober: Prober::new(
                &ImRules {
                    allow: Vec::new(),
                    deny: Vec::new(),
                },
                Arc::new(SystemResolver::default()),
                outbound,
            ),
            memory: Memory::default(),
            silent: Silent::default(),
            metrics,
            settings: Settings {
                settle: Duration::ZERO,
                probe: false,
            },
        };
        Self {
            state,
            asked,
            kind: Arc::new(kind),
            client,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn status(&self) -> Value {
        self.state().cluster["status"].clone()
    }

    /// The reason of a condition.
    pub(super) fn reason(&self, type_: &str) -> String {
        let status = self.status();
        let conditions = status["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|it| it["type"] == type_).unwrap();
        found["reason"].as_str().unwrap().to_owned()
    }

    /// Makes a pass over the Cluster as the API server has it.
    pub(super) async fn pass(&self) -> Result<Next, Error> {
        let cluster = serde_json::from_value(self.state().cluster.clone()).unwrap();
        let resource = Arc::clone(&self.kind.resources.clusters);
        let context = context(self.client.clone());
        let passes = alone(Arc::clone(&self.kind), &resource, context);
        passes.reconcile(&cluster).await
    }

    /// Another process begins: nothing is remembered.
    pub(super) fn restart(&self) {
        self.kind.memory.forget("uid-of-a");
    }

    /// Time passes: what is remembered is old, and nothing has to wait any more.
    pub(super) fn later(&self) {
        let cluster = serde_json::from_value(self.state().cluster.clone()).unwrap();
        let mut known = self.kind.memory.of("uid-of-a", &cluster);
        known.rest = None;
        known.quiet = None;
        known.reading = None;
        self.kind.memory.keep("uid-of-a", known);
    }

    /// Makes passes until nothing is left to do, and checks the state.
    pub(super) async fn until(&self, state: &str) {
        self.restart();
        for _ in 0..3 {
            self.later();
            for _ in 0..5 {
                self.pass().await.unwrap();
            }
        }
        assert_eq!(self.status()["state"], state, "{}", self.status());
    }

    /// Makes passes until our finalizer is gone, each long after the last request.
    pub(super) async fn until_released(&self) {
        for _ in 0..20 {
            self.later();
            self.pass().await.unwrap();
            let mut state = self.state();
            if state.cluster["metadata"]["finalizers"] == json!([]) {
                return;
            }
            let operation = &mut state.cluster["status"]["operation"];
            operation["lastCallAt"] = json!("2026-01-01T00:00:00.000000Z");
        }
        panic!("{}", self.state().cluster);
    }

    pub(super) fn asked(&self, what: &str) -> usize {
        let asked = self.asked.all();
        asked.iter().filter(|it| **it == what).count()
    }
}

impl State {
    fn serve(&mut self, request: &str, body: Value) -> (u16, Value) {
        let (method, path) = request.split_once(' ').unwrap();
        if path == format!("{CLUSTER}/status") {
            return match self.faults.pop().flatten() {
                Some(Fault::Conflict) => (409, status(409, "Conflict", "it was changed")),
                Some(Fault::Lost) => {
                    self.patch_cluster(body);
                    (500, status(500, "InternalError", "the answer is lost"))
                }
                None => self.patch_cluster(body),
            };
        }
        if CLUSTER.strip_suffix("/a") == Some(path) {
            let items = Some(&self.cluster).filter(|_| !self.is_cluster_gone);
            let items: Vec<_> = items.into_iter().collect();
            return (200, json!({ "metadata": {}, "items": items }));
        }
        if path == CLUSTER {
            return self.patch_cluster(body);
        }
        match (method, path.strip_prefix(SECRETS)) {
            ("POST", Some("")) => self.create_secret(body),
            ("GET", Some(name)) => found(self.secrets.get(&name[1..])),
            ("PATCH", Some(name)) => self.patch_secret(&name[1..], body),
            // Cloud and provider.
            _ => {
                let metadata =
                    json!({ "name": "it", "finalizers": ["infrastructure.podloom.dev/in-use"] });
                let kind = "PartialObjectMetadata";
                let answer =
                    json!({ "apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": metadata });
                (200, answer)
            }
        }
    }

    fn next_version(&mut self) -> Value {
        self.version += 1;
        json!(self.version.to_string())
    }

    fn patch_cluster(&mut self, mut body: Value) -> (u16, Value) {
        let seen = &body["metadata"]["resourceVersion"];
        if !seen.is_null() && *seen != self.cluster["metadata"]["resourceVersion"] {
            return (409, status(409, "Conflict", "it was changed"));
        }
        body["metadata"]["resourceVersion"] = self.next_version();
        json_patch::merge(&mut self.cluster, &body);
        (200, self.cluster.clone())
    }

    fn create_secret(&mut self, mut body: Value) -> (u16, Value) {
        if self.rejects_secrets {
            return (403, status(403, "Forbidden", "no Secrets, please"));
        }
        let name = body["metadata"]["name"].as_str().unwrap().to_owned();
        if self.secrets.contains_key(&name) {
            return (409, status(409, "AlreadyExists", "there is one"));
        }
        body["metadata"]["uid"] = json!("s-1");
        body["metadata"]["resourceVersion"] = self.next_version();
        self.secrets.insert(name, body.clone());
        (201, body)
    }

    fn patch_secret(&mut self, name: &str, mut body: Value) -> (u16, Value) {
        body["metadata"]["resourceVersion"] = self.next_version();
        let Some(secret) = self.secrets.get_mut(name) else {
            return found(None);
        };
        json_patch::merge(secret, &body);
        (200, secret.clone())
    }

    /// Answers as IM does, and brings back what it said is not there.
    fn answer(&mut self, target: &Target, call: &Call) -> Result<Answer, FailureKind> {
        let answer = self.answer_now(target, call);
        if matches!(answer, Err(FailureKind::NotFound)) && self.deleted.is_some() {
            self.comes_back = false;
            self.infrastructures.extend(self.deleted.take());
        }
        answer
    }

    fn answer_now(&mut self, target: &Target, call: &Call) -> Result<Answer, FailureKind> {
        let Owner::Basic { password, .. } = &target.owner else {
            unreachable!("the provider has an account")
        };
        let password = password.reveal().to_owned();
        if call.is_mutating() {
            self.recorded = self.cluster["status"]["operation"].clone();
        }
        let of = |id: &InfrastructureId| {
            let (owner, name) = self.infrastructures.get(id).ok_or(FailureKind::NotFound)?;
            match *owner == password {
                true => Ok(name.clone()),
                false => Err(FailureKind::NotGranted),
            }
        };
        match call {
            Call::Create { template } => {
                let template: Value = serde_json::from_str(template).unwrap();
                let name = template["metadata"]["infra_name"].as_str().unwrap();
                let id = InfrastructureId::parse(ID).unwrap();
                self.infrastructures
                    .insert(id.clone(), (password, name.to_owned()));
                match self.loses_ids {
                    true => Ok(Answer::Done),
                    false => Ok(Answer::Created(id)),
                }
            }
            Call::List => {
                let all = self.infrastructures.iter();
                let ours = all.filter(|(_, (owner, _))| *owner == password);
                Ok(Answer::List(ours.map(|(id, _)| id.clone()).collect()))
            }
            Call::Template { id } => {
                let name = of(id)?;
                Ok(Answer::Template(format!(
                    "metadata:\n  infra_name: {name}\n"
                )))
            }
            Call::State { id } => of(id).map(|_| {
                let vms = BTreeMap::from([("0".to_owned(), ImState::Configured)]);
                let state = ImState::Configured;
                Answer::State(Reading { state, vms })
            }),
            Call::Outputs { id } => of(id).map(|_| {
                let outputs = [("kubeconfig".to_owned(), self.outputs.clone())];
                Answer::Outputs(Map::from_iter(outputs))
            }),
            Call::Delete { id, .. } => of(id).map(|_| {
                let deleted = self.infrastructures.remove_entry(id);
                self.deleted = deleted.filter(|_| self.comes_back);
                Answer::Done
            }),
            Call::AddOwner { id, password, .. } => {
                of(id)?;
                let (owner, _) = self.infrastructures.get_mut(id).unwrap();
                *owner = password.reveal().to_owned();
                Ok(Answer::Done)
            }
            Call::Update { id, .. } => of(id).map(|_| Answer::Done),
            other => unreachable!("{other:?}"),
        }
    }
}

fn found(object: Option<&Value>) -> (u16, Value) {
    match object {
        Some(object) => (200, object.clone()),
        None => (404, status(404, "NotFound", "there is none")),
    }
}
