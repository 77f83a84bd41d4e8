//! Every history of a session within bounds. The rules are in [`rules`]. What the model leaves out besides what all models do: pods with
//! finalizers.

mod around;
mod flaws;
mod rules;

use std::fmt::Write as _;
use std::hash::DefaultHasher;
use std::sync::Arc;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Resource;
use kube::core::ApiResource;
use podloom_api::{BrowserConfigObject, BrowserObject, SelenosisApi, SelenosisKind};
use podloom_engine::cache::{Cache, Watch};
use podloom_engine::metrics::Objects;
use podloom_engine::namespaces::{self, Namespaces};
use podloom_engine::readable::Readable;
use podloom_engine::testing::OwnWrites;
use podloom_engine::wakes::Wakes;
use podloom_model::cases::{Model, finds};
use podloom_model::flaws::{Flaw as _, Flawed};
use podloom_model::process::{Bench, Hashed, hash_version};
use podloom_model::store::{Store, Stored};
use podloom_model::{Act, Duty, New, RestRule, Rule, Seen, TICK, Write, whole};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use self::flaws::Flaw;
use self::rules::Pods;
use crate::config::BrowserConfigKind;
use crate::kind::tests::Untouched;
use crate::kind::{BrowserKind, Caches, Resources};
use crate::memory::Memory;
use crate::metrics::BrowserMetrics;
use crate::warm::PoolId;
use crate::wiring::{note_changes, remember, wake_waiting, watch_of_pods};
use crate::world::{Timeouts, World};

const BROWSERS: &str = "browsers";
const CONFIGS: &str = "browserconfigs";
const PODS: &str = "pods";
/// The UIDs of pods that somebody else has made in the name of a Browser.
const FORGED: &str = "forged";
/// The UIDs of Browsers whose finalizers somebody has removed.
const RELEASED: &str = "released";

/// The timeouts in ticks: two for a pod to be created, to run, and to go.
fn timeouts() -> Timeouts {
    Timeouts {
        pod_creation: TICK * 2,
        pod_deletion: TICK * 2,
        failed_retention: TICK,
        config_grace: TICK,
        container_config_grace: TICK,
    }
}

/// Sessions of these names.
struct Sessions {
    names: &'static [&'static str],
    /// The pod that waits for one of them, if one does.
    warm: Option<&'static str>,
    flaw: Flaw,
}

struct Tools {
    browser: Arc<ApiResource>,
    config: Arc<ApiResource>,
    namespaces: Namespaces,
    metrics: BrowserMetrics,
}

impl Tools {
    fn configs(&self) -> Watch<Readable<BrowserConfigObject>> {
        Watch::of_kind::<BrowserConfigKind>("BrowserConfigs", &self.config)
    }
}

impl Duty for Sessions {
    type Kind = Flawed<BrowserKind, Flaw>;
    type World = World;
    type Memory = Memory;
    type Tools = Tools;
    type Notes = Pods;

