use podloom_controllers::Refusal;
use podloom_mutators::{Failure, Rejected};

use super::{no_chain, refusal};

#[track_caller]
fn check(rejected: Rejected, expected: &Refusal) {
    assert_eq!(refusal(rejected), *expected);
}

#[test]
fn what_the_chain_rejects_is_denied_or_broken() {
    let plugin = || "hardening".to_owned();
    check(
        Rejected::Denied {
            plugin: plugin(),
            reason: "container browser runs as root".to_owned(),
        },
        &Refusal::Denied("hardening: container browser runs as root".to_owned()),
    );
    check(
        Rejected::Failed {
            plugin: plugin(),
            failure: Failure::StackExhausted,
        },
        &Refusal::Broken("hardening: it exhausted its call stack".to_owned()),
    );
    check(
        Rejected::NotAPod("it is not an object"),
        &Refusal::Broken("not a pod: it is not an object".to_owned()),
    );
}

#[test]
fn without_a_chain_the_reason_is_told() {
    assert_eq!(
        no_chain(Some("plugins: no such directory")),
        Refusal::Broken("no plugin chain is loaded: plugins: no such directory".to_owned())
    );
    assert_eq!(
        no_chain(None),
        Refusal::Broken("no plugin chain is loaded: it is being compiled".to_owned())
    );
}
