//! Limits of one run.

use super::{Insert, Remove, Set, Transaction, begin, kind, make};
use crate::{Access, AccessLimits, EditError};

fn limited(limits: AccessLimits) -> Transaction {
    let mut access = Access::unrestricted();
    access.limits = limits;
    begin(access)
}

#[track_caller]
fn check(limits: AccessLimits, calls: &[super::Call<'_>], expected: &str) {
    let mut transaction = limited(limits);
    let (last, before) = calls.split_last().unwrap();
    for call in before {
        assert_eq!(kind(&make(&mut transaction, *call)), "fine", "{call:?}");
    }
    assert_eq!(
        make(&mut transaction, *last),
        Err(EditError::Limit(expected.to_owned()))
    );
    assert_eq!(transaction.rollback(), super::pod());
}

#[test]
fn writes_are_counted_even_if_they_change_nothing() {
    let limits = AccessLimits {
        writes: 3,
        ..AccessLimits::default()
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
        "more than 3 writes in one run",
    );
}

#[test]
fn written_bytes_are_those_of_paths_and_values() {
    let limits = AccessLimits {
        written_bytes: 40,
        ..AccessLimits::default()
    };
    let write = Set("/spec/nodeName", "\"12\"");
    check(
        limits,
        &[write, write, write],
        "more than 40 bytes written in one run",
    );
}

#[test]
fn paths_are_no_longer_than_the_limit() {
    let limits = AccessLimits {
        path_bytes: 10,
        ..AccessLimits::default()
    };
    check(
        limits,
        &[Remove("/spec/hostNetwork")],
        "a path of more than 10 bytes",
    );
    let transaction = limited(limits);
    let limit = EditError::Limit("a path of more than 10 bytes".to_owned());
    assert_eq!(transaction.get("/spec/hostNetwork"), Err(limit.clone()));
    assert_eq!(transaction.keys("/spec/hostNetwork"), Err(limit));
    assert_eq!(kind(&transaction.get("/spec/host")), "fine");
}

#[test]
fn a_path_has_no_more_segments_than_a_pod_has_levels() {
    let (fits, too_deep) = (format!("/spec{}", "/a".repeat(63)), "/a".repeat(65));
    let mut transaction = begin(Access::unrestricted());
    let reason = format!("path {too_deep:?} is invalid: it has more than 64 segments");
    assert_eq!(kind(&transaction.get(&fits)), "fine");
    assert_eq!(kind(&transaction.view("", &[&fits])), "fine");
    let outcomes = [
        transaction.get(&too_deep).map(drop),
        transaction.keys(&too_deep).map(drop),
        transaction.view("", &[&too_deep]).map(drop),
        make(&mut transaction, Set(&too_deep, "0")).map(drop),
        make(&mut transaction, Remove(&too_deep)).map(drop),
    ];
    for outcome in outcomes {
        assert_eq!(kind(&outcome), "invalid path");
        assert_eq!(outcome.unwrap_err().to_string(), reason);
    }
}

#[test]
fn depth_counts_from_the_root() {
    let limits = AccessLimits {
        value_depth: 5,
        ..AccessLimits::default()
    };
    let fits = Set("/spec/new/a", "[[1]]");
    check(
        limits,
        &[fits, Set("/spec/new/b", "[[[1]]]")],
        "a value that would nest the pod more than 5 levels deep",
    );
    check(
        limits,
        &[Set("/spec/new/a/b/c/d", "1")],
        "a value that would nest the pod more than 5 levels deep",
    );
    let hostile = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    check(
        AccessLimits::default(),
        &[Set("/spec/new", &hostile)],
        "a value that would nest the pod more than 64 levels deep",
    );
    let parsed = format!("{}{}", "[".repeat(100), "]".repeat(100));
    check(
        AccessLimits::default(),
        &[Set("/spec/new", &parsed)],
        "a value that would nest the pod more than 64 levels deep",
    );
    let unfinished = "{\"a\":".repeat(100_000);
    check(
        AccessLimits::default(),
        &[Set("/spec/new", &unfinished)],
        "a value that would nest the pod more than 64 levels deep",
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
    let limits = AccessLimits {
        pod_bytes: limit,
        ..AccessLimits::default()
    };
    let long = format!("\"{}\"", "x".repeat(600));
    let calls = [
        Set("/spec/a", &long),
        Remove("/spec/a"),
        Set("/spec/a", &long),
        Set("/spec/b", &long),
    ];
    check(limits, &calls, &format!("a pod of more than {limit} bytes"));
}

#[test]
fn reads_are_counted_whatever_they_return() {
    let limits = AccessLimits {
        reads: 4,
        ..AccessLimits::default()
    };
    let transaction = limited(limits);
    assert_eq!(kind(&transaction.get("/spec/nodeName")), "fine");
    assert_eq!(kind(&transaction.get("spec")), "invalid path");
    assert_eq!(kind(&transaction.keys("/spec")), "fine");
    assert_eq!(kind(&transaction.view("", &["/spec"])), "fine");
    let limit = Err(EditError::Limit("more than 4 reads in one run".to_owned()));
    assert_eq!(transaction.keys("/spec").map(drop), limit);
    assert_eq!(transaction.view("", &["/spec"]).map(drop), limit);
    assert_eq!(transaction.reads(), 6);
}

#[test]
fn read_bytes_are_those_of_the_results() {
    let limits = AccessLimits {
        read_bytes: 20,
        ..AccessLimits::default()
    };
    let transaction = limited(limits);
    for _ in 0..2 {
        assert_eq!(kind(&transaction.get("/spec/containers/0/name")), "fine");
    }
    assert_eq!(
        transaction.keys("/metadata/labels"),
        Err(EditError::Limit(
            "more than 20 bytes read in one run".to_owned()
        ))
    );
}

/// Keys and the fields of a view take more memory of the host than their text.
#[test]
fn keys_and_fields_are_read_bytes_too() {
    let check = |calls: usize, read: &dyn Fn(&Transaction) -> Result<(), EditError>| {
        let transaction = limited(AccessLimits {
            read_bytes: 10_000,
            ..AccessLimits::default()
        });
        for _ in 0..calls {
            assert_eq!(read(&transaction), Ok(()));
        }
        let limit = "more than 10000 bytes read in one run";
        assert_eq!(read(&transaction), Err(EditError::Limit(limit.to_owned())));
    };
    // Three keys of 38 bytes together.
    check(74, &|pod| pod.keys("/metadata/labels").map(drop));
    // 18 segments, and no value.
    let fields = ["/a".repeat(9), "/b".repeat(9)];
    check(1, &|pod| pod.view("", &fields).map(drop));
    // Kept fields of an earlier call cost the same.
    let kept = limited(AccessLimits::default())
        .fields("", &fields)
        .unwrap();
    check(1, &|pod| pod.view_of("", &kept).map(drop));
}

/// Five writes of a megabyte, each of which takes 100 megabytes once parsed.
#[test]
fn writes_take_no_more_memory_than_the_limit() {
    let levels = |count: usize| format!("[{}0]", r#"{"":{"":0}},"#.repeat(count));
    let memory = &format!(
        "values that take more than {} bytes of memory",
        16 * 1024 * 1024
    );
    check(
        AccessLimits::default(),
        &[Set("/spec/new", &levels(80_000))],
        memory,
    );
    // Overwritten values are still in the log.
    let part = levels(4000);
    let write = Set("/spec/new", &part);
    let away = Remove("/spec/new");
    check(
        AccessLimits::default(),
        &[write, away, write, away, write, away, write],
        memory,
    );
    // Equal values are not kept.
    check(
        AccessLimits {
            writes: 10,
            ..AccessLimits::default()
        },
        &[write; 11],
        "more than 10 writes in one run",
    );
}

#[test]
fn created_parents_take_memory_too() {
    let limits = AccessLimits {
        memory: 100_000,
        ..AccessLimits::default()
    };
    let path = |first: usize| format!("/spec/{first}{}", "/a".repeat(50));
    let paths: Vec<String> = (0..3).map(path).collect();
    let calls: Vec<_> = paths.iter().map(|path| Set(path, "0")).collect();
    check(
        limits,
        &calls,
        "values that take more than 100000 bytes of memory",
    );
}

#[test]
fn runs_of_a_chain_share_the_memory() {
    let long = format!("\"{}\"", "x".repeat(1000));
    let mut first = begin(Access::unrestricted());
    assert_eq!(first.held(), 0);
    make(&mut first, Set("/spec/schedulerName", &long)).unwrap();
    assert!((2000..4000).contains(&first.held()), "{}", first.held());
    let mut second = begin(Access::unrestricted()).holding(16 * 1024 * 1024 - 1000);
    let outcome = make(&mut second, Set("/spec/schedulerName", &long));
    assert_eq!(kind(&outcome), "limit");
    assert_eq!(second.held(), 16 * 1024 * 1024 - 1000);
}

/// The host moves a transaction into a Wasm store on another thread.
#[test]
fn a_run_can_be_moved_anywhere() {
    fn check<T: Send + 'static>(transaction: T) -> T {
        transaction
    }
    let transaction = check(begin(Access::unrestricted()));
    assert_eq!(transaction.rollback(), super::pod());
}
