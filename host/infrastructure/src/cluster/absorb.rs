//! What an answer of IM means for a Cluster. Pure: it changes the world, and the next plan writes the status.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use podloom_api::names::infrastructure::reason;
use podloom_api::{ClusterObject, Machines, OperationKind};
use podloom_engine::kind::Remains;
use podloom_engine::plan::later;
use serde_json::{Map, Value};

use super::action::{Ask, Asked, Found, Outcome, Reply};
use super::durable::{Change, Durable, micros, new_operation};
use super::memory::{self, At, KubeconfigTrouble, Ownership, Search, Shortage};
use super::world::{Edit, SeenSecret, World, edit};
use crate::im::{Answer, Failure, FailureKind, ImState, InfrastructureId, Reading, Sent};
use crate::kubeconfig::{Kubeconfig, KubeconfigProblem, Probed};
use crate::resolve::Trouble;
use crate::template::is_named;

/// How long to wait after a request that changes something before the state is read, at most.
const QUIET: Duration = Duration::from_secs(5);
/// The first pause after we asked too much at once ourselves; each further one is twice as long.
const LIMITED: Duration = Duration::from_secs(2);
/// The longest of these pauses.
const LIMITED_MAX: Duration = Duration::from_mins(1);
/// How long to wait at most while IM is busy.
const BUSY: Duration = Duration::from_secs(10);

/// Puts what came of a question to IM into the world.
pub(crate) fn absorb(world: &mut World, asked: Asked) {
    let Asked { ask, reply, at } = asked;
    world.learned.is_asked = true;
    world.learned.recorded = None;
    world.known.missing = None;
    let was_heard = world.known.heard_since.is_some();
    heard(world, &reply, at);
    match reply {
        Reply::Missing(unresolved) => missing(world, unresolved, at),
        Reply::TooLate => {
            not_sent(world, &ask);
            if let Ask::AddOwner(_) = ask {
                world.known.owner = Ownership::Tried;
            }
            // The API server is slow, or the template must not be sent after all.
            world.known.rest = Some(later(at, LIMITED));
        }
        Reply::Found(found) if matches!(ask, Ask::Left(_)) => left(world, &found),
        Reply::Found(found) => searched(world, found, was_heard, at),
        Reply::Answer(answer) => answered(world, ask, answer, at),
        Reply::Failure(failure) => failed(world, &ask, &failure, at),
    }
    world.keep_unsaved();
}

/// Notes whether IM answers.
fn heard(world: &mut World, reply: &Reply, at: Timestamp) {
    let since = &mut world.known.heard_since;
    match reply {
        Reply::Answer(_) | Reply::Found(_) => *since = since.or(Some(at)),
        Reply::Failure(failure) => match failure.kind {
            FailureKind::Unreachable => *since = None,
            // It was not asked.
            FailureKind::Limited => {}
            _ => *since = since.or(Some(at)),
        },
        Reply::Missing(_) | Reply::TooLate => {}
    }
}

/// Notes that a Secret is missing, before anything is recorded or sent.
pub(crate) fn missing(world: &mut World, unresolved: Trouble, at: Timestamp) {
    world.known.missing = Some(unresolved);
    // A Secret that appears wakes it; this is for one that is not watched.
    world.known.rest = Some(later(at, memory::wait(world.poll(), 1, world.uid())));
}

