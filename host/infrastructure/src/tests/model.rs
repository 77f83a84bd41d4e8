//! Every history of a Cluster within bounds, with an Infrastructure Manager (IM) in the same store. The rules are in [`rules`]. What the
//! model leaves out besides what all models do: probes of API servers, changed passwords and URLs, Clouds that go, and infrastructures
//! that are taken over or left on purpose.

mod around;
mod flaws;
mod manager;
mod rules;

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::core::ApiResource;
use podloom_api::ClusterObject;
use podloom_api::names::infrastructure::KUBECONFIG_SUFFIX;
use podloom_engine::cache::{Cache, Watch};
use podloom_engine::metrics::EngineMetrics;
use podloom_engine::outbound::{OutboundMetrics, SystemResolver};
use podloom_engine::readable::Readable;
use podloom_engine::testing::OwnWrites;
use podloom_model::cases::{Model, finds};
use podloom_model::flaws::{Flaw as _, Flawed};
use podloom_model::process::{Bench, Fault, Hashed, hash_version};
use podloom_model::store::{Answer, Asked, Effect, Store, Stored};
use podloom_model::{Act, Duty, New, RestRule, Rule, Seen, TICK, Write};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use self::flaws::Flaw;
use self::manager::{INFRASTRUCTURES, Manager};
use self::rules::Calls;
use crate::InfrastructureMetrics;
use crate::cluster::fixtures::World;
use crate::cluster::{Claims, ClusterKind, Memory, Settings, Silent};
use crate::fixtures::{caches, resources};
use crate::im::{ImRules, InfrastructureManager};
use crate::in_use::{Known, Resources};
use crate::kubeconfig::Prober;
use crate::resolve::Caches;
use crate::secrets::{SecretMeta, SecretMetas, Secrets};
use crate::wiring::listen;

const CLUSTERS: &str = "clusters";
const SECRETS: &str = "secrets";
/// Clouds and providers never change.
const CLOUDS: &str = "clouds";
const PROVIDERS: &str = "infrastructureproviders";
/// How long a request may be on its way: longer than the pause after one without an answer.
const SETTLE: Duration = TICK.saturating_mul(2);
/// What the drift loop finds: an object for each infrastructure that somebody else than the operator changed.
const DRIFTS: &str = "drifts";

/// Clusters of these names.
struct Clusters {
    names: &'static [&'static str],
    flaw: Flaw,
}

struct Tools {
    resources: Resources,
    caches: Caches,
    im: Arc<dyn InfrastructureManager>,
    secrets: Secrets,
    outbound: OutboundMetrics,
    metrics: InfrastructureMetrics,
}

impl Tools {
    fn clusters(&self) -> Watch<Readable<ClusterObject>> {
        Watch::of_kind::<ClusterKind>("", &self.resources.clusters)
    }
}

fn metas(seen: &Seen<'_>) -> SecretMetas {
    SecretMetas(seen.cached::<SecretMeta>(SECRETS, Watch::of("Secret", "")))
}

impl Duty for Clusters {
    type Kind = Flawed<ClusterKind, Flaw>;
    type World = World;
    type Memory = Memory;
    type Tools = Tools;
    type Notes = Calls;

