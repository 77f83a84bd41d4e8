//! Every history of a tunnel within bounds. The rules are in [`rules`]. What the model leaves out besides what all models do:
//!
//! - relays: they are not observed, but assumed to serve the hostname of a ready pod;
//! - a write between the two requests of one action;
//! - the TunnelClasses' own controller, and an operator that may not watch Secrets.
//!
//! A key is random. The model's API server puts another one in its place, so that equal histories are equal.

mod around;
mod flaws;
mod rules;

use std::fmt::Write as _;
use std::hash::DefaultHasher;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ApiResource;
use podloom_api::{PortalExpose, PortalExposeObject, TunnelClass};
use podloom_engine::cache::{Cache, Watch};
use podloom_engine::namespaces::{self, Namespaces};
use podloom_engine::readable::Readable;
use podloom_engine::testing::OwnWrites;
use podloom_model::cases::{Model, finds};
use podloom_model::flaws::{Flaw as _, Flawed};
use podloom_model::process::{Bench, Fault, Hashed};
use podloom_model::store::{Answer, Asked, Effect, Store, Stored};
use podloom_model::{Act, Duty, New, RestRule, Rule, Seen, TICK, Write, tick_end, whole};
use serde_json::json;
use tokio::time::Instant;

use self::flaws::Flaw;
use self::rules::Made;
use crate::class::ClassKind;
use crate::kind::tests::cluster::{Chain, relays};
use crate::kind::{Caches, ExposeKind, Resources, Tunnels, user};
use crate::memory::Memory;
use crate::naming;
use crate::relays::{Observation, Relays};
use crate::rivals::Rivals;
use crate::rolls::{Limits, Rolls};
use crate::settings::TunnelSettings;
use crate::wiring::{deployments, listen, secrets, services, wired};
use crate::world::{ChainPolicy, Settings, World};

const EXPOSES: &str = "portalexposes";
const CLASSES: &str = "tunnelclasses";
const SERVICES: &str = "services";
const DEPLOYMENTS: &str = "deployments";
const SECRETS: &str = "secrets";
/// Has one object, the plugin chain, as if the API server had it. Its watch is the look for a new one.
const CHAINS: &str = "chains";

/// After two ticks, a rollout has failed.
const DEADLINE: Duration = TICK.saturating_mul(2);

/// PortalExposes of these names, which want one hostname.
struct Tunneled {
    names: &'static [&'static str],
    flaw: Flaw,
}

/// What a process remembers but the hostnames, which always are what its cache shows.
#[derive(Clone)]
struct Remembered {
    memory: Memory,
    rolls: Rolls,
}

impl Default for Remembered {
    /// One tunnel may roll at once.
    fn default() -> Self {
        let limits = Limits::new(1, DEADLINE, true);
        Self {
            memory: Memory::default(),
            rolls: Rolls::new(limits, Cache::of(deployments(), [])),
        }
    }
}

struct Tools {
    expose: Arc<ApiResource>,
    class: Arc<ApiResource>,
    namespaces: Namespaces,
    relays: Relays,
}

impl Tools {
    fn caches(&self, seen: &Seen<'_>) -> Caches {
        let exposes = Watch::of_kind::<ExposeKind>("", &self.expose);
        let classes = Watch::of_kind::<ClassKind>("", &self.class);
        Caches {
            exposes: seen.cached(EXPOSES, exposes),
            classes: seen.cached(CLASSES, classes),
            services: seen.cached(SERVICES, services()),
            deployments: seen.cached(DEPLOYMENTS, deployments()),
            secrets: seen.cached(SECRETS, secrets()),
            namespaces: self.namespaces.clone(),
        }
    }

    /// What is known of relays is read from the status before each step.
    fn tunnels(&self, seen: &Seen<'_>, known: &Remembered, caches: &Caches) -> Tunnels {
        let rivals = Rivals::default();
        for expose in exposes(caches) {
            rivals.put(&expose);
            self.relays.forget(&user(&expose));
        }
        let chain = seen.store.get(CHAINS, "chain");
        let digest = chain.map_or("", |chain| chain.phase());
        Tunnels {
            mutator: Arc::new(Chain::marking(digest)),
            relays: self.relays.clone(),
            rolls: known.rolls.seeing(&caches.deployments),
            memory: known.memory.clone(),
            rivals,
        }
    }
}