fn answered(world: &mut World, ask: Ask, answer: Answer, at: Timestamp) {
    match (ask, answer) {
        (Ask::Change(Change::Create), Answer::Created(id)) => {
            world.known.named = Some(id.clone());
            world.durable.id = Some(id);
            accepted(world, Change::Create, at);
        }
        // Of a creation without an id, nobody knows what it made.
        (Ask::Change(change), Answer::Done) if change != Change::Create => {
            accepted(world, change, at);
        }
        (Ask::Name(_), Answer::Template(template)) => {
            succeeded(world);
            named(world, &template, at);
        }
        (Ask::State(_), Answer::State(reading)) => {
            succeeded(world);
            read(world, reading, at);
        }
        (Ask::Adopt(id), Answer::State(reading)) => {
            succeeded(world);
            adopt(world, id, at);
            read(world, reading, at);
        }
        (Ask::Outputs(_), Answer::Outputs(answer)) => {
            succeeded(world);
            outputs(world, &answer, at);
        }
        (Ask::Log(_), Answer::Log(log)) => {
            succeeded(world);
            world.known.log = Some(At { what: log, at });
        }
        (Ask::AddOwner(_), _) => {
            succeeded(world);
            world.known.owner = Ownership::Tried;
        }
        (ask, _) => failed(world, &ask, &Failure::unexpected(), at),
    }
}

/// The last request succeeded.
fn succeeded(world: &mut World) {
    world.known.failures = 0;
    world.known.limited = 0;
    world.known.rest = None;
    world.known.trouble = None;
}

fn trouble(reason: &'static str, message: impl Into<String>) -> Trouble {
    Trouble {
        reason,
        message: message.into(),
    }
}

// What the answer to a request that changes something means.

/// After a deletion, the state is not read for this long: IM would bring the record back.
const DELETED: Duration = Duration::from_millis(1500);

/// IM accepted it.
fn accepted(world: &mut World, change: Change, at: Timestamp) {
    match change {
        Change::Update => updated(world),
        Change::Delete { force } => {
            world.known.is_deleting = true;
            world.known.is_forced = force;
        }
        Change::Create | Change::Resend | Change::Reconfigure | Change::Start => {}
    }
    succeeded(world);
    world.known.refusal = None;
    world.known.is_busy = false;
    world.known.has_no_template = false;
    if matches!(change, Change::Create | Change::Update) {
        world.known.tried = world.metadata().generation;
        world.known.shortage = Shortage::None;
    }
    if change == Change::Resend && world.known.shortage == Shortage::Found {
        world.known.shortage = Shortage::Sent;
    }
    look_again(world, change, at);
}

/// After a change, whatever was read before means nothing.
fn look_again(world: &mut World, change: Change, at: Timestamp) {
    let quiet = match change {
        Change::Delete { .. } => DELETED,
        _ => world.poll().min(QUIET),
    };
    world.known.reading = None;
    world.known.missing_since = None;
    world.known.gone_since = None;
    world.known.quiet = Some(later(at, quiet));
}

/// IM has the template now.
fn updated(world: &mut World) {
    if let Edit::Send { retired, .. } = edit(world) {
        world.durable.retired.extend(retired);
    }
    let wanted = world.wanted.as_ref().map(|it| it.template.clone());
    if wanted.is_some() {
        world.durable.applied = wanted;
    }
    world.known.unsure = None;
    // The outputs may be others now.
    world.known.kept = None;
}

/// A change certainly was not carried out, and nobody tried: it does not count.
fn not_sent(world: &mut World, ask: &Ask) {
    let Ask::Change(change) = ask else {
        return;
    };
    if let Some(operation) = &mut world.durable.operation {
        operation.attempts = operation.attempts.saturating_sub(1).max(0);
    }
    if *change == Change::Create {
        cleared(world);
    }
}

/// A create request certainly made nothing: the record of the attempt is cleared. How often it was tried is kept.
fn cleared(world: &mut World) {
    let durable = &mut world.durable;
    durable.running_on = None;
    durable.provider_url = None;
    durable.applied = None;
    if let Some(operation) = &mut durable.operation {
        operation.last_call_at = None;
    }
    world.known.clean = Some(None);
}

// What a failed request means.

