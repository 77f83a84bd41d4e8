//! How the process ends when a duty does.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::super::until_stopped;
use crate::error::CommandError;

/// Runs a duty that works until it is stopped, and one that ends like this future.
async fn beside_one_that_continues(
    ends: impl Future<Output = Result<()>> + Send + 'static,
) -> Result<()> {
    let stopped = CancellationToken::new();
    let mut duties = JoinSet::new();
    let stop = stopped.clone();
    duties.spawn(async move {
        stop.cancelled().await;
        ("continues", Ok(()))
    });
    duties.spawn(async move { ("ends", ends.await) });
    let done = timeout(Duration::from_secs(60), until_stopped(duties, &stopped));
    done.await.expect("it waits for nobody")
}

#[tokio::test(start_paused = true)]
async fn a_duty_that_ends_or_panics_ends_the_process_with_code_3() {
    let ended = beside_one_that_continues(async { Ok(()) }).await;
    let failed = beside_one_that_continues(async { Err(anyhow!("no idea")) }).await;
    let panicked = beside_one_that_continues(async { panic!("a bug") }).await;
    for (result, expected) in [
        (ended, "ends ended without being stopped"),
        (failed, "ends ended: no idea"),
        (panicked, "a task panicked"),
    ] {
        let error = CommandError::from(result.expect_err(expected));
        assert_eq!(error.code(), 3);
        let message = match error {
            CommandError::Other(error) => format!("{error:#}"),
            other => panic!("{other}"),
        };
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_duties_may_end_once_the_operator_is_stopped() {
    let stopped = CancellationToken::new();
    let mut duties = JoinSet::new();
    for pause in [1, 2] {
        let stop = stopped.clone();
        duties.spawn(async move {
            stop.cancelled().await;
            sleep(Duration::from_secs(pause)).await;
            ("one", Ok(()))
        });
    }
    stopped.cancel();
    until_stopped(duties, &stopped).await.expect("it ends well");
}
