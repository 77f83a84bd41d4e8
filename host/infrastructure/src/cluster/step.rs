//! What to do next about a Cluster.
//!
//! A pass sends at most one request to IM. What would be the second is due at once, in the next pass.

use std::time::Duration;

use jiff::Timestamp;
use podloom_api::names::infrastructure::reason;
use podloom_api::{ClusterOperation, DeletionPolicy, OperationKind};
use podloom_engine::plan::later;

use super::action::{Action, Ask};
use super::durable::{Change, Durable, micros, new_operation};
use super::memory::{self, Known, OnDelete, Ownership, Shortage};
use super::world::{Edit, SeenSecret, Settings, World};
use crate::im::{ImState, InfrastructureId, Reading};
use crate::in_use::Guard;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Act(Action),
    /// Record a change, then send it.
    Change(Change),
    /// Nothing before this time, unless something changes.
    Wait(Timestamp),
    /// Nothing, unless something changes.
    Rest,
}

/// What a step is decided from, besides the world.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) world: &'a World,
    pub(crate) edit: &'a Edit,
    pub(crate) settings: &'a Settings,
    pub(crate) now: Timestamp,
}

/// Decides the next step for a Cluster.
pub(crate) fn step(case: Case<'_>) -> Step {
    let world = case.world;
    if world.cluster.spec.paused {
        return Step::Rest;
    }
    if world.is_deleted() {
        return release(case);
    }
    match world.is_registered() {
        // A cluster that existed before is only probed.
        true => probe(case),
        false => templated(case),
    }
}

/// Decides the next step for a Cluster with a template that is not being deleted.
fn templated(case: Case<'_>) -> Step {
    let of_infrastructure = infrastructure(case);
    if of_infrastructure.is_active() {
        return of_infrastructure;
    }
    of_infrastructure.or(kubeconfig(case))
}

fn infrastructure(case: Case<'_>) -> Step {
    let world = case.world;
    // What is somebody else's is left alone.
    if world.rival.is_some() || world.resolved().is_none() {
        return Step::Rest;
    }
    match &world.durable.id {
        None => create(case),
        Some(id) => existing(case, id),
    }
}

impl Step {
    /// Whether there is something to do now.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self, Self::Act(_) | Self::Change(_))
    }

    /// The first of two.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (active @ (Self::Act(_) | Self::Change(_)), _)
            | (_, active @ (Self::Act(_) | Self::Change(_))) => active,
            (Self::Wait(one), Self::Wait(other)) => Self::Wait(one.min(other)),
            (Self::Wait(at), Self::Rest) | (Self::Rest, Self::Wait(at)) => Self::Wait(at),
            (Self::Rest, Self::Rest) => Self::Rest,
        }
    }
}

impl Case<'_> {
    /// Asks IM, if it may be asked now. The finalizer precedes the first request.
    fn ask(self, ask: Ask) -> Step {
        match self.not_now() {
            Some(step) => step,
            None => Step::Act(Action::Ask(ask)),
        }
    }

    /// Reads the Secrets of the next request, if IM may be asked now.
    fn prepare(self) -> Step {
        let Self { world, now, .. } = self;
        match world.known.rest.filter(|rest| now < *rest) {
            Some(rest) => Step::Wait(rest),
            None => Step::Act(Action::Prepare),
        }
    }

    /// Records a change and sends it, if IM may be asked now.
    fn change(self, change: Change) -> Step {
        self.not_now().unwrap_or(Step::Change(change))
    }

    /// What to do instead of asking IM.
    fn not_now(self) -> Option<Step> {
        let Self { world, now, .. } = self;
        if world.learned.is_asked {
            return Some(Step::Wait(now));
        }
        if let Some(rest) = world.known.rest.filter(|rest| now < *rest) {
            return Some(Step::Wait(rest));
        }
        if world.has_finalizer() {
            return None;
        }
        // Being deleted, it gets none. And without one, what a request makes could be left behind.
        match world.is_deleted() || world.learned.metadata_rejected.is_some() {
            true => Some(Step::Rest),
            false => Some(Step::Act(Action::SetMetadata(world.with_finalizer()))),
        }
    }

    /// When the next request of the operation that is under way may be sent: each time later.
    fn retry_at(self) -> Option<Timestamp> {
        let operation = self.world.durable.under_way()?;
        let last = operation.last_call_at.as_ref()?.0;
        let attempts = u32::try_from(operation.attempts).unwrap_or_default();
        Some(later(last, self.wait(attempts)))
    }

    /// How long to wait after this many failures in a row.
    fn wait(self, failures: u32) -> Duration {
        memory::wait(self.world.poll(), failures, self.world.uid())
    }
}

