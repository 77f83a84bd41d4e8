//! What to do next about a Browser.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use podloom_api::{BrowserObject, BrowserStatus, names};
use podloom_engine::events::Notice;
use podloom_engine::plan::{Plan, Then, later};
use podloom_engine::write::MetadataPatch;

use super::action::{Action, StatusWrite};
use super::cause::Cause;
use super::confirm::confirmed;
use super::end::{plan_deleted, plan_ended};
use super::failure::{self, Unready};
use super::judge::{Verdict, judge};
use super::render::browser_labels;
use super::status::status;
use super::timeouts::Timeouts;
use super::world::World;

/// How long a pod must have been ready for a warning when it no longer is: a probe that flaps would warn each time. The
/// conditions show every change.
const SETTLED: Duration = Duration::from_secs(30);
/// How often to look at a pod that the watch does not show, such as one without our label.
const UNWATCHED: Duration = Duration::from_secs(5);

/// Decides the next step for a Browser, from its world alone.
pub(crate) fn plan(world: &World, timeouts: &Timeouts, now: Timestamp) -> Plan<Action> {
    let mut plan = confirmed(world, next_step(world, timeouts, now));
    if plan.action.is_none() && world.own_pod().is_some() && !world.pod_is_watched {
        plan.then = plan.then.by(later(now, UNWATCHED));
    }
    plan
}

fn next_step(world: &World, timeouts: &Timeouts, now: Timestamp) -> Plan<Action> {
    if world.is_deleted() {
        return plan_deleted(world, timeouts, now);
    }
    if world.is_over() {
        return plan_ended(world, timeouts, now);
    }
    if world.learned.metadata_rejected.is_none()
        && let Some(patch) = missing_metadata(&world.browser)
    {
        return Plan::act(Action::SetMetadata(patch));
    }
    let verdict = judge(world, timeouts, now);
    match verdict {
        Verdict::Create(pod) => {
            let created = format!("created pod {}", world.name());
            return Plan::act(Action::CreatePod(pod))
                .with_notices([Notice::normal(names::reason::POD_CREATED, created)]);
        }
        Verdict::Goes => return Plan::act(Action::Delete),
        _ => {}
    }
    let wanted = status(world, &verdict, now);
    if Some(&wanted) != world.status() {
        let notice = notice(world, &verdict, now);
        let (end, then) = match verdict {
            // Clients have to see how the session ended before the Browser goes. The event of this write starts the next pass.
            Verdict::Ended(cause) => (Some(cause), Then::Change),
            _ => (None, Then::GoOn),
        };
        let write = StatusWrite {
            status: wanted,
            end,
        };
        let plan = Plan::act(Action::WriteStatus(Box::new(write))).with_notices(notice);
        return Plan { then, ..plan };
    }
    Plan::wait(next(&verdict))
}

/// The finalizer and the three labels, if any is missing.
pub(crate) fn missing_metadata(browser: &BrowserObject) -> Option<MetadataPatch> {
    let metadata = &browser.metadata;
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    let has_ours = finalizers
        .iter()
        .any(|name| name == names::finalizer::BROWSER);
    let finalizers = (!has_ours).then(|| {
        let mut finalizers = finalizers.to_vec();
        finalizers.push(names::finalizer::BROWSER.to_owned());
        finalizers
    });
    let has = |key: &str, value: &String| {
        let labels = metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(key)) == Some(value)
    };
    let name = metadata.name.as_deref().unwrap_or_default();
    let labels: BTreeMap<&'static str, String> = browser_labels(name, &browser.spec)
        .into_iter()
        .filter(|(key, value)| !has(key, value))
        .collect();
    (finalizers.is_some() || !labels.is_empty()).then_some(MetadataPatch { finalizers, labels })
}

/// The Event that a change of the status is worth.
fn notice(world: &World, verdict: &Verdict, now: Timestamp) -> Option<Notice> {
    match verdict {
        Verdict::Starts { .. } | Verdict::Runs => disturbance(world, now),
        Verdict::Waits {
            cause: Cause::Unconfigured(_),
            ..
        } => None,
        Verdict::Waits { cause, .. } | Verdict::Ended(cause) => Some(cause.notice()),
        Verdict::Create(_) | Verdict::Goes => None,
    }
}

/// Warns of a disruption of a pod, or that it is not ready, unless the status said so before.
fn disturbance(world: &World, now: Timestamp) -> Option<Notice> {
    let pod = world.own_pod()?;
    let published = |type_| condition(world.status(), type_).filter(|one| is_true(one));
    if let Some(disruption) = failure::of_disruption(pod)
        && published(names::condition::DISRUPTION_TARGET).is_none()
    {
        return Some(Cause::Disrupted(disruption).notice());
    }
    let ready = published(names::condition::READY)?;
    let unready = failure::unready(pod)?;
    let settled = later(ready.last_transition_time.0, SETTLED);
    (unready == Unready::NodeLost || now >= settled).then(|| unready.notice())
}

fn condition<'a>(status: Option<&'a BrowserStatus>, type_: &str) -> Option<&'a Condition> {
    let conditions = status?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

fn is_true(condition: &Condition) -> bool {
    condition.status == "True"
}

fn next(verdict: &Verdict) -> Then {
    match verdict {
        Verdict::Waits {
            cause: Cause::Unconfigured(_),
            until,
        }
        | Verdict::Starts { until } => Then::At(*until),
        Verdict::Waits { cause, until } => Then::Retry {
            reason: cause.event(),
            message: cause.to_string(),
            until: *until,
        },
        _ => Then::Change,
    }
}

#[cfg(test)]
mod tests;