/// Notes a failure, and when IM may be asked again.
fn failed(world: &mut World, ask: &Ask, failure: &Failure, at: Timestamp) {
    record(world, ask, failure);
    match (failure.kind, ask) {
        // It says nothing about IM.
        (FailureKind::Limited, _) => limited(world, at),
        (FailureKind::NotFound, Ask::State(_) | Ask::Name(_)) => unknown(world, at),
        (FailureKind::NoTemplate, Ask::Name(_)) => nameless(world, at),
        (FailureKind::NotFound, Ask::Change(Change::Delete { .. })) => deleted(world, at),
        (FailureKind::NotFound, Ask::Adopt(_)) => not_there(world, failure, at),
        (kind, Ask::Log(_)) => {
            // Without its words, it goes on all the same: whatever IM cannot do, what comes next tells.
            let what = String::new();
            world.known.log = Some(At { what, at });
            if kind == FailureKind::NotFound {
                world.known.reading = None;
            }
        }
        (FailureKind::NotFound, Ask::AddOwner(_)) => {
            world.known.owner = Ownership::Tried;
            world.known.reading = None;
        }
        // A state read must confirm it.
        (FailureKind::NotFound, _) => world.known.reading = None,
        (FailureKind::NoTemplate, Ask::Outputs(_)) => world.known.has_no_template = true,
        (FailureKind::NotGranted, _) if may_add_owner(world, ask) => {
            world.known.owner = Ownership::ToAdd;
        }
        (FailureKind::Refused, Ask::Outputs(_)) => refused(world, &failure.message, at),
        _ => troubled(world, ask, failure, at),
    }
}

/// Too many of our own requests are running: each time it waits longer, so that many Clusters of one IM find a pace.
fn limited(world: &mut World, at: Timestamp) {
    let known = &mut world.known;
    known.limited = known.limited.saturating_add(1);
    let wait = memory::wait(LIMITED, known.limited, world.uid()).min(LIMITED_MAX);
    world.known.rest = Some(later(at, wait));
}

/// What the failure means for what was recorded before the request.
fn record(world: &mut World, ask: &Ask, failure: &Failure) {
    let Ask::Change(change) = ask else {
        return;
    };
    if failure.kind == FailureKind::Limited {
        return not_sent(world, ask);
    }
    if matches!(change, Change::Create | Change::Update) {
        world.known.tried = world.metadata().generation;
    }
    match (change, failure.sent) {
        // What is there and what is not must be looked up.
        (Change::Create, Sent::Unknown) => {
            let prepared = world.learned.prepared.as_ref();
            let target = prepared.and_then(|it| it.0.as_ref());
            world.known.sent_as = target.map(|target| target.owner.clone());
        }
        (Change::Create, _) => cleared(world),
        (Change::Update, Sent::Unknown) => {
            world.known.unsure = world.wanted.as_ref().map(|it| it.template.clone());
        }
        (Change::Delete { force }, _) => {
            world.known.is_deleting = false;
            world.known.is_forced = *force;
        }
        _ => {}
    }
    world.known.reading = None;
}

/// Whether the account with the previous password may let the one of now own the infrastructure. It is tried once.
fn may_add_owner(world: &World, ask: &Ask) -> bool {
    let backend = world.resolved();
    let has_previous = world.known.sent_as.is_some()
        || backend.is_some_and(|backend| backend.im.previous.is_some());
    let is_about_one = !matches!(
        ask,
        Ask::AddOwner(_) | Ask::Search { .. } | Ask::Left(_) | Ask::Change(Change::Create)
    );
    has_previous
        && is_about_one
        && world.known.owner == Ownership::Assumed
        && world.durable.id.is_some()
}

/// There is nothing to take over.
fn not_there(world: &mut World, failure: &Failure, at: Timestamp) {
    let message = format!(
        "the infrastructure to take over does not exist: {}",
        failure.message
    );
    world.known.refusal = Some(trouble(reason::ADOPTION_FAILED, message));
    world.known.rest = Some(later(at, memory::longest(world.poll())));
}

