//! The next step for a Cleaner whose conditions are all true: what it would delete is read whole, and guards may forbid it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use podloom_api::{
    DeletionPhase, DeletionProgress, DeliveryProgress, HelmProgress, HelmStep, PlannedObject,
};
use podloom_engine::plan::Plan;

use super::rest::{Next, period, rest, unresolved};
use super::{marked, report};
use crate::action::Action;
use crate::checked::{Checked, CheckedHelm};
use crate::sight::Sight;
use crate::standing::Standing;
use crate::world::World;
use crate::{frozen, guards, status};

pub(super) fn plan(
    world: &World,
    checked: &Checked,
    sight: &Sight,
    now: Timestamp,
) -> Plan<Action> {
    let Some(read) = &world.learned.doomed else {
        return Plan::act(Action::Doom);
    };
    let targets = status::in_order(world, &sight.targets, read);
    let doomed = match frozen::plan(targets, world.uid()) {
        Ok(doomed) => doomed,
        Err(problem) => return unresolved(world, checked, &problem, now),
    };
    let next = Next::Look(period(world, checked, sight));
    let excluded = &world.settings.excluded_namespaces;
    if let Some(refusal) = guards::refusal(&doomed, &checked.deletion, excluded) {
        return rest(world, &Standing::Refused(&refusal), next, now);
    }
    let objects: Vec<PlannedObject> = doomed.into_iter().map(|it| it.planned).collect();
    let notice = report::triggered(world, &objects, checked);
    let dry_run = checked.is_dry_run.then(|| dry_run(&objects, checked));
    let progress = DeletionProgress {
        phase: DeletionPhase::Targets,
        phase_started_at: MicroTime(status::micros(now)),
        objects,
        helm: checked.helm.as_ref().map(uninstallation),
        event: checked.sink.as_ref().map(|_| DeliveryProgress::default()),
    };
    let status = status::committed(world, sight, progress, now);
    // Before the finalizer is set: with one, a deletion by a user would wait for us.
    if let Some(refusal) = guards::too_large(world, &status) {
        return rest(world, &Standing::Refused(&refusal), next, now);
    }
    if let Some(message) = dry_run {
        return rest(world, &Standing::DryRun(&message), next, now);
    }
    if !world.has_finalizer() {
        return marked(world);
    }
    Plan::act(Action::Commit(Box::new(status))).with_notices([notice])
}

fn uninstallation(helm: &CheckedHelm) -> HelmProgress {
    HelmProgress {
        release: helm.release.clone(),
        step: HelmStep::PreDeleteHooks,
        revision: None,
        uid: None,
        hooks_done: 0,
        objects_done: 0,
        objects_failed: 0,
        hook: None,
        kept: None,
        skipped: None,
        message: None,
    }
}

/// What would be deleted.
fn dry_run(objects: &[PlannedObject], checked: &Checked) -> String {
    let mut message = format!(
        "all conditions are true; {} would be deleted, but spec.dryRun is true",
        report::counted(objects)
    );
    if let Some(helm) = &checked.helm {
        message += &format!("; the Helm release {} would be uninstalled", helm.release);
    }
    if checked.sink.is_some() {
        message += "; a CloudEvent would be sent";
    }
    message
}