fn exposes(caches: &Caches) -> Vec<PortalExposeObject> {
    let all = caches.exposes.all();
    all.iter().filter_map(|it| it.0.clone().ok()).collect()
}

impl Duty for Tunneled {
    type Kind = Flawed<ExposeKind, Flaw>;
    type World = World;
    type Memory = Remembered;
    type Tools = Tools;
    type Notes = Made;

    const WATCHED: &'static [&'static str] =
        &[EXPOSES, CLASSES, SERVICES, DEPLOYMENTS, SECRETS, CHAINS];
    const RULES: &'static [(&'static str, Rule<Made>)] = rules::OF_WRITES;
    const REST_RULES: &'static [(&'static str, RestRule)] = rules::AT_REST;
    /// Longer than the time until the resync. A turn that was not used is given back before.
    const PATIENCE: u8 = 24;

    fn names(&self) -> &'static [&'static str] {
        self.names
    }

    fn ignored(&self) -> Option<&'static str> {
        self.flaw.ignored()
    }

    fn begin(&self, store: &mut Store) {
        around::begin(store, self.names);
    }

    fn tools(bench: &Bench) -> Tools {
        let team = json!({ "metadata": { "name": "team", "resourceVersion": "1" } });
        let team = serde_json::from_value(team).unwrap();
        Tools {
            expose: Arc::new(PortalExpose::resource()),
            class: Arc::new(TunnelClass::resource()),
            namespaces: Namespaces::of(Cache::of(namespaces::metadata(), [team])),
            relays: relays(bench.ctx.clock.clone()),
        }
    }

    fn resource(tools: &Tools) -> &Arc<ApiResource> {
        &tools.expose
    }

    fn copied(known: &Remembered) -> Remembered {
        Remembered {
            memory: known.memory.copied(),
            rolls: known.rolls.copied(),
        }
    }

    fn kind(&self, tools: &Tools, seen: &Seen<'_>, known: &Remembered) -> Self::Kind {
        let caches = tools.caches(seen);
        let kind = ExposeKind {
            resources: Resources {
                expose: Arc::clone(&tools.expose),
                deployment: ApiResource::erase::<Deployment>(&()),
                secret: ApiResource::erase::<Secret>(&()),
            },
            tunnels: tools.tunnels(seen, known, &caches),
            caches,
            settings: Settings {
                tunnel: TunnelSettings {
                    progress_deadline: DEADLINE,
                    ..TunnelSettings::default()
                },
                chain_policy: ChainPolicy::Roll,
                relay_grace: TICK,
                observation: Observation::Assume,
            },
        };
        let flaw = self.flaw;
        Flawed { kind, flaw }
    }

    fn object(stored: &Stored) -> Option<PortalExposeObject> {
        let expose = stored.typed::<Readable<PortalExposeObject>>();
        expose.0.clone().ok()
    }

    fn show(
        &self,
        tools: &Tools,
        new: &New<'_>,
        known: &Remembered,
        writes: &OwnWrites,
    ) -> Vec<String> {
        let caches = tools.caches(&new.seen);
        let tunnels = tools.tunnels(&new.seen, known, &caches);
        listen(&caches.exposes, tunnels.clone());
        drop(wired(writes.wiring(&caches.exposes), &caches));
        new.show(EXPOSES, &caches.exposes);
        new.show(CLASSES, &caches.classes);
        new.show(SERVICES, &caches.services);
        new.show(DEPLOYMENTS, &caches.deployments);
        new.show(SECRETS, &caches.secrets);
        if new.resource == CHAINS {
            caches.exposes.wake_in(None);
        }
        let fresh = Rivals::default();
        let all = exposes(&caches);
        all.iter().for_each(|it| drop(fresh.put(it)));
        for expose in &all {
            let kept = tunnels.rivals.conflict(expose);
            assert_eq!(kept, fresh.conflict(expose), "the index missed a change");
        }
        caches.exposes.noted()
    }

    fn hash_memory(known: &Remembered, now: Instant, hasher: &mut DefaultHasher) {
        known.memory.hash(hasher);
        known.rolls.hash(now, hasher);
    }

    fn hash_world(world: &World, hasher: &mut DefaultHasher) {
        let _ = write!(Hashed(hasher), "{world:?}");
    }

    fn rounded(mut world: World) -> World {
        world.rolls_since = world.rolls_since.map(whole);
        world.next_repair = world.next_repair.map(tick_end);
        let refused = [&mut world.refused, &mut world.learned.refused];
        for refusal in refused.into_iter().flatten() {
            refusal.next = tick_end(refusal.next);
        }
        world
    }

    /// Puts a key that depends on the Secret alone in the place of a random one.
    fn answer(&self, store: &mut Store, asked: &Asked) -> (Answer, Option<Effect>) {
        if asked.method != Method::POST || asked.resource != SECRETS {
            return store.answer(asked);
        }
        let mut keyed = asked.clone();
        let number = store.made(SECRETS, asked.about()) + 1;
        around::set_key(&mut keyed.body, number);
        store.answer(&keyed)
    }

    fn late(mut asked: Asked) -> Asked {
        if asked.method == Method::POST && asked.resource == SECRETS {
            around::set_key(&mut asked.body, 0);
        }
        asked
    }

    fn of_kind(name: &str) -> &str {
        expose_of(name)
    }

    fn faults(asked: &Asked) -> Vec<Fault> {
        let mut faults = Fault::of(asked);
        if asked.method == Method::PATCH {
            faults.push(Fault::Refused(403));
        }
        faults
    }

    fn acts(&self, store: &Store, name: &'static str) -> Vec<Act> {
        around::acts(store, name)
    }

    fn note(made: &mut Made, write: &Write<'_>) {
        made.note(write);
    }
}

