//! How this replica follows a ChainRollout: which pods pass the candidate, and what it tells the judge.
//!
//! Its status is all that a replica goes by, so replicas agree without talking. What a replica says is its own entry in that status:
//! which two chains it has, and what it counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use podloom_api::names::rollout::REPLICA_FIELD_MANAGER;
use podloom_api::{
    ChainRolloutObject, ChainRolloutStatus, RolloutPhase, RolloutReplica, UnjudgedPolicy, duration,
};
use podloom_controllers::{Rollouts, rollouts};
use podloom_engine::plain::plain;
use podloom_rollout::{Route, first};
use serde_json::json;
use tokio::sync::SetOnce;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::parts::{Parts, own_namespace};
use crate::mutator::Split;

/// How often this replica looks whether it has something to say.
const LOOK: Duration = Duration::from_secs(2);
/// How often it says that it is there, while a rollout is under way. The judge takes it for gone after three times that.
const BEAT: Duration = Duration::from_secs(10);
/// The same at rest.
const BEAT_AT_REST: Duration = Duration::from_mins(1);
/// How long one write may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// What follows the ChainRollout of this installation.
pub(crate) struct Follower {
    split: Arc<Split>,
    rollouts: Rollouts,
    client: Client,
    /// What this replica is called in the status.
    name: String,
    known: SetOnce<()>,
}

/// What this replica wrote last.
#[derive(Default)]
struct Written {
    /// Into which ChainRollout, and when.
    last: Option<(String, Instant)>,
    entry: RolloutReplica,
    /// How often the rollout had been judged, and since when that is known.
    judged: Option<(i64, Instant)>,
    /// What the log said.
    problem: Option<String>,
}

impl Follower {
    /// Follows the ChainRollout of the operator's own namespace.
    pub(super) fn of(parts: &Parts<'_>, split: Arc<Split>, name: String) -> Arc<Self> {
        let own_pod = &parts.arguments.own_pod;
        let namespace = own_namespace(own_pod);
        Arc::new(Self {
            split,
            rollouts: rollouts(&parts.client, &parts.metrics, namespace),
            client: parts.client.clone(),
            name,
            known: SetOnce::new(),
        })
    }

    /// Whether it is known which pods pass the candidate. A replica that answered earlier could give pods of one owner two chains.
    pub(super) fn is_known(&self) -> bool {
        self.known.initialized()
    }

    /// Waits until that is known.
    pub(super) async fn known(&self) {
        self.known.wait().await;
    }

    /// Follows until it is stopped.
    pub(super) fn run(self: Arc<Self>, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let filled = self.rollouts.filled(None);
        let listener = Arc::downgrade(&self);
        self.rollouts.listen(move |_| {
            if let Some(follower) = listener.upgrade() {
                follower.look();
            }
        });
        let fill = self.rollouts.fill();
        let follower = Arc::clone(&self);
        let reporting = async move {
            filled.await;
            follower.look();
            follower.split.attempted().await;
            // Only here, and only once.
            let _ = follower.known.set(());
            let mut written = Written::default();
            loop {
                follower.report(&mut written).await;
                sleep(LOOK).await;
            }
        };
        let working = future::select(fill, reporting.boxed());
        async move {
            tokio::select! {
                _ = working => {}
                () = stop.cancelled() => self.leave().await,
            }
        }
        .boxed()
    }

    /// The ChainRollout that counts.
    fn rollout(&self) -> Option<ChainRolloutObject> {
        let all = self.rollouts.all();
        let first = first(all.iter().map(|it| &**it));
        first
            .filter(|it| it.metadata.deletion_timestamp.is_none())
            .cloned()
    }

    /// Goes by what the status says now.
    fn look(&self) {
        let Some(rollout) = self.rollout() else {
            self.split.ban(None);
            return self.split.follow(None, false, <_>::default());
        };
        let status = rollout.status.clone().unwrap_or_default();
        let own = status.replicas.get(&self.name);
        let before = own.filter(|it| it.rollout == status.rollout);
        let is_under_way = is_under_way(&status);
        let counts = before.map(|it| it.counts).unwrap_or_default();
        self.split.follow(Route::of(&status), is_under_way, counts);
        let is_bad = status.phase == Some(RolloutPhase::RolledBack);
        self.split.ban(status.candidate.filter(|_| is_bad));
    }