/// What to do next about a Cluster without an infrastructure: it is looked up, taken over or created.
fn create(case: Case<'_>) -> Step {
    let Case { world, now, .. } = case;
    let refusal = world.known.refusal.as_ref();
    let is_rejected = refusal.is_some_and(|it| it.reason == reason::TEMPLATE_REJECTED);
    if is_rejected && !world.durable.is_attempt_open() {
        return Step::Rest;
    }
    if !world.is_clean() {
        return search(case);
    }
    // Without what it needs it gets no finalizer: as long as nothing was ever sent, nothing keeps it.
    let is_prepared = world.has_finalizer() || world.learned.prepared.is_some();
    if let Some(id) = world.to_adopt() {
        return match is_prepared {
            true => case.ask(Ask::Adopt(id)),
            false => case.prepare(),
        };
    }
    if is_rejected || matches!(case.edit, Edit::Invalid(_)) {
        return Step::Rest;
    }
    if world
        .resolved()
        .is_some_and(|backend| backend.going.is_some())
    {
        return Step::Rest;
    }
    if !is_prepared {
        return case.prepare();
    }
    // Whatever there is to wait for comes first, so that nothing is asked of the API server in vain.
    let create = case.change(Change::Create);
    if !matches!(create, Step::Change(_)) {
        return create;
    }
    match world.learned.guard {
        None => Step::Act(Action::Guard),
        Some(Guard::InPlace) => create,
        // Its own event wakes the Cluster; this is for one that is lost.
        Some(Guard::Awaited) => Step::Wait(later(now, world.poll())),
        Some(Guard::Deleted) => Step::Rest,
    }
}

/// Looks for an infrastructure of the Cluster's name: at once, since it may be there. That there is none is believed only when IM has
/// answered for a while, since a request whose answer was lost may have waited for IM to come back.
fn search(case: Case<'_>) -> Step {
    let Case { world, now, .. } = case;
    let heard = world.known.heard_since.filter(|_| world.may_be_late());
    if let Some(heard) = heard {
        let since = world.durable.last_call_at().max(Some(heard));
        let settled = later(since.unwrap_or(heard), case.settings.settle);
        if now < settled {
            return Step::Wait(settled);
        }
    }
    case.ask(Ask::Search {
        skip: skipped(world),
    })
}

/// What was read already for this very call.
fn skipped(world: &World) -> Vec<InfrastructureId> {
    let search = &world.known.search;
    match search.call == world.durable.last_call_at() {
        true => search.read.iter().cloned().collect(),
        false => Vec::new(),
    }
}

/// What to do next about an infrastructure that exists, or did.
fn existing(case: Case<'_>, id: &InfrastructureId) -> Step {
    let Case { world, now, .. } = case;
    // What has the same id at another URL must not get our passwords.
    if world.known.owner == Ownership::ToAdd && !world.is_moved() {
        return case.ask(Ask::AddOwner(id.clone()));
    }
    let Some(reading) = world.fresh(now).filter(|_| !world.is_unnamed()) else {
        return read(case, id);
    };
    if let Some(step) = update(case, reading) {
        return step;
    }
    repair(case, id, reading)
}

/// Reads the state, or first the name: not right after a change, and after it was missing only once the interval is over.
fn read(case: Case<'_>, id: &InfrastructureId) -> Step {
    let Case { world, now, .. } = case;
    let missing = world.known.missing_since;
    let again = missing.map(|since| later(since, world.poll()));
    let not_before = world.known.quiet.max(again);
    match not_before.filter(|at| now < *at) {
        Some(at) => Step::Wait(at),
        None if world.is_unnamed() => case.ask(Ask::Name(id.clone())),
        None => case.ask(Ask::State(id.clone())),
    }
}

