//! Errors of calls, as the log shows them.

use std::future::{self, ready};
use std::io;

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("could not read the object")]
struct ReadObject(#[source] io::Error);

#[tokio::test]
async fn an_error_is_logged_with_its_causes() {
    let error = ReadObject(io::Error::other("the disk is gone"));
    let check = |failure: CallError, expected: &str| assert_eq!(causes(&failure), expected);
    check(
        CallError::Error(error.into()),
        "could not read the object: the disk is gone",
    );
    check(CallError::Timeout(GRACE), "took longer than 5s");
    check(CallError::LockLost, "the lock was lost");
}

#[tokio::test]
async fn a_panic_is_logged_with_its_message() {
    let [text, number] = [1, 2];
    let logged = async |result: Result<(), CallError>| causes(&result.expect_err("it panicked"));
    let literal = caught(async { panic!("no") }).await;
    assert_eq!(logged(literal).await, "panicked: no");
    let formatted = caught(async { panic!("no {text}") }).await;
    assert_eq!(logged(formatted).await, "panicked: no 1");
    let other = caught(async { std::panic::panic_any(number) }).await;
    assert_eq!(logged(other).await, "panicked: without a message");
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
    assert!(matches!(result, Err(CallError::Timeout(after)) if after == limit));
    let result = until(|| ready(Ok(1)), expired(limit), &CancellationToken::new()).await;
    assert!(matches!(result, Ok(1)));
}

#[tokio::test]
async fn a_call_that_is_interrupted_before_it_starts_never_starts() {
    let cancel = CancellationToken::new();
    let call = || -> future::Ready<Result<(), BoxError>> { panic!("it has begun") };
    let result = until(call, ready(CallError::LockLost), &cancel).await;
    assert!(matches!(result, Err(CallError::LockLost)));
    assert!(cancel.is_cancelled());
}
