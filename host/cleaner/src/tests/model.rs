//! Every history of a Cleaner within bounds. The rules are in [`rules`]. What the model leaves out besides what all models do: conditions,
//! and the targets that they see, with their watches, so a Cleaner looks at its period; the Helm release; the CloudEvent; kinds that are
//! not served any more. No look is late by chance.

mod around;
mod flaws;
mod rules;

use std::fmt::Write as _;
use std::hash::DefaultHasher;
use std::sync::{Arc, LazyLock};

use kube::Client;
use kube::core::ApiResource;
use podloom_engine::cache::{Cache, Watch};
use podloom_engine::readable::Readable;
use podloom_engine::testing::OwnWrites;
use podloom_model::cases::{Model, finds};
use podloom_model::flaws::{Flaw as _, Flawed};
use podloom_model::process::{Bench, Fault, Hashed};
use podloom_model::store::{Answer, Asked, Effect, Store, Stored};
use podloom_model::{Act, Duty, New, RestRule, Rule, Seen, Write};
use serde_json::json;
use tokio::time::Instant;

use self::flaws::Flaw;
use self::rules::Plans;
use crate::discovery::Discovery;
use crate::fixtures::cleaner_kind;
use crate::kind::{CleanerKind, listen};
use crate::memory::Memory;
use crate::objects::Objects;
use crate::read::Reader;
use crate::world::{StoredCleaner, World};

const CLEANERS: &str = "cleaners";
const MAPS: &str = "configmaps";

/// Cleaners of these names. Each deletes the ConfigMap of its name, and those with a label.
struct Cleaners {
    names: &'static [&'static str],
    flaw: Flaw,
}

/// What it has beside its client and its memory. Made once: TLS for CloudEvents takes long.
static KIND: LazyLock<CleanerKind> = LazyLock::new(cleaner_kind);

struct Tools {
    client: Client,
    kind: CleanerKind,
}

impl Duty for Cleaners {
    type Kind = Flawed<CleanerKind, Flaw>;
    type World = World;
    type Memory = Memory;
    type Tools = Tools;
    type Notes = Plans;