fn troubled(world: &mut World, ask: &Ask, failure: &Failure, at: Timestamp) {
    let known = &mut world.known;
    known.failures = known.failures.saturating_add(1);
    known.is_busy = failure.kind == FailureKind::Conflict;
    if let Ask::AddOwner(_) = ask
        && failure.kind != FailureKind::Unreachable
    {
        known.owner = Ownership::Tried;
    }
    let found = trouble(reason_of(failure.kind, ask), failure.message.clone());
    match is_refusal(failure.kind, ask) {
        true => {
            known.refusal = Some(found);
            known.trouble = None;
        }
        false => known.trouble = Some(found),
    }
    let attempts = world.durable.under_way().map_or(0, |it| it.attempts);
    let attempts = u32::try_from(attempts).unwrap_or_default();
    let poll = world.poll();
    let wait = match (failure.kind, ask) {
        (FailureKind::Conflict, _) => poll.min(BUSY),
        (_, Ask::Change(_)) => memory::wait(poll, world.known.failures.max(attempts), world.uid()),
        _ => memory::wait(poll, world.known.failures, world.uid()),
    };
    world.known.rest = Some(later(at, wait));
    // Whether a change worked is worth knowing before the next one.
    if let (Ask::Change(change), Some(_)) = (ask, &world.durable.id)
        && failure.sent != Sent::No
        && !matches!(change, Change::Delete { .. })
    {
        world.known.quiet = Some(later(at, poll.min(QUIET)));
    }
}

/// Whether only another request of that kind can show that it is over: what is read meanwhile says nothing about it.
fn is_refusal(kind: FailureKind, ask: &Ask) -> bool {
    let is_answer = matches!(
        kind,
        FailureKind::Refused
            | FailureKind::TemplateRejected
            | FailureKind::ReadOnly
            | FailureKind::NoTemplate
            | FailureKind::Conflict
    );
    is_answer && matches!(ask, Ask::Change(_))
}

fn reason_of(kind: FailureKind, ask: &Ask) -> &'static str {
    match (kind, ask) {
        (FailureKind::CredentialsRejected | FailureKind::NotGranted, _) => {
            reason::CREDENTIALS_REJECTED
        }
        (FailureKind::ReadOnly, _) => reason::READ_ONLY,
        (FailureKind::TemplateRejected, _) => reason::TEMPLATE_REJECTED,
        (FailureKind::Refused, Ask::Change(Change::Update)) => reason::UPDATE_REFUSED,
        (FailureKind::Refused | FailureKind::Conflict, Ask::Change(_)) => reason::FAILED,
        _ => reason::UNREACHABLE,
    }
}

// What the outputs of the template mean: the kubeconfig, or why there is none.

/// The output with the kubeconfig.
const OUTPUT: &str = "kubeconfig";

/// Checks the kubeconfig. Nobody gets to read what it says.
fn outputs(world: &mut World, outputs: &Map<String, Value>, at: Timestamp) {
    match Kubeconfig::of_output(outputs.get(OUTPUT)) {
        Ok(kubeconfig) => {
            world.known.kubeconfig = None;
            world.learned.kubeconfig = Some(kubeconfig);
        }
        Err(problem) => {
            let reason = match problem {
                KubeconfigProblem::Missing => reason::OUTPUT_MISSING,
                KubeconfigProblem::Invalid(_) | KubeconfigProblem::Certificates(_) => {
                    reason::KUBECONFIG_INVALID
                }
                KubeconfigProblem::Unsafe(_) => reason::KUBECONFIG_UNSAFE,
            };
            note(world, trouble(reason, problem.to_string()), at);
        }
    }
}

/// IM could not make the outputs.
fn refused(world: &mut World, message: &str, at: Timestamp) {
    note(world, trouble(reason::OUTPUT_MISSING, message), at);
}

