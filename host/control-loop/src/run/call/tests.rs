//! What the log says of failures.

use std::future::{self, ready};
use std::io;

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("could not read the object")]
struct ReadObject(#[source] io::Error);

#[tokio::test]
async fn a_failure_is_told_with_its_causes() {
    let error = ReadObject(io::Error::other("the disk is gone"));
    let check = |failure: Failure, expected: &str| assert_eq!(causes(&failure), expected);
    check(
        Failure::Error(error.into()),
        "could not read the object: the disk is gone",
    );
    check(Failure::Timeout(GRACE), "took longer than 5s");
    check(Failure::LockLost, "the lock was lost");
}

#[tokio::test]
async fn a_panic_is_told_with_its_message() {
    let [text, number] = [1, 2];
    let told = async |result: Result<(), Failure>| causes(&result.expect_err("it panicked"));
    let literal = caught(async { panic!("no") }).await;
    assert_eq!(told(literal).await, "panicked: no");
    let formatted = caught(async { panic!("no {text}") }).await;
    assert_eq!(told(formatted).await, "panicked: no 1");
    let other = caught(async { std::panic::panic_any(number) }).await;
    assert_eq!(told(other).await, "panicked: without a message");
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_call_is_cancelled_and_fails_whatever_it_returns() {
    let cancel = CancellationToken::new();
    let obeys = async {
        cancel.cancelled().await;
        Ok(1)
    };
    let limit = Duration::from_secs(1);
    let result = until(|| obeys, expired(limit), &cancel).await;
    assert!(matches!(result, Err(Failure::Timeout(told)) if told == limit));
    let result = until(|| ready(Ok(1)), expired(limit), &CancellationToken::new()).await;
    assert!(matches!(result, Ok(1)));
}

#[tokio::test]
async fn what_is_interrupted_before_it_has_begun_does_not_begin() {
    let cancel = CancellationToken::new();
    let call = || -> future::Ready<Result<(), BoxError>> { panic!("it has begun") };
    let result = until(call, ready(Failure::LockLost), &cancel).await;
    assert!(matches!(result, Err(Failure::LockLost)));
    assert!(cancel.is_cancelled());
}
