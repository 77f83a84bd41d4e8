//! The kind ChainRollout: what the engine needs to run its controller.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube::core::{ApiResource, ObjectMeta};
use podloom_api::names::rollout::FIELD_MANAGER;
use podloom_api::{ChainRolloutObject, ChainRolloutStatus, RolloutPhase};
use podloom_engine::cache::Cache;
use podloom_engine::error::Error;
use podloom_engine::kind::{Context, Kind, Remains, Source, Traits};
use podloom_engine::plan::Plan;
use podloom_engine::readable::Readable;
use podloom_engine::write::Target;
use podloom_turns::lock;
use tokio::time::Instant;

use crate::metrics::CONTROLLER;
use crate::plan::{Action, World, plan, ready_within};
use crate::route::first;
use crate::tally::{Counting, Lives, Tally};

/// How often a replica says that it is there, while a rollout is under way. It is gone after three times that without a word.
pub const BEAT: Duration = Duration::from_secs(10);
/// The same at rest.
pub const BEAT_AT_REST: Duration = Duration::from_mins(1);

/// What the controller needs besides the [`Context`].
pub(crate) struct RolloutKind {
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) rollouts: Cache<Readable<ChainRolloutObject>>,
    pub(crate) tally: Tally,
    pub(crate) memory: Mutex<Memory>,
}

/// What one leader remembers.
#[derive(Default)]
pub(crate) struct Memory {
    /// When a rollout was judged last, by its UID.
    judged: BTreeMap<String, Instant>,
    /// How often replicas had written, and since when that is so.
    beats: BTreeMap<(String, String), (i64, Instant)>,
}

impl Kind for RolloutKind {
    type Object = ChainRolloutObject;
    type World = World;
    type Action = Action;
    /// The ChainRollout as it is now; none if it is gone.
    type Outcome = Option<Box<ChainRolloutObject>>;

    const TRAITS: Traits = Traits::of("ChainRollout", CONTROLLER, FIELD_MANAGER);

    async fn observe(
        &self,
        ctx: &Context,
        rollout: &ChainRolloutObject,
        _: Source,
    ) -> Result<World, Error> {
        Ok(self.look_around(rollout, ctx.clock.now()))
    }

    fn plan(&self, world: &World, now: Timestamp) -> Plan<Action> {
        plan(world, now)
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<Self::Outcome, Error> {
        let seen = &world.rollout.metadata;
        let target = Target::of(&ctx.client, &self.resource, seen, FIELD_MANAGER);
        let Action::WriteStatus(status) = action;
        target
            .write_status(seen, world.rollout.status.as_ref(), status)
            .await
    }

    fn learn(&self, world: &mut World, outcome: Self::Outcome) -> Remains {
        let uid = uid(&world.rollout);
        let Some(rollout) = outcome else {
            lock(&self.memory).forget(&uid);
            return Remains::Unknown;
        };
        lock(&self.memory).judged.insert(uid, Instant::now());
        world.written(*rollout);
        Remains::of(&world.rollout.metadata)
    }

    fn metadata(world: &World) -> &ObjectMeta {
        &world.rollout.metadata
    }
}

impl RolloutKind {
    fn look_around(&self, rollout: &ChainRolloutObject, now: Timestamp) -> World {
        let all = self.rollouts.all();
        let own = rollout.metadata.uid.as_deref();
        let first = first(all.iter().map(|it| &**it));
        let older = first.filter(|it| it.metadata.uid.as_deref() != own);
        let older = older.and_then(|it| it.metadata.name.clone());
        let status = rollout.status.clone().unwrap_or_default();
        let mut memory = lock(&self.memory);
        let uid = uid(rollout);
        let judged = memory
            .judged
            .entry(uid.clone())
            .or_insert_with(Instant::now);
        World {
            older,
            unjudged: judged.elapsed(),
            gone: memory.gone(&uid, &status),
            lives: self.lives(rollout, &status, now),
            rollout: rollout.clone(),
        }
    }

    fn lives(
        &self,
        rollout: &ChainRolloutObject,
        status: &ChainRolloutStatus,
        now: Timestamp,
    ) -> Lives {
        let counting = || {
            Some(Counting {
                rollout: (uid(rollout), status.rollout),
                serving: status.serving.clone()?,
                candidate: status.candidate.clone()?,
                since: status.started_at.as_ref()?.0,
                within: ready_within(&rollout.spec, status),
            })
        };
        counting().map_or_else(Lives::default, |it| self.tally.lives(&it, now))
    }
}

impl Memory {
    /// The replicas that have not written for long.
    fn gone(&mut self, uid: &str, status: &ChainRolloutStatus) -> Vec<String> {
        let is_under_way = status.phase.is_some_and(RolloutPhase::is_under_way);
        let now = Instant::now();
        self.beats
            .retain(|(of, name), _| of != uid || status.replicas.contains_key(name));
        let mut gone = Vec::new();
        for (name, replica) in &status.replicas {
            let key = (uid.to_owned(), name.clone());
            let known = self.beats.entry(key).or_insert((replica.beats, now));
            if known.0 != replica.beats {
                *known = (replica.beats, now);
            }
            // One that does not follow yet may still write as seldom as at rest.
            let patience = match is_under_way && replica.rollout == status.rollout {
                true => 3 * BEAT,
                false => 3 * BEAT_AT_REST,
            };
            if now.duration_since(known.1) > patience {
                gone.push(name.clone());
            }
        }
        gone
    }

    fn forget(&mut self, uid: &str) {
        self.judged.remove(uid);
        self.beats.retain(|(of, _), _| of != uid);
    }
}

fn uid(rollout: &ChainRolloutObject) -> String {
    rollout.metadata.uid.clone().unwrap_or_default()
}
