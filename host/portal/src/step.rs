//! What to do next about the children of a PortalExpose: the Secret with its identity, and the Deployment.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use podloom_api::IdentityPolicy;
use podloom_api::names;
use podloom_api::names::portal::annotation;

use super::deployment::{annotation_of, has_controller, has_labels};
use super::render::{Rendered, Tunnel};
use super::verdict::Verdict;
use super::world::{Action, Apply, Why};
use super::world::{
    ChainPolicy, Content, OurIdentity, Refusal, SeenDeployment, SeenIdentity, Settings, Try, Turn,
    World,
};

/// What to do next about the children.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Nothing: all is as it should be, or nothing may be written.
    Rest,
    Act(Action),
    /// Nothing before a certain time, since the last try failed.
    Refused(Refusal),
    /// Nothing for a moment, since too many other Deployments roll.
    Queued,
    /// Nothing before this time: another writer undoes each repair.
    Paused(Timestamp),
    /// Nothing: the chain changed, and the next other change applies it.
    Deferred,
}

/// Decides the next step.
pub(crate) fn step(world: &World, verdict: &Verdict, settings: &Settings, now: Timestamp) -> Step {
    if let Some(read) = unread(world) {
        return Step::Act(read);
    }
    if !verdict.blockers.is_empty() {
        return Step::Rest;
    }
    if let Some(write) = identity(world) {
        return match refusal(world, &world.identity_try(), now) {
            Some(refusal) => Step::Refused(refusal),
            None => Step::Act(write),
        };
    }
    match &verdict.tunnel {
        Some(tunnel) => deployment(world, tunnel, settings.chain_policy, now),
        None => Step::Rest,
    }
}

/// What must be read from the API server, since no cache can show that it is not there. Also while something forbids all writes: what
/// is wrong with them is a problem of its own.
fn unread(world: &World) -> Option<Action> {
    if let SeenIdentity::Unseen | SeenIdentity::Ours(OurIdentity { content: None, .. }) =
        world.identity
    {
        return Some(Action::ReadIdentity);
    }
    // One without our labels is in no cache, and its pods may run all the same.
    let is_unseen = world.deployment == SeenDeployment::Unseen;
    is_unseen.then_some(Action::ReadDeployment)
}

/// What failed, if it must not be tried again now.
fn refusal(world: &World, tried: &Try, now: Timestamp) -> Option<Refusal> {
    let refusal = world.refusal_of(tried)?;
    let is_of_this_pass = world.learned.refused.is_some();
    (is_of_this_pass || now < refusal.next).then(|| refusal.clone())
}

/// The write that the Secret needs.
fn identity(world: &World) -> Option<Action> {
    // Whatever a webhook makes of our write, one in a pass is enough.
    if world.learned.is_identity_written {
        return None;
    }
    match &world.identity {
        SeenIdentity::Absent => Some(Action::CreateIdentity),
        SeenIdentity::Ours(identity) if !is_current(world, identity) => {
            Some(Action::UpdateIdentity)
        }
        _ => None,
    }
}

/// Whether the Secret is as the spec wants it.
fn is_current(world: &World, identity: &OurIdentity) -> bool {
    let spec = &world.expose.spec;
    let Some(Content::Valid { app, .. }) = &identity.content else {
        return true;
    };
    let mut owners = identity.metadata.owner_references.iter().flatten();
    let is_owned = owners.any(|owner| Some(owner.uid.as_str()) == world.uid());
    let meant = annotation_of(&identity.metadata, annotation::IDENTITY_FOR);
    app.as_deref() == Some(&spec.app.name)
        && meant == Some(world.name())
        && is_owned == (spec.identity_policy == IdentityPolicy::Delete)
}

fn deployment(world: &World, tunnel: &Tunnel, policy: ChainPolicy, now: Timestamp) -> Step {
    let found = world.own_deployment();
    let is_going = found.is_some_and(|it| it.metadata.deletion_timestamp.is_some());
    // As above: one write in a pass. One that is being deleted is created again once it is gone.
    if is_going || world.learned.applied.is_some() {
        return Step::Rest;
    }
    let Some(why) = why(world, found, tunnel) else {
        return Step::Rest;
    };
    if why == Why::Drift
        && let Some(next) = world.next_repair.filter(|next| now < *next)
    {
        return Step::Paused(next);
    }
    if why == Why::Chain && policy == ChainPolicy::Defer {
        return Step::Deferred;
    }
    let tried = world.tunnel_try(&tunnel.input_hash);
    if let Some(refusal) = refusal(world, &tried, now) {
        return Step::Refused(refusal);
    }
    if found.is_some_and(is_foreign_made) && !world.learned.is_adopted {
        return Step::Act(Action::Adopt);
    }
    if why == Why::Chain && world.learned.turn == Some(Turn::Later) {
        return Step::Queued;
    }
    let rendered = world.learned.rendered.as_ref();
    let Some(rendered) = rendered.filter(|it| it.input == tunnel.input_hash) else {
        // What the new chain makes of it is known: it must roll. So no plugin is called before it may.
        let is_queued = why == Why::Chain && world.queued.as_ref() == Some(&tried);
        return Step::Act(match is_queued && world.learned.turn.is_none() {
            true => Action::TakeTurn(tried),
            false => Action::Mutate(tried),
        });
    };
    let rolls = why == Why::Chain && found.is_some_and(|found| is_another(rendered, found));
    if rolls && world.learned.turn.is_none() {
        return Step::Act(Action::TakeTurn(tried));
    }
    Step::Act(Action::Apply(Box::new(Apply {
        why,
        uid: found.and_then(|found| found.metadata.uid.clone()),
        rendered: rendered.clone(),
        tried,
    })))
}

/// Why the Deployment must be written, if it must.
fn why(world: &World, found: Option<&Deployment>, tunnel: &Tunnel) -> Option<Why> {
    let Some(found) = found else {
        return Some(Why::Missing);
    };
    let metadata = &found.metadata;
    let has = |key| annotation_of(metadata, key);
    let chain = has(names::annotation::CHAIN);
    if has(annotation::INPUT_HASH) != Some(&tunnel.input_hash) {
        return Some(Why::Input);
    }
    let applied = world.applied();
    let is_as_written = applied.is_some_and(|applied| {
        applied.generation == metadata.generation
            && applied.template_hash.as_deref() == has(annotation::TEMPLATE_HASH)
            && applied.chain_digest.as_deref() == chain
    });
    let is_whole = is_as_written
        && (chain.is_none() || has(names::annotation::MUTATIONS).is_some())
        && has_labels(metadata, world.name())
        && has_controller(metadata, world.uid());
    if !is_whole {
        return Some(Why::Drift);
    }
    // Without a chain nothing is known to be different: one may be loading.
    let is_outdated = world.chain.is_some() && world.chain.as_deref() != chain;
    is_outdated.then_some(Why::Chain)
}

/// Whether we never wrote a Deployment that is ours: the operator before us made it.
fn is_foreign_made(deployment: &Deployment) -> bool {
    annotation_of(&deployment.metadata, annotation::INPUT_HASH).is_none()
}

/// Whether the chain made another template than the one that runs.
fn is_another(rendered: &Rendered, found: &Deployment) -> bool {
    let runs = annotation_of(&found.metadata, annotation::TEMPLATE_HASH);
    runs != Some(&rendered.template_hash)
}
