use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use podloom_engine::plan::later;

use crate::probed::{Basis, Found, Probe, Probes, changed_to_false, next_probe, next_quotas};
use crate::resolve::SecretKey;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn basis(version: &str) -> Basis {
    let secret = SecretKey {
        namespace: "team".to_owned(),
        name: "im".to_owned(),
    };
    Basis {
        generations: vec![Some(1)],
        secrets: BTreeMap::from([(secret, Some(version.to_owned()))]),
        is_provider_ready: true,
    }
}

#[test]
fn a_probe_is_due_at_its_time_or_when_a_secret_changes() {
    let probe = Probe {
        found: (),
        basis: basis("1"),
        due: later(NOW, Duration::from_mins(1)),
    };
    assert!(!probe.is_due(&basis("1"), NOW));
    assert!(probe.is_due(&basis("1"), later(NOW, Duration::from_mins(1))));
    assert!(probe.is_due(&basis("2"), NOW));
}

/// How long it is until a time, in seconds.
fn seconds(until: Timestamp) -> i64 {
    until.as_second() - NOW.as_second()
}

#[test]
fn what_is_wrong_is_probed_sooner() {
    assert!((60..=66).contains(&seconds(next_probe(NOW, true))));
    assert!((15..=17).contains(&seconds(next_probe(NOW, false))));
}

#[test]
fn many_clouds_of_one_provider_are_asked_less_often() {
    assert!((300..=330).contains(&seconds(next_quotas(NOW, 1, true))));
    assert!((5000..=5500).contains(&seconds(next_quotas(NOW, 1000, true))));
}

fn condition(status: &str, reason: &str) -> Vec<Condition> {
    vec![Condition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: Time(NOW),
        observed_generation: None,
    }]
}

#[test]
fn each_reason_is_said_once() {
    let found = Found::No("Unreachable", "no answer".to_owned());
    let is_said =
        |before: &Vec<Condition>| changed_to_false(Some(before), "Ready", &found).is_some();
    assert!(is_said(&condition("True", "Ready")));
    assert!(is_said(&condition("False", "CredentialsRejected")));
    assert!(!is_said(&condition("False", "Unreachable")));
    assert!(changed_to_false(None, "Ready", &found).is_some());
    assert!(changed_to_false(None, "Ready", &Found::Yes).is_none());
}

#[test]
fn probes_of_objects_that_are_gone_are_forgotten() {
    let probes = Probes::default();
    let probe = Probe {
        found: 1,
        basis: basis("1"),
        due: NOW,
    };
    probes.put("a", probe.clone());
    probes.put("b", probe);
    probes.keep(|uid| uid == "b");
    assert!(probes.get("a").is_none());
    assert!(probes.get("b").is_some());
}