/// Sends a changed template. IM would make surplus machines of one that comes while others are pending.
fn update(case: Case<'_>, reading: &Reading) -> Option<Step> {
    let Case { world, now, .. } = case;
    if !matches!(case.edit, Edit::Send { .. }) {
        return None;
    }
    if matches!(reading.state, ImState::Pending | ImState::Deleting) {
        return None;
    }
    let refusal = world.known.refusal.as_ref();
    if refusal.is_some_and(|it| it.reason == reason::TEMPLATE_REJECTED) {
        return None;
    }
    // After a restart, nobody knows what became of the last request.
    let is_forgotten = world.known.tried.is_none() && refusal.is_none();
    let is_lost = world.known.unsure.is_some() || is_forgotten;
    let last = world.durable.last_call_at().filter(|_| is_lost);
    // A request that waited for IM to come back may be carried out only then.
    let heard = world.known.heard_since;
    let since = match world.durable.under_way() {
        Some(_) => last.map(|last| last.max(heard.unwrap_or(now))),
        None => last,
    };
    let settled = since.map(|since| later(since, case.settings.settle));
    let retry = (!is_new_edit(world)).then(|| case.retry_at()).flatten();
    let due = settled.max(retry);
    Some(match due.filter(|due| now < *due) {
        // What IM says meanwhile is worth knowing.
        Some(due) => Step::Wait(due.min(later(now, world.poll()))),
        None => case.change(Change::Update),
    })
}

/// What to do next about the kubeconfig of configured machines, and about the API server that it is for.
fn kubeconfig(case: Case<'_>) -> Step {
    let Case { world, now, .. } = case;
    // With an update ahead, what IM says now is soon outdated. A refused one stops nothing.
    let is_updated_soon = matches!(case.edit, Edit::Send { .. }) && world.known.refusal.is_none();
    if !world.is_configured() || world.rival.is_some() || is_updated_soon {
        return Step::Rest;
    }
    match &world.secret {
        SeenSecret::Unseen => return Step::Act(Action::ReadSecret),
        SeenSecret::Foreign => return Step::Wait(later(now, world.poll())),
        SeenSecret::Absent | SeenSecret::Ours(_) => {}
    }
    match world.is_stored() {
        true => probe(case),
        false => store(case).or(probe_stored(case)),
    }
}

/// Gets the kubeconfig and stores it.
fn store(case: Case<'_>) -> Step {
    let Case { world, now, .. } = case;
    if world.learned.kubeconfig.is_some() {
        return Step::Act(Action::Store);
    }
    if let Some(trouble) = world.kubeconfig_trouble()
        && now < trouble.next
    {
        return Step::Wait(trouble.next);
    }
    let is_configured = world
        .fresh(now)
        .is_some_and(|it| it.state == ImState::Configured);
    match &world.durable.id {
        Some(id) if is_configured && !world.is_unnamed() && world.resolved().is_some() => {
            case.ask(Ask::Outputs(id.clone()))
        }
        _ => Step::Rest,
    }
}

/// Probes with the Secret as it is, if it has a kubeconfig.
fn probe_stored(case: Case<'_>) -> Step {
    match case.world.has_kubeconfig() {
        true => probe(case),
        false => Step::Rest,
    }
}

/// Asks the API server of the cluster once in each poll interval.
fn probe(case: Case<'_>) -> Step {
    let Case { world, now, .. } = case;
    if !case.settings.probe {
        return Step::Rest;
    }
    let due = world.known.probe.at.map(|at| later(at, world.poll()));
    match due.filter(|due| now < *due) {
        Some(due) => Step::Wait(due),
        None if world.learned.is_probed => Step::Wait(later(now, world.poll())),
        None => Step::Act(Action::Probe),
    }
}

/// How long IM may take at most to write the record of a deleted infrastructure back: as long as its database lets it wait for others.
const WRITTEN_BACK: Duration = Duration::from_secs(5);

/// How a Cluster ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing is left of its infrastructure, or there never was one.
    Gone,
    /// Its infrastructure stays, since the spec says so.
    Orphaned,
    /// Its infrastructure may stay, and nobody knows of it any more.
    Abandoned,
    /// Its infrastructure is another Cluster's.
    Rival,
}

/// Returns how the Cluster ends, if nothing keeps it.
pub(crate) fn end(world: &World) -> Option<End> {
    let durable = &world.durable;
    let may_exist = durable.id.is_some() || durable.is_attempt_open();
    // Without a status, what was created may be forgotten. If it is bound to nothing, there is nowhere to look.
    let is_unknown = durable.operation.is_none() && !world.is_clean() && world.backend.is_some();
    if world.is_registered() || world.learned.is_gone {
        return Some(End::Gone);
    }
    if !may_exist && !is_unknown {
        return Some(End::Gone);
    }
    if durable.is_attempt_open() && world.is_clean() {
        return Some(End::Gone);
    }
    if world.on_delete() == OnDelete::Abandon {
        return Some(End::Abandoned);
    }
    if world.cluster.spec.deletion_policy == DeletionPolicy::Orphan {
        return Some(End::Orphaned);
    }
    world.rival.is_some().then_some(End::Rival)
}