    const WATCHED: &'static [&'static str] = &[BROWSERS, CONFIGS, PODS];
    const RULES: &'static [(&'static str, Rule<Pods>)] = rules::OF_WRITES;
    const REST_RULES: &'static [(&'static str, RestRule)] = rules::AT_REST;
    /// A pod without our label is read again and again. This is longer than all timeouts together, and than the time until the resync,
    /// which sets labels that could not be set.
    const PATIENCE: u8 = 24;

    fn names(&self) -> &'static [&'static str] {
        self.names
    }

    fn ignored(&self) -> Option<&'static str> {
        self.flaw.ignored()
    }

    fn begin(&self, store: &mut Store) {
        around::create_config(store);
        for name in self.names {
            around::create_browser(store, name);
        }
        if let Some(pod) = self.warm {
            around::create_warm(store, pod);
        }
    }

    fn tools(_: &Bench) -> Tools {
        let resource = |kind| Arc::new(SelenosisApi::Seed.resource(kind));
        Tools {
            browser: resource(SelenosisKind::Browser),
            config: resource(SelenosisKind::BrowserConfig),
            namespaces: Namespaces::of(Cache::of(namespaces::metadata(), [])),
            metrics: BrowserMetrics::declared(&mut Registry::default(), &Objects::default()),
        }
    }

    fn resource(tools: &Tools) -> &Arc<ApiResource> {
        &tools.browser
    }

    fn copied(memory: &Memory) -> Memory {
        memory.copied()
    }

    fn kind(&self, tools: &Tools, seen: &Seen<'_>, memory: &Memory) -> Self::Kind {
        let kind = BrowserKind {
            api: SelenosisApi::Seed,
            resources: Resources {
                browser: Arc::clone(&tools.browser),
                config: Arc::clone(&tools.config),
                pod: ApiResource::erase::<Pod>(&()),
                policy: ApiResource::erase::<NetworkPolicy>(&()),
            },
            caches: Caches {
                configs: seen.cached(CONFIGS, tools.configs()),
                pods: seen.cached(PODS, watch_of_pods()),
                namespaces: tools.namespaces.clone(),
            },
            mutator: Arc::new(Untouched),
            timeouts: timeouts(),
            memory: memory.clone(),
            metrics: tools.metrics.clone(),
        };
        for config in kind.caches.configs.all_in(None) {
            let metadata = config.meta();
            let pool = PoolId {
                config: metadata.name.clone().unwrap_or_default(),
                uid: metadata.uid.clone().unwrap_or_default(),
                browser: "chrome".to_owned(),
                version: "1".to_owned(),
            };
            memory.warm.has_recipe(pool, around::recipe());
        }
        let flaw = self.flaw;
        Flawed { kind, flaw }
    }

    fn object(stored: &Stored) -> Option<BrowserObject> {
        stored.typed::<Readable<BrowserObject>>().0.clone().ok()
    }

    fn show(
        &self,
        tools: &Tools,
        new: &New<'_>,
        memory: &Memory,
        writes: &OwnWrites,
    ) -> Vec<String> {
        let watch = Watch::of_kind::<BrowserKind>("", &tools.browser);
        let own: Cache<Readable<BrowserObject>> = new.seen.cached(BROWSERS, watch);
        let configs = new.seen.cached(CONFIGS, tools.configs());
        let pods = new.seen.cached(PODS, watch_of_pods());
        let changed = Wakes::default();
        memory.warm.listen(&configs, &pods);
        remember(&pods, &own, memory.clone());
        note_changes(&configs, changed.clone());
        drop(writes.wiring::<BrowserKind>(&own).owns(&pods));
        new.show(BROWSERS, &own);
        new.show(CONFIGS, &configs);
        new.show(PODS, &pods);
        let _has_no_end = wake_waiting(&changed, own.clone()).now_or_never();
        own.noted()
    }

    fn hash_memory(memory: &Memory, now: Instant, hasher: &mut DefaultHasher) {
        memory.hash(now, hasher);
    }

    fn hash_world(world: &World, hasher: &mut DefaultHasher) {
        let World {
            browser,
            configs,
            pod,
            own_pods,
            pod_is_watched,
            first_seen,
            lacks_config_since,
            learned,
            ..
        } = world;
        let _ = write!(
            Hashed(hasher),
            "{browser:?}{pod:?}{own_pods:?}{pod_is_watched}{first_seen:?}{lacks_config_since:?}{learned:?}"
        );
        for config in configs {
            hash_version(config.meta(), hasher);
        }
    }

    fn rounded(mut world: World) -> World {
        let times = [
            &mut world.first_seen,
            &mut world.lacks_config_since,
            &mut world.learned.late_until,
        ];
        for time in times.into_iter().flatten() {
            *time = whole(*time);
        }
        world
    }

    fn acts(&self, store: &Store, name: &'static str) -> Vec<Act> {
        let mut acts = around::acts(store, name);
        if let Some(pod) = self.warm.filter(|_| name == self.names[0]) {
            around::of_pod(store, pod, &mut acts);
        }
        acts
    }

    fn note(pods: &mut Pods, write: &Write<'_>) {
        pods.note(write);
    }
}

const MODEL: Model<Sessions> = Model {
    name: "browser",
    cases: concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/model/cases"),
    objects: [&["a"], &["a", "b"]],
    duty: |names| Sessions {
        names,
        warm: None,
        flaw: Flaw::None,
    },
};

/// The same with a warm pod.
const WARM: Model<Sessions> = Model {
    name: "browser, warm",
    cases: concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/model/warm"),
    duty: |names| Sessions {
        names,
        warm: Some("w"),
        flaw: Flaw::None,
    },
    ..MODEL
};

#[test]
fn no_history_breaks_a_rule_with_a_warm_pod() {
    WARM.no_history_breaks_a_rule("1 0 0 0, 0 1 0 10");
}

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
        finds(
            Sessions {
                names,
                warm: None,
                flaw,
            },
            bounds,
            begin,
            rule,
        );
    };
    let confirmed = "nothing_is_made_for_what_is_gone";
    found(Flaw::ConfirmSkipped, (1, 1, 0), &[], confirmed);
    let shown = "what_is_shown_is_true";
    found(Flaw::ExpectationForgotten, (0, 1, 1), &[], shown);
    let last = "the_finalizer_goes_last";
    found(Flaw::FinalizerFirst, (0, 1, 0), &[], last);
    found(Flaw::VersionIgnored, (1, 1, 0), &[], last);
    let evicted = [
        "the operator patches browsers a: finalizers [\"browserpod.selenosis.io/finalizer\"]",
        "the operator creates pods a",
        "pod a is scheduled",
        "pod a is evicted",
    ];
    let own = "only_own_pods_are_deleted";
    found(Flaw::UidIgnored, (1, 2, 0), &evicted, own);
}
