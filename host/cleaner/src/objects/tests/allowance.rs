use podloom_turns::lock;
use serde_json::json;

use super::super::{Allowance, OF_ONE_NAMESPACE, TOTAL, weight};
use crate::discovery::FailureKind;

#[test]
fn small_texts_can_be_large() {
    // Such an object has a few bytes of text, and a node of a tree of its own.
    let maps = format!("[{}0]", "{\"a\":0},".repeat(1000));
    assert!(weight(maps.as_bytes()) > 1000 * 700);
    let pod = json!({ "metadata": { "name": "a" }, "spec": { "containers": [{ "name": "a" }] } });
    assert!((2000..6000).contains(&weight(pod.to_string().as_bytes())));
}

#[test]
fn one_namespace_leaves_half_to_the_others() {
    let allowance = Allowance::new();
    let mut shares: Vec<_> = (0..3).map(|_| allowance.share("a")).collect();
    let half = OF_ONE_NAMESPACE / 2;
    assert_eq!(shares[0].take(half), Ok(()));
    assert_eq!(shares[1].take(half), Ok(()));
    assert_eq!(shares[2].take(half), Err(FailureKind::Transient));
    let mut other = allowance.share("b");
    assert_eq!(other.take(OF_ONE_NAMESPACE), Ok(()));
    // All is taken.
    assert_eq!(TOTAL, 2 * OF_ONE_NAMESPACE);
    let mut late = allowance.share("c");
    assert_eq!(late.take(1000), Err(FailureKind::Transient));
    drop(shares);
    assert_eq!(late.take(1000), Ok(()));
}

#[test]
fn what_is_dropped_is_free_again() {
    let allowance = Allowance::new();
    for _ in 0..100 {
        let mut share = allowance.share("a");
        assert_eq!(share.take(OF_ONE_NAMESPACE), Ok(()));
        assert_eq!(share.take(1000), Err(FailureKind::TooLong));
    }
    assert!(lock(&allowance.taken).is_empty());
}

/// It is no use to try it again.
#[test]
fn a_target_that_never_fits_is_too_large() {
    let allowance = Allowance::new();
    let mut share = allowance.share("a");
    assert_eq!(share.take(OF_ONE_NAMESPACE + 1), Err(FailureKind::TooLong));
}
