//! Puts the outcome of an action into the world. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use podloom_api::ClusterObject;
use podloom_api::names::infrastructure::reason;
use podloom_engine::kind::Remains;

use super::absorb::{absorb, missing, note};
use super::action::Outcome;
use super::change::Change;
use super::durable::Durable;
use super::memory::{Kept, Search, Trouble};
use super::world::{SeenSecret, World};
use crate::kubeconfig::Probed;

/// Puts the outcome of an action into the world.
pub(crate) fn learn(world: &mut World, outcome: Outcome) -> Remains {
    match outcome {
        Outcome::Marked(cluster) => {
            // As long as there was no finalizer, nothing was created.
            if !world.is_deleted() && world.durable.is_empty() {
                world.known.clean = Some(None);
            }
            let remains = Remains::of(&cluster.metadata);
            world.cluster = Arc::from(cluster);
            return remains;
        }
        Outcome::Gone => return Remains::Unknown,
        Outcome::MetadataRejected(sentence) => {
            world.learned.metadata_rejected = Some(sentence);
        }
        Outcome::Guard(guard) => world.learned.guard = Some(guard),
        Outcome::Prepared(prepared) => world.learned.prepared = Some(prepared),
        Outcome::Missing(unresolved, at) => missing(world, unresolved, at),
        Outcome::Recorded(change, cluster) => {
            written(world, cluster);
            world.learned.recorded = Some(change);
            if change == Change::Create {
                world.known.clean = None;
                world.known.sent_as = None;
                world.known.search = Search::default();
            }
        }
        Outcome::Asked(asked) => absorb(world, asked),
        Outcome::Secret(secret) => world.secret = secret,
        Outcome::Stored { secret, .. } => {
            world.known.kept = secret.mark.clone().map(|mark| Kept {
                mark,
                version: secret.version.clone(),
            });
            world.known.kubeconfig = None;
            world.learned.kubeconfig = None;
            world.secret = SeenSecret::Ours(secret);
        }
        Outcome::StoreRefused(message, at) => {
            let reason = reason::SECRET_REJECTED;
            note(world, Trouble { reason, message }, at);
            world.learned.kubeconfig = None;
        }
        Outcome::Probed(found, at) => probed(world, found, at),
        Outcome::StatusWritten(cluster) => {
            written(world, cluster);
            world.known.unsaved = None;
        }
    }
    Remains::Object
}

/// The status was written.
fn written(world: &mut World, cluster: Box<ClusterObject>) {
    world.durable = Durable::of(cluster.status.as_ref());
    world.cluster = Arc::from(cluster);
}

/// How many probes must fail in a row before an API server that answered counts as not answering.
const PROBES: u32 = 3;

fn probed(world: &mut World, probed: Probed, at: Timestamp) {
    world.learned.is_probed = true;
    let probe = &mut world.known.probe;
    probe.at = Some(at);
    match probed {
        Probed::Answers => {
            probe.answers = true;
            probe.failures = 0;
            probe.message = None;
        }
        // It says nothing about the cluster.
        Probed::Busy => {}
        Probed::Fails(message) => {
            probe.failures = probe.failures.saturating_add(1);
            probe.message = Some(message);
            probe.answers &= probe.failures < PROBES;
        }
    }
}
