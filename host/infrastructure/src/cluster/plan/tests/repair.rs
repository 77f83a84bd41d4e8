use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::cluster::durable::Change;
use crate::cluster::memory::{Known, Shortage};
use crate::cluster::step::{Deadline, Remedy, remedy};
use crate::im::{ImState, Reading};

#[track_caller]
fn check(state: ImState, machines: usize, ahead: Remedy, passed: Remedy) {
    let vms = (0..machines).map(|number| (number.to_string(), state));
    let reading = Reading {
        state,
        vms: BTreeMap::from_iter(vms),
    };
    let nothing = Known::default();
    assert_eq!(remedy(&reading, &nothing, Deadline::Ahead), ahead);
    assert_eq!(remedy(&reading, &nothing, Deadline::Passed), passed);
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
fn configured_machines_may_lack_something() {
    let reading = Reading {
        state: ImState::Configured,
        vms: BTreeMap::new(),
    };
    let check = |lack: Known, expected: Remedy| {
        assert_eq!(remedy(&reading, &lack, Deadline::Ahead), expected);
    };
    let resend = Remedy::Send(Change::Resend);
    let no_template = Known {
        has_no_template: true,
        ..Known::default()
    };
    check(no_template, resend);
    for (shortage, expected) in [
        (Shortage::Seen(Timestamp::UNIX_EPOCH), Remedy::Wait),
        (Shortage::Found, resend),
        (Shortage::Sent, Remedy::None),
        (Shortage::Accepted(1), Remedy::None),
    ] {
        let lack = Known {
            shortage,
            ..Known::default()
        };
        check(lack, expected);
    }
}
