//! The patch law: applied to the original pod by an independent implementation of RFC 6902, the patch gives the pod that the plugins
//! made. `cargo xtask soak --only patch` tries many more.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use serde_json::Value;

use super::super::patch::patched;
use super::secrecy::{Ask, answer, any_pod, ask, grants};
use super::{Call, call, calls, make, pod, value};
use crate::path::push_escaped;
use crate::{Access, Grants, Patch, Transaction};

/// A plugin's run on a pod, and whether it is rolled back in the end.
struct Run<'r> {
    access: Access,
    calls: Box<dyn Fn(&mut Transaction) + 'r>,
    is_ignored: bool,
}

#[track_caller]
fn check(before: &Value, runs: Vec<Run<'_>>) {
    let (mut after, mut patch) = (before.clone(), Patch::within(usize::MAX));
    for run in runs {
        let mut transaction = Transaction::begin(after, run.access.into(), [].into());
        (run.calls)(&mut transaction);
        if run.is_ignored {
            after = transaction.rollback();
        } else {
            let (writes, traces);
            (after, writes, traces) = transaction.commit_traced();
            for (write, trace) in writes.iter().zip(&traces) {
                patch.write(write, trace);
            }
        }
    }
    let patch = patch.finish().expect("no limit");
    assert_eq!(patched(before.clone(), &patch), after, "{before}\n{patch}");
}

/// The run of a plugin without restrictions.
fn unrestricted(calls: &[Call], is_ignored: bool) -> Run<'_> {
    Run {
        access: Access::unrestricted(),
        calls: Box::new(|transaction| calls.iter().for_each(|call| make(transaction, call))),
        is_ignored,
    }
}

type Granted = (Vec<&'static str>, Vec<Ask>, bool);

fn granted((grants, asks, is_ignored): &Granted) -> Run<'_> {
    Run {
        access: Access::new(
            Grants::parse(&[""]).unwrap(),
            Grants::parse_writes(grants).unwrap(),
        ),
        calls: Box::new(move |transaction| {
            for ask in asks {
                let _ = answer(transaction, ask, grants);
            }
        }),
        is_ignored: *is_ignored,
    }
}

/// Keys that must be escaped in a pointer, and keys that look like indices.
fn odd_key() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[-~/01\\[\\]=a\"\\\\]{0,5}", "[0-9]{1,3}"]
}

fn odd_call() -> impl Strategy<Value = Call> {
    let path = (
        proptest::sample::select(vec!["/metadata/annotations", "/spec/new", "/spec/tomorrow"]),
        vec(odd_key(), 1..4),
    )
        .prop_map(|(parent, keys)| {
            keys.iter().fold(parent.to_owned(), |mut path, key| {
                path.push('/');
                push_escaped(&mut path, key);
                path
            })
        });
    (path, value(), any::<bool>()).prop_map(|(path, value, sets)| match sets {
        true => Call::Set(path, value),
        false => Call::Remove(path),
    })
}

proptest! {
    #[test]
    fn a_patch_does_what_plugins_did(runs in vec((calls(), any::<bool>()), 1..4)) {
        check(&pod(), runs.iter().map(|(calls, is_ignored)| unrestricted(calls, *is_ignored)).collect());
    }

    #[test]
    fn a_patch_does_what_plugins_did_to_any_pod(
        before in any_pod(), runs in vec((grants(), vec(ask(), 1..12), any::<bool>()), 1..4),
    ) {
        check(&before, runs.iter().map(granted).collect());
    }

    #[test]
    fn a_patch_does_what_plugins_did_by_any_key(calls in vec(prop_oneof![3 => odd_call(), 1 => call()], 1..12)) {
        check(&pod(), vec![unrestricted(&calls, false)]);
    }
}
