//! The checks behind /readyz and /healthz.

use futures::FutureExt;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use podloom_controllers::duties::{Chain, Switch};

use super::state::{Access, DutyState, Lack, OperatorState, Role};
use crate::mutator::NoChainPolicy;

/// How long after the end of its Lease a leader may still work before it counts as stuck. A healthy leader stops its work before the
/// Lease ends.
const STUCK: Duration = Duration::from_secs(10);

/// One readiness check.
pub(super) struct Check {
    pub(super) name: String,
    /// Details if it passed, the reason if it failed.
    pub(super) result: Result<String, String>,
}

/// All checks: those of the process first, then those of each duty.
pub(super) fn checks(state: &OperatorState) -> Vec<Check> {
    let mut checks = of_process(state, state.needs_chain());
    checks.extend(state.duties.iter().flat_map(|duty| of_duty(state, duty)));
    remember(state, &checks, state.duties.iter().map(Arc::as_ref));
    checks
}

/// The checks that one duty needs.
pub(super) fn checks_of(state: &OperatorState, duty: &DutyState) -> Vec<Check> {
    let mut checks = of_process(state, duty.row.chain == Chain::Needed);
    checks.extend(of_duty(state, duty));
    remember(state, &checks, [duty].into_iter());
    checks
}

/// Remembers which duties were ready with what was first loaded. From then on they get requests, and all of them would miss a replica
/// that says it is not.
fn remember<'a>(
    state: &OperatorState,
    checks: &[Check],
    duties: impl Iterator<Item = &'a DutyState>,
) {
    let serving = state.slot.serving();
    let has_loaded = serving.chain.is_some() || serving.failed.is_some();
    if has_loaded && is_ready(checks) {
        duties.for_each(|duty| duty.was_ready.store(true, Ordering::Relaxed));
    }
}

fn of_process(state: &OperatorState, needs_chain: bool) -> Vec<Check> {
    let mut checks = vec![check("running", running(state))];
    if needs_chain {
        checks.push(check("chain", chain(state)));
        checks.extend(state.follower.iter().map(|follower| {
            let known = follower.is_known().then(|| "known".to_owned());
            let known = known.ok_or_else(|| {
                "waits for the candidate and for the ChainRollouts of the operator's namespace"
                    .to_owned()
            });
            check("rollout", known)
        }));
    }
    checks
}

fn of_duty(state: &OperatorState, duty: &DutyState) -> Vec<Check> {
    let name = |check: &str| format!("{}/{check}", duty.row.name);
    if duty.row.switch != Switch::Controllers {
        // Every replica answers reviews, also while the API server that it would ask for rights is down.
        let certificate = state.certificate.as_ref();
        let certificate =
            certificate.map_or_else(|| Ok("not used".to_owned()), |slot| slot.status());
        // What is not known would be denied.
        let is_known = state
            .exceptions
            .as_ref()
            .and_then(|it| it.filled(None).now_or_never());
        let exceptions = is_known.map(|()| "known".to_owned());
        return vec![
            check(&name("certificate"), certificate),
            check(&name("rights"), webhook_rights(state, duty)),
            check(
                &name("exceptions"),
                exceptions.ok_or_else(|| "waits for the first list of ChainExceptions".to_owned()),
            ),
        ];
    }
    [
        (
            "cluster",
            cluster(&duty.access.borrow(), &duty.lacks.borrow()),
        ),
        ("leader", leader(&duty.role.borrow())),
        ("caches", caches(&duty.caches.awaited())),
    ]
    .map(|(of, result)| check(&name(of), result))
    .into()
}

fn check(name: &str, result: Result<String, String>) -> Check {
    Check {
        name: name.to_owned(),
        result,
    }
}

/// One line per check, in the format of the API server's own /readyz?verbose.
pub(super) fn show(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let _infallible = match &check.result {
            Ok(details) => writeln!(text, "[+]{} ok: {details}", check.name),
            Err(reason) => writeln!(text, "[-]{} failed: {reason}", check.name),
        };
    }
    let end = if is_ready(checks) { "passed" } else { "failed" };
    let _infallible = writeln!(text, "readyz check {end}");
    text
}

pub(super) fn is_ready(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.result.is_ok())
}