/// What to do next about a Cluster that is being deleted: its infrastructure goes first, then our finalizer.
fn release(case: Case<'_>) -> Step {
    let world = case.world;
    let Some(release) = world.without_finalizer() else {
        return Step::Rest;
    };
    if end(world).is_some() {
        return Step::Act(Action::SetMetadata(release));
    }
    if world.resolved().is_none() {
        return Step::Rest;
    }
    match &world.durable.id {
        None => search(case),
        Some(id) if world.known.owner == Ownership::ToAdd && !world.is_moved() => {
            case.ask(Ask::AddOwner(id.clone()))
        }
        Some(id) => delete(case, id),
    }
}

/// Asks IM to delete the infrastructure, until it does not exist.
///
/// A state read while IM deletes could bring the record back. So the state is read only some time after an accepted deletion; without an
/// answer, the deletion is sent again instead.
fn delete(case: Case<'_>, id: &InfrastructureId) -> Step {
    let Case { world, now, .. } = case;
    if let Some(since) = world.known.gone_since
        && !world.is_moved()
    {
        return confirm(case, id, since);
    }
    if world.is_unnamed() {
        return read(case, id);
    }
    let is_begun = world
        .durable
        .under_way()
        .is_some_and(|it| it.kind == OperationKind::Delete && it.attempts > 0);
    let force = world.on_delete() == OnDelete::Force;
    let change = Change::Delete { force };
    if !is_begun || (force && !world.known.is_forced) {
        return case.change(change);
    }
    if world.known.is_deleting {
        let Some(reading) = world.fresh(now) else {
            return read(case, id);
        };
        if let Some(step) = going(case, reading) {
            return step;
        }
    }
    match case
        .retry_at()
        .filter(|at| now < *at && !world.known.is_busy)
    {
        Some(at) => Step::Wait(at),
        None => case.change(change),
    }
}

/// Looks whether the account still has an infrastructure of which IM says that it does not exist.
///
/// An IM that builds another infrastructure at that moment can write the record back that it has just removed. So only its list some time
/// later is believed.
fn confirm(case: Case<'_>, id: &InfrastructureId, since: Timestamp) -> Step {
    let settled = later(since, case.settings.settle.min(WRITTEN_BACK));
    match case.now < settled {
        true => Step::Wait(settled),
        false => case.ask(Ask::Left(id.clone())),
    }
}

/// What to do while IM says that it deletes; none if it does not, or not in time.
fn going(case: Case<'_>, reading: &Reading) -> Option<Step> {
    let Case { world, now, .. } = case;
    if reading.state != ImState::Deleting || world.is_overdue(now) {
        return None;
    }
    let again = world
        .known
        .reading
        .as_ref()
        .map(|it| later(it.at, world.poll()));
    Some(Step::Wait(again.unwrap_or(now)))
}

/// What helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Nothing is wrong.
    None,
    /// To wait.
    Wait,
    /// This request.
    Send(Change),
}

/// Whether the operation that is under way is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    Ahead,
    Passed,
}

/// What helps if an infrastructure lacks something although its machines are configured.
fn remedy_of_lack(known: &Known) -> Remedy {
    match known.shortage {
        // It has no outputs: an IM that crashed forgot what it was told.
        _ if known.has_no_template => Remedy::Send(Change::Resend),
        Shortage::Found => Remedy::Send(Change::Resend),
        Shortage::Seen(_) => Remedy::Wait,
        Shortage::None | Shortage::Sent | Shortage::Accepted(_) => Remedy::None,
    }
}

/// Returns what helps in a state: a table, in which the first row that fits counts.
pub(crate) fn remedy(reading: &Reading, known: &Known, deadline: Deadline) -> Remedy {
    let late = deadline == Deadline::Passed;
    let has_machines = !reading.vms.is_empty();
    match reading.state {
        ImState::Configured => remedy_of_lack(known),
        ImState::Pending | ImState::Deleting if late => Remedy::Send(Change::Resend),
        ImState::Pending | ImState::Deleting => Remedy::Wait,
        ImState::Running if late => Remedy::Send(Change::Reconfigure),
        ImState::Running => Remedy::Wait,
        ImState::Unconfigured => Remedy::Send(Change::Reconfigure),
        // To configure it again would erase the cause.
        ImState::Failed => Remedy::Send(Change::Resend),
        ImState::Stopped | ImState::Off => Remedy::Send(Change::Start),
        ImState::Unknown if !has_machines || late => Remedy::Send(Change::Resend),
        ImState::Unknown => Remedy::Wait,
    }
}