/// The name of the PortalExpose that an object of this name belongs to.
fn expose_of(name: &str) -> &str {
    let base = name.strip_suffix(naming::SECRET);
    let base = base.or_else(|| name.strip_suffix(naming::DEPLOYMENT));
    base.unwrap_or(name)
}

const MODEL: Model<Tunneled> = Model {
    name: "portal",
    cases: concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/model/cases"),
    objects: [&["a"], &["a", "b"]],
    duty: |names| Tunneled {
        names,
        flaw: Flaw::None,
    },
};

#[test]
fn no_history_breaks_a_rule() {
    MODEL.no_history_breaks_a_rule("0 0 1 6");
}

#[test]
fn what_broke_a_rule_once_breaks_none() {
    MODEL.what_broke_a_rule_once_breaks_none();
}

/// The first tunnel, up to its Deployment.
const FIRST: [&str; 6] = [
    "the operator patches portalexposes a: finalizers [\"portal.gosuda.org/cleanup-tunnel-deployment\"]",
    "the operator reads secrets a-tunnel-identity",
    "the operator reads deployments a-tunnel",
    "the operator creates secrets a-tunnel-identity",
    "the operator looks at a",
    "the operator reads deployments a-tunnel, applies deployments a-tunnel",
];
const KILLED: &str = "the operator is killed; another one begins";

/// If the search were blind, it would not find these.
#[test]
fn each_flaw_is_found() {
    let found = |flaw, bounds, then: &[&str], rule| {
        let names = MODEL.objects[0];
        let begin = [&FIRST, then].concat();
        finds(Tunneled { names, flaw }, bounds, &begin, rule);
    };
    let lost = ["somebody deletes the Secret of a", KILLED];
    let confirmed = "nothing_is_made_for_what_is_gone";
    found(Flaw::ConfirmSkipped, (1, 1, 0), &lost, confirmed);
    let deleted = ["somebody deletes PortalExpose a", KILLED];
    let last = "the_finalizer_goes_last";
    found(Flaw::FinalizerFirst, (1, 1, 0), &deleted, last);
    let renamed = [
        "somebody renames the application of a",
        KILLED,
        "the operator reads secrets a-tunnel-identity",
        "the operator reads secrets a-tunnel-identity, patches secrets a-tunnel-identity: finalizers null, which is on its way for long",
        "somebody puts another key into the Secret of a",
    ];
    found(Flaw::VersionIgnored, (2, 2, 0), &renamed, "a_key_stays");
    let late = [
        "somebody deletes PortalExpose a",
        KILLED,
        "the operator deletes deployments a-tunnel, which is on its way for long",
        "somebody deletes Deployment a-tunnel",
    ];
    let own = "only_own_deployments_are_written";
    found(Flaw::UidIgnored, (2, 3, 0), &late, own);
}
