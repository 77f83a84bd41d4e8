//! Every history of a kind within bounds: the kind as it is shipped, against a model of the API server, of what is around it, and of people.
//!
//! A crate of a duty implements [`Duty`] in its tests: what its kind needs, what can happen around it, and the rules that no history may
//! break. `cargo xtask model` searches all histories; every test run searches short ones and some random ones. A pass may begin at any
//! time, a cache may show any older state that a watch can show, and each request may fail in each way.
//!
//! What the model leaves out: admission and validation, and two operators that both believe to lead for longer than a request is on its
//! way.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "this is all test code: what goes wrong fails the test that asked"
)]

pub mod cases;
pub mod flaws;
pub mod histories;
pub mod process;
pub mod search;
pub mod store;

use std::hash::{DefaultHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp, Unit};
use kube::core::ApiResource;
use kube::runtime::watcher::Event;
use podloom_engine::cache::{Cache, Cacheable, Watch};
use podloom_engine::kind::Kind;
use podloom_engine::testing::OwnWrites;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use process::{Bench, Fault, Heard};
use store::{Answer, Asked, Effect, Snapshot, Store, Stored};

/// How long a tick is: longer than each of the operator's short pauses, so that they are over with the next tick.
pub const TICK: Duration = Duration::from_secs(31);

/// Returns the time after this many ticks.
pub fn time(ticks: u8) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_700_000_000 + 31 * i64::from(ticks))
}

/// Returns how many ticks have passed when a wait until this time is over.
pub fn ticks_until(end: Timestamp) -> i128 {
    // The operator's clock is a second ahead.
    let waits = end.duration_since(time(0)).as_millis() - 1000;
    (waits + 30_999).div_euclid(31_000)
}

/// Returns the second that a time is in.
pub fn whole(time: Timestamp) -> Timestamp {
    time.round((Unit::Second, 1)).unwrap_or(time)
}

/// Returns the end of the tick that a time is in: a wait that ends in it is as long as any other. An end stays what it is.
pub fn tick_end(of: Timestamp) -> Timestamp {
    let ticks = (of.duration_since(time(0)).as_millis() + 30_999).div_euclid(31_000);
    time(0) + TICK * u32::try_from(ticks).unwrap_or_default()
}

/// A step of people, nodes or others: what it is, what of the bounds it takes, and what it changes. What takes nothing happens sooner or
/// later.
pub type Act = (String, u8, Change);

/// What a step of others changes.
pub type Change = Box<dyn Fn(&mut Store) + Send>;