/// What to do about machines that are not configured.
fn repair(case: Case<'_>, id: &InfrastructureId, reading: &Reading) -> Step {
    let Case { world, now, .. } = case;
    let deadline = match world.is_overdue(now) {
        true => Deadline::Passed,
        false => Deadline::Ahead,
    };
    let again = read_again(world, now);
    let change = match remedy(reading, &world.known, deadline) {
        // Whoever looks for drift wakes the Cluster.
        Remedy::None => return Step::Rest,
        Remedy::Wait => return Step::Wait(again),
        Remedy::Send(change) => change,
    };
    if change == Change::Resend && world.whole().is_none() {
        return Step::Wait(again);
    }
    if lacks_log(world, reading) {
        return case.ask(Ask::Log(id.clone()));
    }
    let refusal = world.known.refusal.as_ref();
    let is_rejected = refusal.is_some_and(|it| it.reason == reason::TEMPLATE_REJECTED);
    if !world.is_repaired() || (is_rejected && change == Change::Resend) {
        return Step::Wait(again);
    }
    match case.retry_at().filter(|at| now < *at) {
        Some(at) => Step::Wait(at.min(again)),
        None => case.change(change),
    }
}

/// When the reading must be made again, or the deadline is passed.
fn read_again(world: &World, now: Timestamp) -> Timestamp {
    let reading = world.known.reading.as_ref();
    let again = reading.map_or(now, |reading| later(reading.at, world.poll()));
    match world.deadline().filter(|deadline| now < *deadline) {
        Some(deadline) => again.min(deadline),
        None => again,
    }
}

/// Whether IM may say why it failed, and was not asked since the last request.
fn lacks_log(world: &World, reading: &Reading) -> bool {
    if !matches!(reading.state, ImState::Failed | ImState::Unconfigured) {
        return false;
    }
    let last = world.durable.last_call_at();
    let log = world.known.log.as_ref().map(|log| log.at);
    log.is_none() || log < last
}

/// Returns what the status says once a change is recorded.
pub(crate) fn begun(world: &World, change: Change, now: Timestamp) -> Durable {
    let mut durable = world.durable.clone();
    let mut operation = operation(world, change, now);
    operation.last_call_at = Some(micros(now));
    operation.attempts = operation.attempts.saturating_add(1);
    durable.operation = Some(operation);
    if change == Change::Create {
        // The lookup after a lost answer must go where the request went, and must know what it sent.
        durable.running_on = world.resolved().map(|backend| backend.cloud.clone());
        durable.provider_url = world.url();
        durable.applied = world.wanted.as_ref().map(|it| it.template.clone());
        durable.retired.clear();
        durable.im_state = None;
        durable.machines = None;
    }
    durable
}

/// The operation that a change is part of, without its request.
fn operation(world: &World, change: Change, now: Timestamp) -> ClusterOperation {
    let kind = change.kind();
    let new = new_operation(kind, now);
    let Some(before) = world.durable.under_way() else {
        return new;
    };
    match change {
        Change::Delete { .. } if before.kind == kind => before.clone(),
        Change::Delete { .. } => new,
        // Another template is worth another deadline. What was never configured is still being created.
        Change::Update if is_new_edit(world) => match before.kind {
            OperationKind::Create => ClusterOperation {
                kind: before.kind,
                // More than one request: after a restart, that says that it was not the first.
                attempts: before.attempts,
                ..new
            },
            _ => new,
        },
        // A repair is part of what it repairs.
        _ => before.clone(),
    }
}

/// Returns whether the template was never sent as it is now. After a restart that is not known, and while an update is under way, it
/// counts as sent.
pub(crate) fn is_new_edit(world: &World) -> bool {
    match world.known.tried {
        Some(tried) => Some(tried) != world.metadata().generation,
        None => {
            let under_way = world.durable.under_way();
            under_way.is_none_or(|it| it.kind != OperationKind::Update)
        }
    }
}