/// Whether the process itself works, whatever the state of the cluster. If it fails, only a restart helps.
///
/// A follower is alive, and so is a leader that lost its Lease and stopped its work.
pub(super) fn alive(state: &OperatorState) -> Result<(), String> {
    state.duties.iter().try_for_each(|duty| is_not_stuck(duty))
}

fn is_not_stuck(duty: &DutyState) -> Result<(), String> {
    let Some(renewed) = *duty.renewed.borrow() else {
        return Ok(());
    };
    let since = renewed.at.elapsed();
    if since <= renewed.good_for + STUCK {
        return Ok(());
    }
    Err(format!(
        "stuck: the Lease of duty {} was last renewed {} s ago, and its controllers still run",
        duty.row.name,
        since.as_secs()
    ))
}

fn running(state: &OperatorState) -> Result<String, String> {
    if state.stop.is_cancelled() {
        return Err("stopping".to_owned());
    }
    Ok("not stopping".to_owned())
}

fn chain(state: &OperatorState) -> Result<String, String> {
    let serving = state.slot.serving();
    let failed = serving.failed.as_ref();
    let error = failed.map(|failed| failed.error.to_string());
    match (&serving.chain, error, state.no_chain_policy) {
        (Some(chain), None, _) => Ok(chain.digest().to_owned()),
        (Some(chain), Some(error), _) => Ok(format!(
            "{}; the current content of the plugin directory is rejected: {error}",
            chain.digest()
        )),
        (None, error, NoChainPolicy::PassThrough) => Ok(match error {
            None => "none, so pods are created as rendered".to_owned(),
            Some(error) => format!("none, so pods are created as rendered: {error}"),
        }),
        (None, None, NoChainPolicy::Reject) => Err("it is still being compiled".to_owned()),
        (None, Some(error), NoChainPolicy::Reject) => Err(error),
    }
}

/// What helps if rights are missing.
pub(super) const APPLY_ROLES: &str = "apply the roles that `podloom rbac` prints";

/// What the rights of the webhooks are like. They are served whatever is missing. But a new replica that never had the rights for labels
/// would only refuse the pods of workloads, so no rollout goes on with it. One that was ready stays so: a chain that is loaded later must
/// not take all replicas away.
fn webhook_rights(state: &OperatorState, duty: &DutyState) -> Result<String, String> {
    let rights = cluster(&duty.access.borrow(), &duty.lacks.borrow());
    let rights = rights.unwrap_or_else(|reason| reason);
    let serving = state.slot.serving();
    let writes_labels = serving.chain.as_ref().is_some_and(|it| it.writes_labels());
    let is_short = writes_labels && !duty.had_label_rights.load(Ordering::Relaxed);
    if !is_short {
        return Ok(rights);
    }
    let reason = format!(
        "the chain may write labels, and this replica never had the right to read owners of pods: {APPLY_ROLES}; {rights}"
    );
    match duty.was_ready.load(Ordering::Relaxed) {
        true => Ok(reason),
        false => Err(reason),
    }
}

fn cluster(access: &Access, lacks: &[Lack]) -> Result<String, String> {
    match access {
        Access::Unknown => Err("not checked yet".to_owned()),
        Access::Unanswered(reason) => Err(reason.clone()),
        Access::Lacking(reasons) => Err(reasons.join("; ")),
        Access::Granted if lacks.is_empty() => {
            Ok("all kinds are served and all rights granted".to_owned())
        }
        Access::Granted => {
            let lacks = lacks
                .iter()
                .map(|lack| format!("{}; without it, {}", lack.reason, lack.without));
            let lacks: Vec<String> = lacks.collect();
            Ok(format!(
                "all kinds are served and all required rights granted; {}",
                lacks.join("; ")
            ))
        }
    }
}

fn leader(role: &Role) -> Result<String, String> {
    match role {
        Role::Undecided => Err("no election yet".to_owned()),
        Role::Follower(leader) => Ok(format!("standing by for {leader}")),
        Role::Leader => Ok("this replica is the leader".to_owned()),
        Role::Alone => Ok("leader election is disabled".to_owned()),
    }
}

fn caches(awaited: &[String]) -> Result<String, String> {
    match awaited {
        [] => Ok("all caches synced".to_owned()),
        awaited => Err(format!("not synced yet: {}", awaited.join(", "))),
    }
}
