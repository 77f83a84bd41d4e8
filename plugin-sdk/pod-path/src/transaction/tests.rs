//! Accesses to a pod.

mod access;
mod audit;
mod edits;
mod laws;
mod limits;
mod patch;
mod protected;
mod reads;
mod rules;
mod secrecy;
mod usage;
mod values;
mod views;

use serde_json::{Value, json};

use super::Transaction;
use crate::{Access, AccessError, EditError, Grants};

/// A pod as a Go program renders it, with nulls.
fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "creationTimestamp": null,
            "labels": { "app": "web", "example.com/a~b": "x", "selenosis.io/browser": "chrome" },
            "annotations": null,
        },
        "spec": {
            "hostNetwork": false,
            "containers": [
                {
                    "name": "browser",
                    "image": "chrome",
                    "args": ["a", "b"],
                    "ports": [{ "containerPort": 80 }, { "containerPort": 80, "protocol": "UDP" }, { "containerPort": 90 }],
                    "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                },
                {
                    "name": "proxy",
                    "image": "envoy",
                    "env": [{ "name": "TZ", "value": "UTC" }, { "name": "ODD", "value": "a]=b" }],
                },
            ],
            "tomorrow": { "list": [1, null, { "on": true, "kind": "x" }], "flag": true },
        },
        "status": {},
    })
}

fn begin(access: Access) -> Transaction {
    Transaction::begin(pod(), access.into(), ["app".to_owned()].into())
}

fn unrestricted() -> Transaction {
    begin(Access::unrestricted())
}

fn granted(reads: &[&str], writes: &[&str]) -> Transaction {
    let reads = Grants::parse(reads).unwrap();
    let writes = Grants::parse_writes(writes).unwrap();
    begin(Access::new(reads, writes))
}

/// A call that writes.
#[derive(Clone, Copy, Debug)]
enum Call<'c> {
    Set(&'c str, &'c str),
    Insert(&'c str, &'c str),
    Remove(&'c str),
}

use Call::{Insert, Remove, Set};

/// Makes the call and returns its result: `true` unless it removed nothing.
fn make(transaction: &mut Transaction, call: Call<'_>) -> Result<bool, EditError> {
    match call {
        Set(path, value) => transaction.set(path, value.to_owned()).map(|()| true),
        Insert(path, value) => transaction.insert(path, value.to_owned()).map(|()| true),
        Remove(path) => transaction.remove(path),
    }
}

/// The name of a result in tables.
fn kind<T>(outcome: &Result<T, EditError>) -> &'static str {
    match outcome {
        Ok(_) => "fine",
        Err(EditError::Access(AccessError::InvalidPath(_))) => "invalid path",
        Err(EditError::Access(AccessError::NotFound(_))) => "not found",
        Err(EditError::Access(AccessError::Forbidden(_))) => "forbidden",
        Err(EditError::Access(AccessError::InvalidValue(_))) => "invalid value",
        Err(EditError::Limit(_)) => "limit",
    }
}

/// Checks that a call is refused with this text and does not change the pod.
#[track_caller]
fn check_refused(mut transaction: Transaction, call: Call<'_>, expected: &str, text: &str) {
    let outcome = make(&mut transaction, call);
    assert_eq!(
        (kind(&outcome), outcome.unwrap_err().to_string().as_str()),
        (expected, text),
        "{call:?}"
    );
    let (after, writes) = transaction.commit();
    assert_eq!((after, writes.len()), (pod(), 0), "{call:?}");
}
