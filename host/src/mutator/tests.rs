use std::sync::Arc;
use std::time::SystemTime;

use podloom_controllers::Refusal;
use podloom_mutators::{FailedReload, Failure, LoadError, RejectionCause, Serving};

use super::{no_chain, refusal};

#[track_caller]
fn check(cause: RejectionCause, expected: &Refusal) {
    assert_eq!(refusal(cause), *expected);
}

#[test]
fn what_the_chain_rejects_is_denied_or_broken() {
    let plugin = || "hardening".to_owned();
    check(
        RejectionCause::Denied {
            plugin: plugin(),
            reason: "container browser runs as root".to_owned(),
        },
        &Refusal::Denied("hardening: container browser runs as root".to_owned()),
    );
    check(
        RejectionCause::Failed {
            plugin: plugin(),
            failure: Failure::StackExhausted,
        },
        &Refusal::Broken("hardening: it exhausted its call stack".to_owned()),
    );
    check(
        RejectionCause::NotAPod("it is not an object"),
        &Refusal::Broken("not a pod: it is not an object".to_owned()),
    );
}

#[test]
fn without_a_chain_the_reason_is_told() {
    let told = |serving: &Serving| match no_chain(serving) {
        Refusal::Broken(reason) => reason,
        other => panic!("{other:?}"),
    };
    let error = LoadError::Broken {
        directory: "/plugins".into(),
        message: "out of threads".to_owned(),
    };
    let refused = Serving {
        failed: Some(FailedReload {
            at: SystemTime::UNIX_EPOCH,
            error: Arc::new(error),
        }),
        ..Serving::default()
    };
    assert_eq!(
        told(&refused),
        "no plugin chain is loaded: /plugins: building the chain broke: out of threads"
    );
    assert_eq!(
        told(&Serving::default()),
        "no plugin chain is loaded: it is being compiled"
    );
}
