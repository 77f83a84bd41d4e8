use std::collections::BTreeMap;

use super::{Deadline, Remedy, remedy};
use crate::infrastructure::cluster::change::Change;
use crate::infrastructure::im::{ImState, Reading};

#[track_caller]
fn check(state: ImState, machines: usize, ahead: Remedy, passed: Remedy) {
    let vms = (0..machines).map(|number| (number.to_string(), state));
    let reading = Reading {
        state,
        vms: BTreeMap::from_iter(vms),
    };
    assert_eq!(remedy(&reading, false, Deadline::Ahead), ahead);
    assert_eq!(remedy(&reading, false, Deadline::Passed), passed);
}

#[test]
fn each_state_has_its_remedy() {
    let resend = Remedy::Send(Change::Resend);
    let reconfigure = Remedy::Send(Change::Reconfigure);
    let start = Remedy::Send(Change::Start);
    check(ImState::Configured, 1, Remedy::None, Remedy::None);
    check(ImState::Pending, 1, Remedy::Wait, resend);
    check(ImState::Running, 1, Remedy::Wait, reconfigure);
    check(ImState::Unconfigured, 1, reconfigure, reconfigure);
    check(ImState::Failed, 1, resend, resend);
    check(ImState::Failed, 0, resend, resend);
    check(ImState::Stopped, 1, start, start);
    check(ImState::Off, 1, start, start);
    check(ImState::Unknown, 0, resend, resend);
    check(ImState::Unknown, 1, Remedy::Wait, resend);
    check(ImState::Deleting, 1, Remedy::Wait, resend);
}

#[test]
fn an_infrastructure_without_a_template_gets_it_again() {
    let reading = Reading {
        state: ImState::Configured,
        vms: BTreeMap::new(),
    };
    let found = remedy(&reading, true, Deadline::Ahead);
    assert_eq!(found, Remedy::Send(Change::Resend));
}