    const WATCHED: &'static [&'static str] = &[CLUSTERS, SECRETS, DRIFTS];
    const RULES: &'static [(&'static str, Rule<Calls>)] = rules::OF_WRITES;
    const REST_RULES: &'static [(&'static str, RestRule)] = rules::AT_REST;
    // Longer than its longest wait.
    const PATIENCE: u8 = 24;

    fn names(&self) -> &'static [&'static str] {
        self.names
    }

    fn ignored(&self) -> Option<&'static str> {
        self.flaw.ignored()
    }

    fn begin(&self, store: &mut Store) {
        around::begin(store);
        for name in self.names {
            around::create_cluster(store, name);
        }
    }

    fn tools(bench: &Bench) -> Tools {
        let mut registry = Registry::default();
        let outbound = OutboundMetrics::register(&mut registry);
        let objects = EngineMetrics::collected(&mut registry).objects;
        Tools {
            resources: resources(),
            caches: caches(&[around::cloud()], &[around::provider()]),
            im: Arc::new(Manager::new(bench)),
            secrets: Secrets::new(bench.ctx.client.clone()),
            metrics: InfrastructureMetrics::declared(&mut registry, &objects, outbound.clone()),
            outbound,
        }
    }

    fn resource(tools: &Tools) -> &Arc<ApiResource> {
        &tools.resources.clusters
    }

    fn copied(memory: &Memory) -> Memory {
        memory.copied()
    }

    fn kind(&self, tools: &Tools, seen: &Seen<'_>, memory: &Memory) -> Self::Kind {
        let rules = ImRules {
            allow: Vec::new(),
            deny: Vec::new(),
        };
        let resolver = Arc::new(SystemResolver::default());
        let kind = ClusterKind {
            resources: tools.resources.clone(),
            secret: ApiResource::erase::<Secret>(&()),
            caches: tools.caches.clone(),
            metas: metas(seen),
            claims: Claims(Known {
                clusters: seen.cached(CLUSTERS, tools.clusters()),
                caches: tools.caches.clone(),
            }),
            im: Arc::clone(&tools.im),
            secrets: tools.secrets.clone(),
            prober: Prober::new(&rules, resolver, tools.outbound.clone()),
            memory: memory.clone(),
            silent: Silent::default(),
            metrics: tools.metrics.clone(),
            settings: Settings {
                settle: self.flaw.settle(),
                probe: false,
            },
        };
        let flaw = self.flaw;
        Flawed { kind, flaw }
    }

    fn object(stored: &Stored) -> Option<ClusterObject> {
        stored.typed::<Readable<ClusterObject>>().0.clone().ok()
    }

    fn show(
        &self,
        tools: &Tools,
        new: &New<'_>,
        memory: &Memory,
        writes: &OwnWrites,
    ) -> Vec<String> {
        let own: Cache<Readable<ClusterObject>> = new.seen.cached(CLUSTERS, tools.clusters());
        let metas = metas(&new.seen);
        let known = Known {
            clusters: own.clone(),
            caches: tools.caches.clone(),
        };
        listen(&known, &metas, memory);
        drop(writes.wiring::<ClusterKind>(&own));
        new.show(CLUSTERS, &own);
        new.show(SECRETS, &metas.0);
        let Caches {
            clouds, providers, ..
        } = &known.caches;
        new.show(CLOUDS, &clouds.namespaced);
        new.show(CLOUDS, &clouds.global);
        new.show(PROVIDERS, &providers.namespaced);
        new.show(PROVIDERS, &providers.global);
        if new.resource == DRIFTS {
            for cluster in own.all() {
                around::find_drift(memory, &own, &cluster);
            }
        }
        own.noted()
    }

    fn hash_memory(memory: &Memory, _: Instant, hasher: &mut DefaultHasher) {
        memory.hash(hasher);
    }

    fn hash_world(world: &World, hasher: &mut DefaultHasher) {
        hash_version(&world.cluster.metadata, hasher);
        world.known.hash(hasher);
        let learned = &world.learned;
        let read = (learned.prepared.is_some(), learned.kubeconfig.is_some());
        let done = (learned.is_asked, learned.is_gone);
        (read, done, &world.rival).hash(hasher);
        let _ = write!(
            Hashed(hasher),
            "{:?}{:?}{:?}{:?}{:?}",
            world.durable,
            world.secret,
            learned.metadata_rejected,
            learned.recorded,
            learned.guard
        );
    }

    fn answer(&self, store: &mut Store, asked: &Asked) -> (Answer, Option<Effect>) {
        match asked.resource == INFRASTRUCTURES {
            true => manager::answer(store, asked),
            false => store.answer(asked),
        }
    }

    /// What is lost comes to the same as what is refused with 500.
    fn faults(asked: &Asked) -> Vec<Fault> {
        let mut faults = match asked.resource.as_str() {
            // What is read before each request to IM, which can fail as well.
            SECRETS if !asked.about().ends_with(KUBECONFIG_SUFFIX) => Vec::new(),
            INFRASTRUCTURES => manager::faults(asked),
            _ => Fault::of(asked),
        };
        faults.retain(|it| *it != Fault::Refused(500));
        faults
    }

    fn acts(&self, store: &Store, name: &'static str) -> Vec<Act> {
        around::acts(store, name)
    }

    fn note(calls: &mut Calls, write: &Write<'_>) {
        calls.note(write);
    }
}

const MODEL: Model<Clusters> = Model {
    name: "infrastructure",
    cases: concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/model/cases"),
    objects: [&["a"], &["a", "b"]],
    duty: |names| Clusters {
        names,
        flaw: Flaw::None,
    },
};

#[test]
fn no_history_breaks_a_rule() {
    MODEL.no_history_breaks_a_rule("1 0 0 0, 0 1 0 10");
}

#[test]
fn what_broke_a_rule_once_breaks_none() {
    MODEL.what_broke_a_rule_once_breaks_none();
}

/// If the search were blind, it would not find these.
#[test]
fn each_flaw_is_found() {
    let found = |flaw, bounds, begin: &[&str], rule| {
        let names = MODEL.objects[0];
        finds(Clusters { names, flaw }, bounds, begin, rule);
    };
    let recorded = "a_change_is_recorded_first";
    found(Flaw::RecordSkipped, (0, 0, 0), &[], recorded);
    let last = "the_finalizer_goes_last";
    found(Flaw::FinalizerFirst, (0, 1, 0), &[], last);
    let others = "what_is_others_is_left_alone";
    found(Flaw::IdTrusted, (0, 1, 0), &[], others);
    let begun = [
        "the operator writes the status of clusters a: PENDING",
        "the operator reads secrets account, reads secrets cloud",
        "the operator patches clusters a: finalizers [\"infrastructure.podloom.dev/infrastructure-resources\"]",
        "the operator reads clouds dummy, reads infrastructureproviders im",
        "the operator writes the status of clusters a: CREATING",
    ];
    let and = |more: &[&'static str]| [&begun, more].concat();
    let late = and(&["the operator calls create, which is on its way for long"]);
    let one = "a_cluster_has_one_infrastructure";
    found(Flaw::NotSettled, (1, 0, 1), &late, one);
    let refused = and(&["the operator calls create, which is refused with 400"]);
    let wanted = "what_is_wanted_is_there";
    found(Flaw::VersionIgnored, (1, 1, 0), &refused, wanted);
    let deleted = and(&[
        "the operator calls create",
        "the operator writes the status of clusters a: …",
        "somebody deletes Cluster a",
        "00000000-0000-4000-8000-000000000001 is configured",
        "the watch of clusters shows a change",
        "the watch of clusters shows a change",
        "the watch of clusters shows a change",
        "the watch of clusters shows a change",
        "the watch of clusters shows a change",
        "the operator reads secrets account, reads secrets cloud",
        "the operator writes the status of clusters a: DELETING",
        "the operator calls delete of 00000000-0000-4000-8000-000000000001",
    ]);
    found(Flaw::GoneBelieved, (0, 2, 1), &deleted, last);
}