/// Returns why a rule is broken by a write, by what is known of the past, this write among it.
pub type Rule<N> = fn(&Write<'_>, &N) -> Option<String>;

/// Returns why a rule of a state at rest is broken, if it is.
pub type RestRule = fn(&Store) -> Option<String>;

/// The object of a duty's kind.
pub type ObjectOf<D> = <<D as Duty>::Kind as Kind>::Object;

/// A kind whose histories are searched, with what is around it.
pub trait Duty: Sized + Send + Sync + 'static {
    /// The kind as it is shipped, or with a flaw that the search is to find.
    type Kind: Kind<World = Self::World>;
    /// The world of the kind.
    type World: Clone + Send + Sync + 'static;
    /// What a process remembers from one pass to the next. A clone may share it, a copy does not.
    type Memory: Clone + Default + Send + Sync;
    /// What is made once for many steps, and has no memory.
    type Tools;
    /// What the rules know of the past.
    type Notes: Clone + Default + Hash + Send + Sync;

    /// The resources that the operator watches; the first is its own.
    const WATCHED: &'static [&'static str];
    /// The rules about each write, each with its name.
    const RULES: &'static [(&'static str, Rule<Self::Notes>)];
    /// The rules about a state at rest, each with its name.
    const REST_RULES: &'static [(&'static str, RestRule)];
    /// After how many ticks without a write the operator counts as being at rest, although it looks again after some time.
    const PATIENCE: u8 = u8::MAX;

    /// Returns the names of the objects.
    fn names(&self) -> &'static [&'static str];

    /// Returns preconditions that the API server does not look at, for a flaw.
    fn ignored(&self) -> Option<&'static str> {
        None
    }

    /// Creates what is there at first.
    fn begin(&self, store: &mut Store);

    /// Returns what is made once for many steps.
    fn tools(bench: &Bench) -> Self::Tools;

    /// Returns the resource of the kind.
    fn resource(tools: &Self::Tools) -> &Arc<ApiResource>;

    /// Returns a copy that changes independently.
    fn copied(memory: &Self::Memory) -> Self::Memory;

    /// Returns the kind in a process that sees this and remembers that.
    fn kind(&self, tools: &Self::Tools, seen: &Seen<'_>, memory: &Self::Memory) -> Self::Kind;

    /// Reads an object of the kind; none if it cannot be read.
    fn object(stored: &Stored) -> Option<ObjectOf<Self>>;

    /// Lets a watch show what is new, with the wiring that is shipped. Returns the objects that are woken.
    fn show(
        &self,
        tools: &Self::Tools,
        new: &New<'_>,
        memory: &Self::Memory,
        writes: &OwnWrites,
    ) -> Vec<String>;

    /// Hashes what is remembered, as far as it decides what comes next.
    fn hash_memory(memory: &Self::Memory, now: Instant, hasher: &mut DefaultHasher);

    /// Hashes the world of a pass that is under way, as far as it decides what comes next.
    fn hash_world(world: &Self::World, hasher: &mut DefaultHasher);

    /// Rounds what the operator's clock noted in a world, so that equal states are equal.
    fn rounded(world: Self::World) -> Self::World {
        world
    }

    /// Answers a request.
    fn answer(&self, store: &mut Store, asked: &Asked) -> (Answer, Option<Effect>) {
        store.answer(asked)
    }

    /// Returns a request that is on its way for long, without what was chosen at random, so that equal states are equal.
    fn late(asked: Asked) -> Asked {
        asked
    }

    /// Returns the name of the object of the kind that an object of this name belongs to.
    fn of_kind(name: &str) -> &str {
        name
    }

    /// Returns whether a write may come again and again at rest, such as that of the time of the next look.
    fn is_routine(_asked: &Asked) -> bool {
        false
    }

    /// Returns the faults that a request can meet.
    fn faults(asked: &Asked) -> Vec<Fault> {
        Fault::of(asked)
    }

    /// Returns what can happen next around an object.
    fn acts(&self, store: &Store, name: &'static str) -> Vec<Act>;

    /// Notes what the rules have to know of a write.
    fn note(_notes: &mut Self::Notes, _write: &Write<'_>) {}
}

/// What a process sees: of each resource, what its watch has shown.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// What there is, and was.
    pub store: &'a Store,
    pub(crate) watched: &'static [&'static str],
    pub(crate) shown: &'a [usize],
}

impl Seen<'_> {
    /// Returns what the watch of a resource has shown.
    pub fn of(&self, resource: &str) -> Snapshot {
        let place = self.watched.iter().position(|it| *it == resource).unwrap();
        self.store.after(resource, self.shown[place])
    }

    /// Returns a cache that is filled with what the watch of a resource has shown.
    pub fn cached<K: Cacheable + DeserializeOwned>(
        &self,
        resource: &str,
        watch: Watch<K>,
    ) -> Cache<K> {
        let objects = selected(&self.of(resource), watch.label);
        let prune = watch.prune;
        Cache::of(watch, objects.values().map(|it| pruned(it, prune)))
    }
}

