//! How much one run may do.

use super::{Insert, Remove, Set, begin, kind, make};
use crate::{Access, EditError, LimitExceeded, Limits};

#[track_caller]
fn check(limits: Limits, calls: &[super::Call<'_>], expected: LimitExceeded) {
    let mut transaction = begin(Access {
        limits,
        ..Access::unrestricted()
    });
    let (last, before) = calls.split_last().unwrap();
    for call in before {
        assert_eq!(kind(&make(&mut transaction, *call)), "fine", "{call:?}");
    }
    assert_eq!(
        make(&mut transaction, *last),
        Err(EditError::Limit(expected))
    );
    assert_eq!(transaction.rollback(), super::pod());
}

#[test]
fn writes_are_counted_even_if_they_change_nothing() {
    let limits = Limits {
        writes: 3,
        ..Limits::default()
    };
    let idle = Set("/metadata/labels/app", "\"web\"");
    check(
        limits,
        &[
            idle,
            Remove("/spec/volumes"),
            Insert("/spec/containers/0", "{}"),
            idle,
        ],
        LimitExceeded::Writes(3),
    );
}

#[test]
fn written_bytes_are_those_of_paths_and_values() {
    let limits = Limits {
        written_bytes: 40,
        ..Limits::default()
    };
    let write = Set("/spec/nodeName", "\"12\"");
    check(
        limits,
        &[write, write, write],
        LimitExceeded::WrittenBytes(40),
    );
}

#[test]
fn paths_are_no_longer_than_the_limit() {
    let limits = Limits {
        path_bytes: 10,
        ..Limits::default()
    };
    check(
        limits,
        &[Remove("/spec/hostNetwork")],
        LimitExceeded::PathBytes(10),
    );
    let transaction = begin(Access {
        limits,
        ..Access::unrestricted()
    });
    let limit = EditError::Limit(LimitExceeded::PathBytes(10));
    assert_eq!(transaction.get("/spec/hostNetwork"), Err(limit.clone()));
    assert_eq!(transaction.keys("/spec/hostNetwork"), Err(limit));
    assert_eq!(kind(&transaction.get("/spec/host")), "fine");
}

#[test]
fn depth_counts_from_the_root() {
    let limits = Limits {
        value_depth: 5,
        ..Limits::default()
    };
    let fits = Set("/spec/new/a", "[[1]]");
    check(
        limits,
        &[fits, Set("/spec/new/b", "[[[1]]]")],
        LimitExceeded::Depth(5),
    );
    check(
        limits,
        &[Set("/spec/new/a/b/c/d", "1")],
        LimitExceeded::Depth(5),
    );
    let hostile = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    check(
        Limits::default(),
        &[Set("/spec/new", &hostile)],
        LimitExceeded::Depth(64),
    );
    let parsed = format!("{}{}", "[".repeat(100), "]".repeat(100));
    check(
        Limits::default(),
        &[Set("/spec/new", &parsed)],
        LimitExceeded::Depth(64),
    );
    let unfinished = "{\"a\":".repeat(100_000);
    check(
        Limits::default(),
        &[Set("/spec/new", &unfinished)],
        LimitExceeded::Depth(64),
    );
}

#[test]
fn brackets_in_strings_are_not_depth() {
    let text = format!("\"{}\\\"{}\" x", "[".repeat(200), "[".repeat(200));
    let outcome = make(&mut begin(Access::unrestricted()), Set("/spec/new", &text));
    assert_eq!(kind(&outcome), "invalid value");
}

#[test]
fn the_pod_grows_no_larger_than_the_limit() {
    let limit = super::pod().to_string().len() + 1000;
    let limits = Limits {
        pod_bytes: limit,
        ..Limits::default()
    };
    let long = format!("\"{}\"", "x".repeat(600));
    let calls = [
        Set("/spec/a", &long),
        Remove("/spec/a"),
        Set("/spec/a", &long),
        Set("/spec/b", &long),
    ];
    check(limits, &calls, LimitExceeded::PodBytes(limit));
}

#[test]
fn a_limit_tells_itself() {
    for (limit, text) in [
        (LimitExceeded::Writes(1), "more than 1 writes in one run"),
        (
            LimitExceeded::WrittenBytes(1),
            "more than 1 bytes written in one run",
        ),
        (LimitExceeded::PathBytes(1), "a path of more than 1 bytes"),
        (
            LimitExceeded::Depth(1),
            "a value that would nest the pod more than 1 levels deep",
        ),
        (LimitExceeded::PodBytes(1), "a pod of more than 1 bytes"),
    ] {
        assert_eq!(EditError::Limit(limit).to_string(), text);
    }
}

/// The host moves a run into a Wasm store, on another thread.
#[test]
fn a_run_can_be_moved_anywhere() {
    fn check<T: Send + 'static>(transaction: T) -> T {
        transaction
    }
    let transaction = check(begin(Access::unrestricted()));
    assert_eq!(transaction.rollback(), super::pod());
}