    const WATCHED: &'static [&'static str] = &[CLEANERS];
    const RULES: &'static [(&'static str, Rule<Plans>)] = rules::OF_WRITES;
    const REST_RULES: &'static [(&'static str, RestRule)] = rules::AT_REST;
    // What is late is tried again after five minutes; other waits end with the resync.
    const PATIENCE: u8 = 24;

    fn names(&self) -> &'static [&'static str] {
        self.names
    }

    fn ignored(&self) -> Option<&'static str> {
        self.flaw.ignored()
    }

    fn begin(&self, store: &mut Store) {
        around::create_map(store, around::LABELLED);
        for name in self.names {
            around::create_map(store, name);
            around::create_cleaner(store, name);
        }
    }

    fn tools(bench: &Bench) -> Tools {
        let client = bench.ctx.client.clone();
        let kind = KIND.clone();
        Tools { client, kind }
    }

    fn resource(tools: &Tools) -> &Arc<ApiResource> {
        &tools.kind.resource
    }

    fn copied(memory: &Memory) -> Memory {
        memory.copied()
    }

    fn kind(&self, tools: &Tools, _: &Seen<'_>, memory: &Memory) -> Self::Kind {
        let (client, kind) = (&tools.client, &tools.kind);
        let kind = CleanerKind {
            // The room for objects is not shared by what happens in different histories.
            reader: Reader {
                discovery: Discovery::new(client.clone()),
                objects: Objects::new(client.clone()),
                settings: Arc::clone(&kind.reader.settings),
            },
            memory: memory.clone(),
            ..kind.clone()
        };
        let flaw = self.flaw;
        Flawed { kind, flaw }
    }

    fn object(stored: &Stored) -> Option<StoredCleaner> {
        stored.typed::<Readable<StoredCleaner>>().0.clone().ok()
    }

    fn show(
        &self,
        tools: &Tools,
        new: &New<'_>,
        memory: &Memory,
        writes: &OwnWrites,
    ) -> Vec<String> {
        let watch = Watch::of_kind::<CleanerKind>("", &tools.kind.resource);
        let own: Cache<Readable<StoredCleaner>> = new.seen.cached(CLEANERS, watch);
        listen(&own, self.kind(tools, &new.seen, memory).kind);
        drop(writes.wiring::<CleanerKind>(&own));
        new.show(CLEANERS, &own);
        own.noted()
    }

    fn hash_memory(memory: &Memory, _: Instant, hasher: &mut DefaultHasher) {
        memory.hash(hasher);
    }

    fn hash_world(world: &World, hasher: &mut DefaultHasher) {
        let World {
            cleaner,
            recalled,
            is_watching,
            learned,
            ..
        } = world;
        let seen = (&learned.sight, &learned.problem, &learned.doomed);
        let (evaluation, search) = (&learned.evaluation, &learned.search);
        let done = (learned.has_deleted, learned.has_confirmed);
        let progress = &learned.progress;
        // Writing to a hasher never fails.
        let _ = write!(
            Hashed(hasher),
            "{cleaner:?}{recalled:?}{is_watching}{seen:?}{evaluation:?}{search:?}{done:?}{progress:?}"
        );
    }

    fn answer(&self, store: &mut Store, asked: &Asked) -> (Answer, Option<Effect>) {
        if !asked.resource.is_empty() {
            return store.answer(asked);
        }
        let map = json!({ "name": MAPS, "singularName": "configmap", "kind": "ConfigMap", "namespaced": true, "verbs": ["delete", "get", "list"] });
        let kinds = json!({ "kind": "APIResourceList", "groupVersion": "v1", "resources": [map] });
        ((200, kinds), None)
    }

    fn is_routine(asked: &Asked) -> bool {
        // When a dry run looks again.
        let status = asked.body["status"].as_object();
        status.is_some_and(|it| it.keys().eq(["nextScheduledEvaluation"]))
    }

    fn faults(asked: &Asked) -> Vec<Fault> {
        let mut faults = Fault::of(asked);
        if asked.resource == MAPS {
            // Users give the rights to targets, or do not.
            faults.push(Fault::Refused(403));
            // Somebody else was faster.
            faults.extend(asked.writes().then_some(Fault::Refused(409)));
        }
        faults
    }

    fn acts(&self, store: &Store, name: &'static str) -> Vec<Act> {
        let mut acts = around::of_cleaner(store, name);
        acts.extend(around::of_map(store, name));
        if self.names.first() == Some(&name) {
            acts.extend(around::of_map(store, around::LABELLED));
        }
        acts
    }

    fn note(plans: &mut Plans, write: &Write<'_>) {
        plans.note(write);
    }
}

const MODEL: Model<Cleaners> = Model {
    name: "cleaner",
    cases: concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/model/cases"),
    objects: [&["a"], &["a", "b"]],
    duty: |names| Cleaners {
        names,
        flaw: Flaw::None,
    },
};

#[test]
fn no_history_breaks_a_rule() {
    MODEL.no_history_breaks_a_rule("0 1 0 0, 1 0 0 10");
}

#[test]
fn what_broke_a_rule_once_breaks_none() {
    MODEL.what_broke_a_rule_once_breaks_none();
}

/// How a deletion begins.
const BEGUN: [&str; 7] = [
    "the operator looks at a",
    "the operator reads the kinds",
    "the operator looks at a",
    "the operator reads the kinds, reads configmaps a, reads configmaps app=x",
    "the operator patches cleaners a: finalizers [\"cleaner.vtex.dev/deletion\"]",
    "the operator writes the status of cleaners a: Targets",
    "the operator deletes cleaners a",
];

/// If the search were blind, it would not find these.
#[test]
fn each_flaw_is_found() {
    let found = |flaw, bounds, begin: &[&str], rule| {
        let names = MODEL.objects[0];
        finds(Cleaners { names, flaw }, bounds, begin, rule);
    };
    let first = "the_cleaner_is_deleted_first";
    found(Flaw::TargetsFirst, (0, 0, 0), &[], first);
    let last = "the_finalizer_goes_last";
    found(Flaw::FinalizerFirst, (0, 0, 0), &[], last);
    let said = "what_is_said_of_objects_is_true";
    found(Flaw::FailureForgotten, (1, 0, 0), &[], said);
    let (marked, begun) = (&BEGUN[..5], &BEGUN[..7]);
    let stored = "a_plan_is_of_the_stored_spec";
    found(Flaw::VersionIgnored, (0, 1, 0), marked, stored);
    let planned = "only_what_is_planned_is_deleted";
    found(Flaw::UidIgnored, (0, 1, 0), begun, planned);
}
