//! The operator with a fault that somebody might make, to see that the search finds it.

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{Context, Done, Kind, Remains, Source, Traits};
use podloom_engine::plan::Plan;

/// The faults of an operator, and none. Each method says what is different; by default, nothing is.
pub trait Flaw<K: Kind>: Copy + Send + Sync + 'static {
    /// Returns the precondition that the API server does not get to see.
    fn ignored(self) -> Option<&'static str> {
        None
    }

    /// Comes before an object is looked at.
    fn before(self, _kind: &K, _object: &K::Object) {}

    /// Changes what was observed.
    fn observed(self, _world: &mut K::World) {}

    /// Returns the plan.
    fn plan(self, kind: &K, world: &K::World, now: Timestamp) -> Plan<K::Action> {
        kind.plan(world, now)
    }

    /// Returns the outcome of an action that is not executed; none if it is.
    fn skipped(self, _world: &K::World, _action: &K::Action) -> Option<K::Outcome> {
        None
    }

    /// Returns what an outcome is taken for.
    fn taken_for(self, outcome: K::Outcome) -> K::Outcome {
        outcome
    }
}

/// A kind, with a fault or without.
pub struct Flawed<K, F> {
    /// The kind as it is shipped.
    pub kind: K,
    /// Its fault.
    pub flaw: F,
}

impl<K: Kind, F: Flaw<K>> Kind for Flawed<K, F> {
    type Object = K::Object;
    type World = K::World;
    type Action = K::Action;
    type Outcome = K::Outcome;

    const TRAITS: Traits = K::TRAITS;

    async fn observe(
        &self,
        ctx: &Context,
        object: &K::Object,
        source: Source,
    ) -> Result<K::World, Error> {
        self.flaw.before(&self.kind, object);
        let mut world = self.kind.observe(ctx, object, source).await?;
        self.flaw.observed(&mut world);
        Ok(world)
    }

    fn plan(&self, world: &K::World, now: Timestamp) -> Plan<K::Action> {
        self.flaw.plan(&self.kind, world, now)
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &K::World,
        action: &K::Action,
    ) -> Result<K::Outcome, Error> {
        match self.flaw.skipped(world, action) {
            Some(outcome) => Ok(outcome),
            None => self.kind.act(ctx, world, action).await,
        }
    }

    fn report(&self, done: &Done<'_, Self>, notices: Vec<Notice>) -> Vec<Notice> {
        let done = Done {
            world: done.world,
            action: done.action,
            outcome: done.outcome,
            now: done.now,
        };
        self.kind.report(&done, notices)
    }

    fn learn(&self, world: &mut K::World, outcome: K::Outcome) -> Remains {
        self.kind.learn(world, self.flaw.taken_for(outcome))
    }

    fn metadata(world: &K::World) -> &ObjectMeta {
        K::metadata(world)
    }
}
