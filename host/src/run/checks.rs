//! Whether the operator is ready, check by check.

use std::fmt::Write;
use std::time::Duration;

use podloom_controllers::duties::Chain;

use super::state::{Access, DutyState, Role, State};
use crate::mutator::WithoutChain;

/// How much longer than its Lease a leader may be without a renewal. It drops its work before the Lease ends, so one that has not
/// done it by then is stuck.
const STUCK: Duration = Duration::from_secs(10);

/// One thing that has to hold.
pub(super) struct Check {
    name: String,
    /// How it is, or what is missing.
    told: Result<String, String>,
}

/// Looks at everything that makes the operator ready: what all duties need, and then what each of them needs.
pub(super) fn checks(state: &State) -> Vec<Check> {
    let mut checks = of_process(state, state.needs_chain());
    checks.extend(state.duties.iter().flat_map(|duty| of_duty(duty)));
    checks
}

/// Looks at what one duty needs.
pub(super) fn checks_of(state: &State, duty: &DutyState) -> Vec<Check> {
    let mut checks = of_process(state, duty.row.chain == Chain::Needed);
    checks.extend(of_duty(duty));
    checks
}

fn of_process(state: &State, needs_chain: bool) -> Vec<Check> {
    let mut checks = vec![check("running", running(state))];
    if needs_chain {
        checks.push(check("chain", chain(state)));
    }
    checks
}

fn of_duty(duty: &DutyState) -> [Check; 3] {
    [
        ("cluster", cluster(&duty.access.borrow())),
        ("leader", leader(&duty.role.borrow())),
        ("caches", caches(&duty.caches.awaited())),
    ]
    .map(|(name, told)| check(&format!("{}/{name}", duty.row.name), told))
}

fn check(name: &str, told: Result<String, String>) -> Check {
    Check {
        name: name.to_owned(),
        told,
    }
}

/// A line for each check, as the API server's own /readyz?verbose has them.
pub(super) fn show(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let _infallible = match &check.told {
            Ok(how) => writeln!(text, "[+]{} ok: {how}", check.name),
            Err(why) => writeln!(text, "[-]{} failed: {why}", check.name),
        };
    }
    let end = if is_ready(checks) { "passed" } else { "failed" };
    let _infallible = writeln!(text, "readyz check {end}");
    text
}

pub(super) fn is_ready(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.told.is_ok())
}

/// Whether the process works, however the cluster is. If not, a restart is what helps.
///
/// A follower, and a leader that could not renew its Lease and has dropped its work, are fine.
pub(super) fn alive(state: &State) -> Result<(), String> {
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
        "stuck: the Lease of the duty {} was last renewed {} s ago, and its controllers still run",
        duty.row.name,
        since.as_secs()
    ))
}

fn running(state: &State) -> Result<String, String> {
    if state.stop.is_cancelled() {
        return Err("stopping".to_owned());
    }
    Ok("not stopping".to_owned())
}

fn chain(state: &State) -> Result<String, String> {
    let serving = state.slot.serving();
    let failed = serving.failed.as_ref();
    let error = failed.map(|failed| failed.error.to_string());
    match (&serving.chain, error, state.without_chain) {
        (Some(chain), None, _) => Ok(chain.digest().to_owned()),
        (Some(chain), Some(error), _) => Ok(format!(
            "{}; what is in the directory now is refused: {error}",
            chain.digest()
        )),
        (None, error, WithoutChain::Pass) => Ok(match error {
            None => "none, pods are created as they are rendered".to_owned(),
            Some(error) => format!("none, pods are created as they are rendered: {error}"),
        }),
        (None, None, WithoutChain::Refuse) => Err("it is being compiled".to_owned()),
        (None, Some(error), WithoutChain::Refuse) => Err(error),
    }
}

fn cluster(access: &Access) -> Result<String, String> {
    match access {
        Access::Unknown => Err("not looked at yet".to_owned()),
        Access::Unanswered(reason) => Err(reason.clone()),
        Access::Lacking(reasons) => Err(reasons.join("; ")),
        Access::Granted => Ok("our kinds are served, and we have the rights we need".to_owned()),
    }
}

fn leader(role: &Role) -> Result<String, String> {
    match role {
        Role::Undecided => Err("no election yet".to_owned()),
        Role::Follower(leader) => Ok(format!("standing by for {leader}")),
        Role::Leader => Ok("we lead".to_owned()),
        Role::Alone => Ok("we work without an election".to_owned()),
    }
}

fn caches(awaited: &[String]) -> Result<String, String> {
    match awaited {
        [] => Ok("all caches synced".to_owned()),
        awaited => Err(format!("not filled yet: {}", awaited.join(", "))),
    }
}
