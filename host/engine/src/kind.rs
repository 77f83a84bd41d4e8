//! What a kind implements; the engine does the rest.

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

/// What plugins see of namespaces if the operator never had the right to read them. If it had the right once, a namespace that it has
/// not read counts as unread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnreadNamespaces {
    /// Nothing: what needs their labels or annotations is refused.
    #[default]
    Refused,
    /// That they have nothing but the label with their name.
    Allowed,
}

/// What every controller needs. What one kind needs besides is a field of that kind.
#[derive(Clone)]
pub struct Context {
    /// The client of the API server.
    pub client: Client,
    /// Sends Events.
    pub events: Events,
    /// The API server's time.
    pub clock: Clock,
    /// Counts passes.
    pub metrics: EngineMetrics,
    /// Runs plans that take long.
    pub blocking: BlockingThreads,
    /// What plugins are told of namespaces that may not be read.
    pub unread_namespaces: UnreadNamespaces,
}

/// How one kind of object is reconciled.
///
/// A pass calls [`observe`](Self::observe) once, then [`plan`](Self::plan), [`act`](Self::act), [`report`](Self::report) and
/// [`learn`](Self::learn) in turn until a plan has no action. No pass starts before all caches of the kind are filled.
pub trait Kind: Send + Sync + 'static {
    /// An object of the kind, as the API server stores it.
    type Object: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static;
    /// Everything that a plan may depend on.
    type World: Send + Sync + 'static;
    /// One thing to do. To read something from the API server instead of a cache is an action too, so a plan can ask for it.
    type Action: Clone + PartialEq + Serialize + Debug + Send + Sync + 'static;
    /// What came of an action: what the API server answered.
    type Outcome: Send + Sync;

    /// What the engine must know about the kind.
    const TRAITS: Traits;

    /// Reads the world around an object, from caches where it can. What only some plans need, it may leave out; such a plan asks for it
    /// by an action.
    ///
    /// # Errors
    ///
    /// Returns an error if a request to the API server failed; the object is tried again with backoff.
    fn observe(
        &self,
        ctx: &Context,
        object: &Self::Object,
        source: Source,
    ) -> impl Future<Output = Result<Self::World, Error>> + Send;

    /// Decides the next step. It is pure and total: the same world and time give the same plan.
    fn plan(&self, world: &Self::World, now: Timestamp) -> Plan<Self::Action>;

    /// Returns whether the plan for this world takes more than a few milliseconds. It is then made on a blocking thread, so that other
    /// tasks do not wait for it.
    fn is_heavy(&self, _: &Self::World) -> bool {
        false
    }

    /// Executes one action. Nothing else writes.
    ///
    /// # Errors
    ///
    /// Returns an error if the pass cannot go on; the object is tried again with backoff. What the next plan can handle, such as a
    /// rejected write, is not an error but an outcome.
    fn act(
        &self,
        ctx: &Context,
        world: &Self::World,
        action: &Self::Action,
    ) -> impl Future<Output = Result<Self::Outcome, Error>> + Send;

    /// Returns the Events to publish after an action: by default those of its plan. Count metrics here too.
    fn report(&self, done: &Done<'_, Self>, notices: Vec<Notice>) -> Vec<Notice>
    where
        Self: Sized,
    {
        let _ = done;
        notices
    }

    /// Puts the outcome of an action into the world, and returns what is left of the object.
    fn learn(&self, world: &mut Self::World, outcome: Self::Outcome) -> Remains;

    /// Returns the metadata of the object as the world has it now. If an action changed it, the engine starts no other pass before the
    /// cache shows the change.
    fn metadata(world: &Self::World) -> &ObjectMeta;
}

/// What the engine must know about a kind.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// The kind, as in `kind:` of a manifest.
    pub kind: &'static str,
    /// Whether its objects are in namespaces.
    pub scope: ResourceScope,
    /// The name of the controller in logs and metrics.
    pub controller: &'static str,
    /// The finalizer that keeps deleted objects until they are cleaned up; none if nothing has to be cleaned up.
    pub finalizer: Option<&'static str>,
    /// The field manager of all writes.
    pub field_manager: &'static str,
    /// A limit on the actions of one pass, against plans that never end.
    pub steps: usize,
    /// How long a pass may take: longer than the timeouts of a few requests. The next pass does what a cancelled one left undone.
    pub pass_timeout: Duration,
    /// How long objects wait after failures.
    pub backoff: Waits,
    /// What happens to our finalizer when an unreadable object is deleted.
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

/// What happens to our finalizer when an object is deleted that our types cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is removed: garbage collection deletes what the object owns.
    Release,
    /// It stays until somebody repairs the object: what the object manages is outside the cluster, and would be left behind.
    Keep,
}

/// Where an object was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A cache, which may lag.
    Cache,
    /// The API server, in this pass.
    Live,
}

/// A completed action, and the world as it was before.
pub struct Done<'a, K: Kind> {
    /// The world before the action.
    pub world: &'a K::World,
    /// The action.
    pub action: &'a K::Action,
    /// Its outcome.
    pub outcome: &'a K::Outcome,
    /// When the action was planned.
    pub now: Timestamp,
}

/// What is left of an object after an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// The object still exists.
    Object,
    /// Nothing: our own write removed the last finalizer.
    Nothing,
    /// Nothing, by an answer of the API server that may be from a stale cache of its own.
    Unknown,
}

impl Remains {
    /// Returns what is left after a write with this answer: nothing if the object is being deleted and has no finalizer.
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
    /// Returns what fits most kinds; override fields by struct update syntax.
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