/// Notes why there is no kubeconfig, and when to ask again.
pub(crate) fn note(world: &mut World, trouble: Trouble, at: Timestamp) {
    let Some(mark) = world.durable.mark() else {
        return;
    };
    let before = world.known.kubeconfig.take();
    let before = before.filter(|it| it.mark == mark && it.trouble.reason == trouble.reason);
    let failures = before.map_or(1, |it| it.failures.saturating_add(1));
    let is_final = matches!(
        trouble.reason,
        reason::KUBECONFIG_INVALID | reason::KUBECONFIG_UNSAFE
    );
    let wait = match is_final {
        true => memory::longest(world.poll()),
        false => memory::wait(world.poll(), failures, world.uid()),
    };
    world.known.kubeconfig = Some(KubeconfigTrouble {
        trouble,
        mark,
        failures,
        next: later(at, wait),
    });
}

// What a search for the Cluster's infrastructure means.

/// Notes what a search read. One match is taken over, none means that nothing was created, and of two nobody knows which is right.
///
/// `was_heard` says whether IM answered before it. If it did not, a create request may have waited for it to come back, and be carried
/// out only now: then nothing has been shown yet.
fn searched(world: &mut World, found: Found, was_heard: bool, at: Timestamp) {
    succeeded(world);
    if world.known.search.call != world.durable.last_call_at() {
        world.known.search = Search::about(world.durable.last_call_at());
    }
    let is_early = !was_heard && world.may_be_late();
    let search = &mut world.known.search;
    search.read.extend(found.read);
    search.matches.extend(found.matches);
    if is_early && search.matches.is_empty() {
        world.known.search = Search::default();
        return;
    }
    if !found.is_complete {
        // IM has other work, and so has this worker.
        world.known.rest = Some(later(at, LIMITED));
        return;
    }
    let mut matches = search.matches.iter().cloned();
    world.known.may_have_twins = search.matches.len() > 1;
    match (matches.next(), search.matches.len()) {
        (None, _) => nothing(world, at),
        (Some(id), 1) => take(world, id, at),
        // All of them have this Cluster's name, so all of them go.
        (Some(id), _) if world.is_deleted() => take(world, id, at),
        (Some(_), count) => several(world, count, at),
    }
}

fn nothing(world: &mut World, at: Timestamp) {
    world.known.search = Search::default();
    match world.is_elsewhere() {
        // The request went to another Infrastructure Manager, and may have made one there.
        true => elsewhere(world, at),
        false => {
            world.known.clean = Some(world.durable.last_call_at());
            world.known.gone = None;
            world.known.sent_as = None;
            // Nothing runs anywhere, so it can be created where it is bound to by now.
            world.durable.running_on = None;
            world.durable.provider_url = None;
            // A template that was rejected is as wrong as before.
            let is_duplicate = |it: &mut Trouble| it.reason == reason::DUPLICATE_INFRASTRUCTURES;
            world.known.refusal.take_if(is_duplicate);
        }
    }
}

fn several(world: &mut World, count: usize, at: Timestamp) {
    let message = format!(
        "{count} infrastructures have the name podloom-{}; delete all but one at the Infrastructure Manager",
        world.uid()
    );
    world.known.refusal = Some(trouble(reason::DUPLICATE_INFRASTRUCTURES, message));
    world.known.search = Search::default();
    world.known.rest = Some(later(at, memory::longest(world.poll())));
}

/// Takes over the infrastructure of the Cluster's name.
fn take(world: &mut World, id: InfrastructureId, at: Timestamp) {
    world.known.search = Search::default();
    let was_recorded = world.durable.is_attempt_open();
    own(world, id);
    if world.durable.operation.is_none() {
        world.durable.operation = Some(new_operation(OperationKind::Create, at));
    }
    // What it was made from is known only of a recorded attempt.
    if !was_recorded {
        world.durable.applied = None;
    }
}

/// Takes over the infrastructure that the spec names. The template goes out as an update.
fn adopt(world: &mut World, id: InfrastructureId, at: Timestamp) {
    own(world, id);
    world.durable.applied = None;
    world.durable.operation = Some(new_operation(OperationKind::Update, at));
}

