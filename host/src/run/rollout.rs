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
use podloom_rollout::{BEAT, BEAT_AT_REST, Route, first};
use serde_json::{Value, json};
use tokio::sync::SetOnce;
use tokio::time::{sleep, timeout};

use super::parts::{Parts, own_namespace};
use crate::mutator::Split;

/// How often this replica looks whether it has something to say.
const LOOK: Duration = Duration::from_secs(2);
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

/// What this replica knows of its own entry.
#[derive(Default)]
struct Known {
    /// The UID of the ChainRollout, and the entry as the API server has it.
    entry: Option<(String, RolloutReplica)>,
    /// The version of the ChainRollout that has it.
    version: u64,
    written: Option<Instant>,
    /// How often the rollout had been judged, and since when that is known.
    judged: Option<(i64, Instant)>,
    /// What the log said.
    problem: Option<String>,
}

impl Known {
    /// The log says each problem once.
    fn failed(&mut self, problem: String) {
        if self.problem.as_ref() != Some(&problem) {
            tracing::warn!(error = problem, "could not report to the ChainRollout");
        }
        self.problem = Some(problem);
    }
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

    /// Follows until it is dropped.
    pub(super) fn run(self: Arc<Self>) -> BoxFuture<'static, ()> {
        let filled = self.rollouts.filled(None);
        let listener = Arc::downgrade(&self);
        self.rollouts.listen(move |_| {
            if let Some(follower) = listener.upgrade() {
                follower.look();
            }
        });
        let fill = self.rollouts.fill();
        let reporting = async move {
            filled.await;
            self.look();
            let mut known = self.found();
            let attempted = async {
                self.split.attempted().await;
                // Only here, and only once.
                let _ = self.known.set(());
            };
            let reporting = async {
                loop {
                    self.report(&mut known).await;
                    sleep(LOOK).await;
                }
            };
            future::join(attempted, reporting).await
        };
        future::select(fill, reporting.boxed()).map(drop).boxed()
    }

    /// The entry of an earlier process of this name, with whose counts this one goes on.
    fn found(&self) -> Known {
        let entry = self.rollout().and_then(|rollout| {
            let status = rollout.status.as_ref()?;
            let entry = status.replicas.get(&self.name)?.clone();
            Some((rollout.uid()?, entry))
        });
        Known {
            entry,
            ..Known::default()
        }
    }

    /// The ChainRollout that counts.
    fn rollout(&self) -> Option<ChainRolloutObject> {
        let all = self.rollouts.all();
        let first = first(all.iter().map(|it| &**it));
        first
            .filter(|it| it.metadata.deletion_timestamp.is_none())
            .cloned()
    }

    /// Namespace and name of the ChainRollout that took its candidate back, and why; none if it did not.
    pub(super) fn taken_back(&self) -> Option<(String, String, String)> {
        let rollout = self.rollout()?;
        let status = rollout.status.as_ref()?;
        let is_taken_back = status.phase == Some(RolloutPhase::RolledBack);
        let why = status.message.clone().unwrap_or_default();
        is_taken_back.then(|| {
            (
                rollout.namespace().unwrap_or_default(),
                rollout.name_any(),
                why,
            )
        })
    }

    /// What the console shows of it, counted by all replicas; null without a ChainRollout.
    pub(super) fn shown(&self) -> Value {
        let Some(rollout) = self.rollout() else {
            return Value::Null;
        };
        let status = rollout.status.clone().unwrap_or_default();
        json!({
            "name": rollout.name_any(),
            "phase": status.phase,
            "progress": status.progress,
            "message": status.message,
            "serving": status.serving,
            "candidate": status.candidate,
            "servingPods": status.serving_pods,
            "candidatePods": status.candidate_pods,
        })
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
    async fn report(&self, known: &mut Known) {
        let Some(rollout) = self.rollout() else {
            // It was deleted, or the right to read it was taken away.
            self.look();
            self.split.follow_until(None);
            (known.entry, known.version) = (None, 0);
            return;
        };
        let Some(status) = rollout.status.clone() else {
            // The first word is the judge's: only it may write the defaults that the API server adds to a status.
            return;
        };
        self.split.follow_until(until(&rollout, &status, known));
        let uid = rollout.uid().unwrap_or_default();
        let seen = status.replicas.get(&self.name);
        if version(&rollout) < known.version {
            // The cache does not show what was written last.
            return;
        }
        let (number, counts) = self.split.counts();
        let before = known.entry.take().filter(|(of, _)| *of == uid);
        if let (Some((_, entry)), None) = (&before, seen) {
            // The judge took this replica for gone, and keeps what it had said.
            if entry.rollout == number {
                self.split.forget(entry.counts);
            }
            return;
        }
        known.entry = seen.map(|seen| (uid.clone(), seen.clone()));
        let (serving, candidate) = self.split.digests();
        let beats = seen.map_or(0, |it| it.beats);
        let entry = RolloutReplica {
            serving,
            candidate,
            rollout: number,
            counts,
            beats,
        };
        let beat = match is_under_way(&status) {
            true => BEAT,
            false => BEAT_AT_REST,
        };
        let is_due = known.written.is_none_or(|at| at.elapsed() >= beat);
        if !is_due && seen == Some(&entry) {
            return;
        }
        let entry = RolloutReplica {
            beats: beats.saturating_add(1),
            ..entry
        };
        match self.write(&rollout, seen, &entry).await {
            Ok(version) => {
                known.version = version;
                known.entry = Some((uid, entry));
                known.written = Some(Instant::now());
                known.problem = None;
            }
            Err(problem) => known.failed(problem),
        }
    }

    /// Writes its entry, unless that is another one than was seen. Returns the version of the ChainRollout that has it.
    async fn write(
        &self,
        rollout: &ChainRolloutObject,
        seen: Option<&RolloutReplica>,
        entry: &RolloutReplica,
    ) -> Result<u64, String> {
        let namespace = rollout.namespace().unwrap_or_default();
        let resource = &**self.rollouts.resource();
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &namespace, resource);
        let parameters = PatchParams {
            field_manager: Some(REPLICA_FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = match seen {
            // There may be no entries yet, which a JSON Patch could not add to.
            None => Patch::Merge(json!({
                "metadata": { "uid": rollout.uid() },
                "status": { "replicas": { &self.name: entry } },
            })),
            Some(seen) => Patch::Json(self.replacement(seen, entry)?),
        };
        let name = rollout.name_any();
        let writing = api.patch_status(&name, &parameters, &patch);
        match timeout(WRITE_TIMEOUT, writing).await {
            Ok(Ok(written)) => Ok(version(&written)),
            Ok(Err(error)) => Err(plain(&error).to_string()),
            Err(_) => Err(format!("no answer within {WRITE_TIMEOUT:?}")),
        }
    }

    /// If the judge has removed the entry meanwhile, it fails.
    fn replacement(
        &self,
        seen: &RolloutReplica,
        entry: &RolloutReplica,
    ) -> Result<json_patch::Patch, String> {
        let name = self.name.replace('~', "~0").replace('/', "~1");
        let path = format!("/status/replicas/{name}");
        let patch = json!([
            { "op": "test", "path": format!("{path}/beats"), "value": seen.beats },
            { "op": "replace", "path": path, "value": entry },
        ]);
        serde_json::from_value(patch).map_err(|error| error.to_string())
    }
}

/// The version of an object, which grows with each write.
fn version(object: &impl ResourceExt) -> u64 {
    let version = object.resource_version().unwrap_or_default();
    version.parse().unwrap_or_default()
}

/// Until when pods may pass the candidate without another judgement; none if they may for ever.
fn until(
    rollout: &ChainRolloutObject,
    status: &ChainRolloutStatus,
    known: &mut Known,
) -> Option<Instant> {
    let same = known
        .judged
        .filter(|(judgements, _)| *judgements == status.judgements);
    let (_, since) = *known
        .judged
        .insert(same.unwrap_or((status.judgements, Instant::now())));
    let spec = &rollout.spec;
    if spec.unjudged == UnjudgedPolicy::Freeze || !is_under_way(status) {
        return None;
    }
    // One that cannot be read is not accepted by the judge, who says so.
    since.checked_add(duration::parse(&spec.unjudged_after).ok()?)
}

fn is_under_way(status: &ChainRolloutStatus) -> bool {
    status.phase.is_some_and(RolloutPhase::is_under_way)
}
