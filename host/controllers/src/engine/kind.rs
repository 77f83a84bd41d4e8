//! What a kind has to say for itself; the engine does the rest.

use std::fmt::Debug;
use std::time::Duration;

use jiff::Timestamp;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::backoff::Waits;
use super::blocking::BlockingThreads;
use super::clock::Clock;
use super::error::Error;
use super::events::{Events, Notice};
use super::metrics::EngineMetrics;
use super::plan::Plan;

/// What every controller needs; what one kind needs besides is its own field.
pub struct Context {
    /// Talks to the API server.
    pub client: Client,
    /// Where Events are handed in.
    pub events: Events,
    /// The API server's time.
    pub clock: Clock,
    /// Where passes are counted.
    pub metrics: EngineMetrics,
    /// Where plans that take long are made.
    pub blocking: BlockingThreads,
}

/// A kind of object, and the way from one of them to what is done about it.
///
/// A pass calls [`observe`](Self::observe) once, then [`plan`](Self::plan), [`act`](Self::act), [`report`](Self::report) and
/// [`learn`](Self::learn) in turn until a plan has no action. No pass begins before every cache that it reads is filled.
pub trait Kind: Send + Sync + 'static {
    /// An object of the kind as the API server has it.
    type Object: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static;
    /// All that a plan may depend on.
    type World: Send + Sync + 'static;
    /// One thing to do. Reading from the API server what a cache may not show is an action too, so a plan can ask for it.
    type Action: Clone + PartialEq + Serialize + Debug + Send + Sync + 'static;
    /// What an action taught.
    type Outcome: Send + Sync;

    /// What the engine has to know of the kind.
    const TRAITS: Traits;

    /// Reads the world around an object. It may leave out what only some plans need; such a plan asks for it by an action.
    ///
    /// # Errors
    ///
    /// Returns an error if the API server was asked and gave no answer to go on with; the object is tried again with backoff.
    fn observe(
        &self,
        ctx: &Context,
        object: &Self::Object,
        source: Source,
    ) -> impl Future<Output = Result<Self::World, Error>> + Send;

    /// Decides the next step. It is pure and total: the same world at the same time gives the same plan.
    fn plan(&self, world: &Self::World, now: Timestamp) -> Plan<Self::Action>;

    /// Returns whether a plan for this world takes more than a few milliseconds. It is then made beside the operator's tasks, which
    /// would wait for it.
    fn is_heavy(&self, _: &Self::World) -> bool {
        false
    }

    /// Does one action. Nothing else writes.
    ///
    /// # Errors
    ///
    /// Returns an error if the pass cannot go on; the object is tried again with backoff. What the next plan can decide on, such as
    /// a refusal, is a fact.
    fn act(
        &self,
        ctx: &Context,
        world: &Self::World,
        action: &Self::Action,
    ) -> impl Future<Output = Result<Self::Outcome, Error>> + Send;

    /// Returns which Events to publish now that an action came to this: those of its plan by default. Counting belongs here too.
    fn report(&self, done: &Done<'_, Self>, notices: Vec<Notice>) -> Vec<Notice>
    where
        Self: Sized,
    {
        let _ = done;
        notices
    }

    /// Puts what an action taught into the world, and returns what is left of the object.
    fn learn(&self, world: &mut Self::World, outcome: Self::Outcome) -> Remains;

    /// Returns the metadata of the object as the world has it now. When an action changed it, the engine waits for the cache to
    /// show that before it begins another pass.
    fn metadata(world: &Self::World) -> &ObjectMeta;
}

/// What the engine has to know of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// The kind, as the API has it.
    pub kind: &'static str,
    /// Whether its objects are in namespaces.
    pub scope: ResourceScope,
    /// The name of its controller in logs and metrics.
    pub controller: &'static str,
    /// The finalizer that holds objects until they are cleaned up; none if nothing needs it.
    pub finalizer: Option<&'static str>,
    /// Who writes, as managed fields say it.
    pub field_manager: &'static str,
    /// More actions than any way through one pass has.
    pub steps: usize,
    /// How long a pass may take: longer than the patience of a few requests. The next pass does what one that was given up left
    /// undone.
    pub pass_timeout: Duration,
    /// How long objects wait after failures.
    pub backoff: Waits,
    /// What becomes of an object that cannot be read, when it is deleted.
    pub unreadable: Unreadable,
}

/// Whether the objects of a kind are in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceScope {
    /// Each is in a namespace.
    Namespaced,
    /// They are cluster-scoped.
    Cluster,
}

impl ResourceScope {
    /// Returns the scope as CustomResourceDefinitions write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Namespaced => "Namespaced",
            Self::Cluster => "Cluster",
        }
    }
}

/// What becomes of an object that our types cannot hold, when it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Our finalizer is taken off: what it owns goes with it by garbage collection.
    Release,
    /// It is held until somebody repairs it: what it stands for lies outside the cluster, and would be left behind.
    Keep,
}

/// Where an object was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a cache, which may be behind.
    Cache,
    /// From the API server, in this pass.
    Live,
}

/// An action that was done, and the world as it was before.
pub struct Done<'a, K: Kind> {
    /// What was known.
    pub world: &'a K::World,
    /// What was done.
    pub action: &'a K::Action,
    /// What came of it.
    pub outcome: &'a K::Outcome,
    /// When the action was planned.
    pub now: Timestamp,
}

/// What is left of an object after an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// The object.
    Object,
    /// Nothing: our own write let it go.
    Nothing,
    /// Nothing, says the API server, but one that is behind may have said so.
    Unknown,
}

impl Remains {
    /// Returns what is left of an object that a write was answered with: nothing if it is being deleted and no finalizer holds it.
    #[must_use]
    pub fn of(answered: &ObjectMeta) -> Self {
        let finalizers = answered.finalizers.as_deref().unwrap_or_default();
        match answered.deletion_timestamp.is_some() && finalizers.is_empty() {
            true => Self::Nothing,
            false => Self::Object,
        }
    }
}

impl Traits {
    /// Returns what fits most kinds; every field can be overridden by struct update.
    #[must_use]
    pub const fn of(
        kind: &'static str,
        controller: &'static str,
        field_manager: &'static str,
    ) -> Self {
        Self {
            kind,
            scope: ResourceScope::Namespaced,
            controller,
            finalizer: None,
            field_manager,
            steps: 12,
            pass_timeout: Duration::from_mins(2),
            backoff: Waits::DEFAULT,
            unreadable: Unreadable::Release,
        }
    }
}