fn own(world: &mut World, id: InfrastructureId) {
    let url = world.url();
    let durable = &mut world.durable;
    world.known.named = Some(id.clone());
    durable.id = Some(id);
    durable.provider_url = url;
    if durable.running_on.is_none() {
        durable.running_on.clone_from(&durable.scheduled_to);
    }
    world.known.refusal = None;
    world.known.gone = None;
    world.known.reading = None;
    world.known.clean = None;
    world.known.gone_since = None;
    world.known.shortage = Shortage::None;
    world.known.is_deleting = false;
}

// What a reading of the state means, and what it means that there is none.

/// Notes a reading. Configured machines end the operation; others begin one, if none is under way.
fn read(world: &mut World, reading: Reading, at: Timestamp) {
    let configured = reading
        .vms
        .values()
        .filter(|it| **it == ImState::Configured);
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    world.durable.machines = Some(Machines {
        total: count(reading.vms.len()),
        configured: count(configured.count()),
    });
    world.durable.im_state = Some(reading.state.as_str().to_owned());
    if let Some(url) = world.url() {
        world.durable.provider_url = Some(url);
    }
    world.known.missing_since = None;
    world.known.gone_since = None;
    world.known.gone = None;
    world.known.sent_as = None;
    let (state, total) = (reading.state, reading.vms.len());
    if world.known.is_deleting && !matches!(state, ImState::Deleting | ImState::Unknown) {
        let call = world.durable.last_call_at();
        world.known.undone.count(call);
    }
    world.known.reading = Some(At { what: reading, at });
    if state != ImState::Configured {
        return notice(world, state, at);
    }
    compare(world, total, at);
    match world.known.shortage.is_open() {
        true => notice(world, state, at),
        false => finish(world, at),
    }
}

/// Notes whether machines are missing. While an update is ahead, nobody knows what IM has the template for.
fn compare(world: &mut World, total: usize, at: Timestamp) {
    let wanted = match edit(world) {
        Edit::Send { .. } => 0,
        _ => world.machines_wanted(),
    };
    let poll = world.poll();
    world.known.shortage = world.known.shortage.after((total, wanted), at, poll);
}

/// Ends the operation that is under way, unless it is an update that IM may not have.
fn finish(world: &mut World, at: Timestamp) {
    world.known.log = None;
    let is_ahead = matches!(edit(world), Edit::Send { .. });
    if !is_ahead {
        // Whatever was refused, it is not needed any more.
        world.known.refusal = None;
    }
    let Some(operation) = &mut world.durable.operation else {
        return;
    };
    let waits = is_ahead && operation.kind == OperationKind::Update;
    if operation.finished_at.is_none() && !waits && operation.kind != OperationKind::Delete {
        operation.finished_at = Some(micros(at));
        operation.attempts = 0;
    }
}

/// Begins an operation, without any request yet: its deadline counts from now.
fn notice(world: &mut World, state: ImState, at: Timestamp) {
    let is_moving = matches!(state, ImState::Pending | ImState::Running);
    if world.durable.under_way().is_some() || !(world.is_repaired() || is_moving) {
        return;
    }
    let kind = match state {
        ImState::Configured if world.known.shortage != Shortage::Found => return,
        ImState::Stopped | ImState::Off => OperationKind::Start,
        ImState::Configured | ImState::Failed | ImState::Pending => OperationKind::Update,
        _ => OperationKind::Reconfigure,
    };
    world.durable.operation = Some(new_operation(kind, at));
}

/// There is no such infrastructure, as IM says. Only the same answer one interval later is believed.
fn unknown(world: &mut World, at: Timestamp) {
    world.known.reading = None;
    world.known.trouble = None;
    world.known.failures = 0;
    if world.is_deleted() {
        return deleted(world, at);
    }
    let Some(since) = world.known.missing_since else {
        world.known.missing_since = Some(at);
        return;
    };
    if at < later(since, world.poll()) {
        return;
    }
    if world.is_elsewhere() {
        return elsewhere(world, at);
    }
    if world.is_repaired() {
        return forget(world, at);
    }
    let message = "the Infrastructure Manager does not know the infrastructure any more";
    world.known.gone = Some(trouble(reason::VANISHED, message));
    // Somebody may bring it back.
    world.known.missing_since = Some(at);
}