    /// Says what is new.
    async fn report(&self, written: &mut Written) {
        let Some(rollout) = self.rollout() else {
            self.split.follow_until(None);
            *written = Written::default();
            return;
        };
        let status = rollout.status.clone().unwrap_or_default();
        self.split.follow_until(until(&rollout, &status, written));
        let (serving, candidate) = self.split.digests();
        let (number, counts) = self.split.counts();
        let uid = rollout.uid().unwrap_or_default();
        let seen = status.replicas.get(&self.name);
        let is_same = written.last.as_ref().is_some_and(|(of, _)| *of == uid);
        if is_same && seen.is_none() && written.entry.rollout == number {
            // The judge took this replica for gone, and keeps what it counted.
            self.split.begin_again();
            *written = Written::default();
            return;
        }
        let entry = RolloutReplica {
            serving,
            candidate,
            rollout: number,
            counts,
            beats: written.entry.beats,
        };
        let beat = if is_under_way(&status) {
            BEAT
        } else {
            BEAT_AT_REST
        };
        let is_due = written
            .last
            .as_ref()
            .is_none_or(|(_, at)| at.elapsed() >= beat);
        if is_same && !is_due && entry == written.entry {
            return;
        }
        let beats = entry
            .beats
            .max(seen.map_or(0, |it| it.beats))
            .saturating_add(1);
        let entry = RolloutReplica { beats, ..entry };
        match self.write(&rollout, json!(entry)).await {
            Ok(()) => {
                written.last = Some((uid, Instant::now()));
                written.entry = entry;
                written.problem = None;
            }
            Err(problem) => {
                if written.problem.as_ref() != Some(&problem) {
                    tracing::warn!(error = problem, "could not report to the ChainRollout");
                }
                written.problem = Some(problem);
            }
        }
    }

    /// Takes its entry away.
    async fn leave(&self) {
        let Some(rollout) = self.rollout() else {
            return;
        };
        let status = rollout.status.clone().unwrap_or_default();
        // What it counted is still needed.
        if status.replicas.contains_key(&self.name) && !is_under_way(&status) {
            let _ = self.write(&rollout, json!(null)).await;
        }
    }

    async fn write(
        &self,
        rollout: &ChainRolloutObject,
        entry: serde_json::Value,
    ) -> Result<(), String> {
        let namespace = rollout.namespace().unwrap_or_default();
        let resource = &**self.rollouts.resource();
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &namespace, resource);
        let patch = json!({
            "metadata": { "uid": rollout.uid() },
            "status": { "replicas": { &self.name: entry } },
        });
        let parameters = PatchParams {
            field_manager: Some(REPLICA_FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let (name, patch) = (rollout.name_any(), Patch::Merge(patch));
        let writing = api.patch_status(&name, &parameters, &patch);
        match timeout(WRITE_TIMEOUT, writing).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(plain(&error).to_string()),
            Err(_) => Err(format!("no answer within {WRITE_TIMEOUT:?}")),
        }
    }
}

/// Until when pods may pass the candidate without another judgement; none if they may for ever.
fn until(
    rollout: &ChainRolloutObject,
    status: &ChainRolloutStatus,
    written: &mut Written,
) -> Option<Instant> {
    let known = written
        .judged
        .filter(|(judgements, _)| *judgements == status.judgements);
    let (_, since) = *written
        .judged
        .insert(known.unwrap_or((status.judgements, Instant::now())));
    let spec = &rollout.spec;
    if spec.unjudged == UnjudgedPolicy::Freeze || !is_under_way(status) {
        return None;
    }
    // One that cannot be read is not accepted by the judge, who says so.
    since.checked_add(duration::parse(&spec.unjudged_after).ok()?)
}

fn is_under_way(status: &ChainRolloutStatus) -> bool {
    matches!(
        status.phase,
        Some(RolloutPhase::Progressing | RolloutPhase::Paused)
    )
}