/// Those of some objects that have the label of a watch.
fn selected(objects: &Snapshot, label: &str) -> Snapshot {
    if label.is_empty() {
        return Arc::clone(objects);
    }
    let has = |it: &Stored| it.value["metadata"]["labels"][label].is_string();
    let both = objects.iter().filter(|(_, it)| has(it));
    Arc::new(
        both.map(|(name, it)| (name.clone(), Arc::clone(it)))
            .collect(),
    )
}

/// An object as a watch puts it into its cache.
fn pruned<K: Cacheable + DeserializeOwned>(stored: &Stored, prune: fn(&mut K)) -> K {
    let mut object = (*stored.typed::<K>()).clone();
    prune(&mut object);
    object
}

/// What a watch shows next.
pub struct New<'a> {
    /// What was shown before.
    pub seen: Seen<'a>,
    /// Of which resource.
    pub resource: &'static str,
    pub(crate) after: Snapshot,
    pub(crate) is_list: bool,
}

impl New<'_> {
    /// Puts what is new into a cache if it is of this resource: each change as an event, or all as a new list. An object without the label
    /// of the watch is none, and one that loses it goes. Then the listeners of the cache go: they know other caches, which know this one,
    /// so that all of them would stay in memory for ever.
    pub fn show<K: Cacheable + DeserializeOwned>(&self, resource: &str, cache: &Cache<K>) {
        if self.resource == resource {
            self.put_into(cache);
        }
        drop(cache.fill());
    }

    fn put_into<K: Cacheable + DeserializeOwned>(&self, cache: &Cache<K>) {
        let Watch { label, prune, .. } = *cache.watch();
        let before = selected(&self.seen.of(self.resource), label);
        let after = selected(&self.after, label);
        let typed = |it: &Arc<Stored>| pruned(it, prune);
        if self.is_list {
            cache.show(None, &Event::Init);
            for object in after.values() {
                cache.show(None, &Event::InitApply(typed(object)));
            }
            return cache.show(None, &Event::InitDone);
        }
        let is_same = |name: &String, it: &Arc<Stored>| {
            before.get(name).is_some_and(|old| Arc::ptr_eq(old, it))
        };
        for (_, object) in after.iter().filter(|(name, it)| !is_same(name, it)) {
            cache.show(None, &Event::Apply(typed(object)));
        }
        for (_, object) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
            cache.show(None, &Event::Delete(typed(object)));
        }
    }
}

/// How a write came to where it was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Its sender waits for the answer, and had heard this of its object.
    InTime(Heard),
    /// It was on its way for so long that nobody waits.
    Late,
}

/// A write that was carried out, and what was before.
pub struct Write<'a> {
    /// What it changed.
    pub effect: &'a Effect,
    /// What there was before.
    pub store: &'a Store,
    /// How it came.
    pub sent: Sent,
    /// Whether a pass is under way over an object of the name that it is about.
    pub is_at_work: bool,
}

impl Write<'_> {
    /// Whether nobody waits for the answer.
    pub fn is_late(&self) -> bool {
        self.sent == Sent::Late
    }

    /// Whether it was this request.
    pub fn is(&self, method: &str, resource: &str) -> bool {
        self.effect.asked.method == method && self.effect.asked.resource == resource
    }

    /// Returns the object of a resource that was created.
    pub fn created(&self, resource: &str) -> Option<&Stored> {
        let is_new = self.effect.before.is_none() && self.effect.asked.resource == resource;
        self.effect.after.as_deref().filter(|_| is_new)
    }

    /// Returns the object of a resource whose deletion was accepted.
    pub fn deleted(&self, resource: &str) -> Option<&Stored> {
        self.is("DELETE", resource)
            .then_some(self.effect.before.as_deref())?
    }

    /// Returns an object of a resource before and after a patch.
    pub fn patched(&self, resource: &str) -> Option<(&Stored, Option<&Stored>)> {
        let is_patched = self.is("PATCH", resource);
        let before = self.effect.before.as_deref().filter(|_| is_patched)?;
        Some((before, self.effect.after.as_deref()))
    }
}
