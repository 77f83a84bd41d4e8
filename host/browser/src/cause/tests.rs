mod failure;

use std::time::Duration;

use podloom_api::Phase;
use podloom_mutation::Severity;

use super::{Cause, Disruption, Exit, condition_reason, go_duration};
use crate::render::{Missing, ResolveError};

/// What clients read of a cause: phase and reason of the status, the Event's type and reason, and the message.
#[track_caller]
fn check(cause: &Cause, expected: &str) {
    let notice = cause.notice();
    let message = cause.to_string();
    let read = format!(
        "{} {}, {:?} {}: {message}",
        cause.phase().as_str(),
        cause.reason(),
        notice.severity,
        notice.reason,
    );
    assert_eq!(read, expected);
    assert_eq!(notice.note, format!("{}: {message}", cause.reason()));
    let is_normal = notice.severity == Severity::Normal;
    assert_eq!(is_normal, cause.phase() == Phase::Succeeded);
}

#[test]
fn a_missing_configuration_and_an_invalid_one_have_events_of_their_own() {
    check(
        &Cause::from(&ResolveError::NotFound(Missing::Configs)),
        "Failed BrowserPodSpec, Warning ConfigNotFound: Browser configuration not found: the namespace has no BrowserConfig",
    );
    let invalid = ResolveError::Invalid {
        config: "shop".to_owned(),
        problems: vec!["volumes names cache twice, rename or remove one".to_owned()],
    };
    check(
        &Cause::from(&invalid),
        "Failed BrowserPodSpec, Warning ConfigInvalid: \
         Browser configuration shop is invalid: volumes names cache twice, rename or remove one",
    );
}

fn exit(code: i32, reason: &str) -> Exit {
    Exit {
        container: "browser".to_owned(),
        reason: reason.to_owned(),
        code,
    }
}

#[test]
fn an_exit_succeeds_only_with_code_0_and_only_while_the_pod_runs() {
    check(
        &Cause::Exited(exit(0, "Completed")),
        "Succeeded Completed, Normal Completed: container browser terminated: Completed (exit code 0)",
    );
    check(
        &Cause::Exited(exit(137, "OOMKilled")),
        "Failed OOMKilled, Warning PodFailed: container browser terminated: OOMKilled (exit code 137)",
    );
    check(
        &Cause::StartFailed(exit(1, "Error")),
        "Failed Error, Warning PodFailed: pod container browser terminated: Error (exit code 1)",
    );
}

#[test]
fn a_disruption_without_a_sentence_is_told_by_its_reason_alone() {
    let disruption = |message: &str| {
        Cause::Disrupted(Disruption {
            reason: "PreemptionByScheduler".to_owned(),
            message: message.to_owned(),
        })
    };
    check(
        &disruption(""),
        "Failed PreemptionByScheduler, Warning PodDisrupted: pod disrupted: PreemptionByScheduler",
    );
    check(
        &disruption("no room"),
        "Failed PreemptionByScheduler, Warning PodDisrupted: pod disrupted: PreemptionByScheduler - no room",
    );
}

/// Conditions take CamelCase words alone.
#[test]
fn a_reason_that_is_no_word_becomes_one_in_conditions() {
    let failed = |reason: &str| {
        let cause = Cause::PodFailed {
            reason: reason.to_owned(),
            message: "why".to_owned(),
        };
        (cause.reason().to_owned(), condition_reason(cause.reason()))
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(failed("Evicted"), pair("Evicted", "Evicted"));
    assert_eq!(failed("out of disk"), pair("out of disk", "outofdisk"));
    assert_eq!(failed("137"), pair("137", "PodFailed"));
}

#[track_caller]
fn check_duration(millis: u64, expected: &str) {
    assert_eq!(go_duration(Duration::from_millis(millis)), expected);
}

#[test]
fn durations_are_printed_as_go_does() {
    check_duration(300_000, "5m0s");
    check_duration(3_000, "3s");
    check_duration(90_000, "1m30s");
    check_duration(3_661_000, "1h1m1s");
    check_duration(500, "500ms");
}