/// The infrastructure was to be deleted, and does not exist, as IM says. Only its list some time later is believed.
fn deleted(world: &mut World, at: Timestamp) {
    if world.is_elsewhere() {
        return elsewhere(world, at);
    }
    succeeded(world);
    world.known.refusal = None;
    world.known.is_busy = false;
    world.known.gone_since.get_or_insert(at);
}

/// Notes whether the account still has the infrastructure that was deleted.
fn left(world: &mut World, found: &Found) {
    succeeded(world);
    world.known.gone_since = None;
    if !found.matches.is_empty() {
        // It is deleted once more.
        world.known.is_deleting = false;
        world.known.reading = None;
        return;
    }
    match world.known.may_have_twins || world.is_unnamed() {
        // A search finds the next one, or the Cluster's own if the id was another's, or that there is none.
        true => {
            world.durable.id = None;
            world.known.search = Search::about(world.durable.last_call_at());
        }
        false => world.learned.is_gone = true,
    }
}

/// Notes whether what has the Cluster's id is its infrastructure.
fn named(world: &mut World, template: &str, at: Timestamp) {
    world.known.missing_since = None;
    match is_named(template, &world.infrastructure_name()) {
        Some(true) => {
            world.known.gone = None;
            if world.known.named != world.durable.id {
                world.known.reading = None;
                world.known.named.clone_from(&world.durable.id);
            }
            world.durable.provider_url = world.url();
        }
        _ if world.is_moved() => elsewhere(world, at),
        _ => {
            let message = "the infrastructure with the id in status.clusterId does not have the Cluster's name, so it is left alone; \
                           remove status.clusterId, and the Cluster's own is looked up, or abandon the infrastructure";
            lost(world, trouble(reason::ADOPTION_FAILED, message), at);
        }
    }
}

/// IM has no template, so the name cannot be read. At the same URL the id is trusted; at another one it is not.
fn nameless(world: &mut World, at: Timestamp) {
    match world.is_moved() {
        true => elsewhere(world, at),
        false => {
            succeeded(world);
            world.known.named.clone_from(&world.durable.id);
        }
    }
}

fn elsewhere(world: &mut World, at: Timestamp) {
    let message = "the provider has another URL now, and the Infrastructure Manager there does not have the Cluster's infrastructure; \
                   give the provider its old URL back, or abandon the infrastructure";
    lost(world, trouble(reason::ENDPOINT_CHANGED, message), at);
}

fn lost(world: &mut World, why: Trouble, at: Timestamp) {
    // It may be of another id.
    world.known.reading = None;
    world.known.gone = Some(why);
    world.known.missing_since = Some(at);
    world.known.rest = Some(later(at, memory::longest(world.poll())));
}

/// Forgets an infrastructure that is gone. What comes next is the create flow, which looks it up once more.
fn forget(world: &mut World, at: Timestamp) {
    let durable = &mut world.durable;
    durable.id = None;
    durable.running_on = None;
    durable.provider_url = None;
    durable.applied = None;
    durable.retired.clear();
    durable.im_state = None;
    durable.machines = None;
    durable.operation = Some(new_operation(OperationKind::Create, at));
    let known = &mut world.known;
    known.missing_since = None;
    known.clean = None;
    known.kept = None;
    known.log = None;
    known.unsure = None;
    known.refusal = None;
    known.shortage = Shortage::None;
    known.has_no_template = false;
}

/// Puts the outcome of an action into the world. Pure.
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
            world.known.kept = Some(secret.clone());
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

#[cfg(test)]
mod tests;
