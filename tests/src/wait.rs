//! Waiting, always with a deadline.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};

/// How long to wait for one thing. Most take a fraction of a second; busy machines take longer.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often to ask for what cannot be watched.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits for something, and fails if it does not happen in time.
pub async fn within<T>(what: &str, patience: Duration, work: impl Future<Output = T>) -> T {
    match timeout(patience, work).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within {} s", patience.as_secs()),
    }
}

/// Asks until there is an answer; if there is none in time, fails with the last reason.
///
/// This is for what cannot be watched: probes, logs, processes. For objects use [`crate::Watched`].
pub async fn eventually<T>(what: &str, ask: impl AsyncFnMut() -> Result<T, String>) -> T {
    eventually_within(what, PATIENCE, ask).await
}

/// Like [`eventually`], with another deadline.
pub async fn eventually_within<T>(
    what: &str,
    patience: Duration,
    mut ask: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let mut last_reason = String::new();
    let asking = async {
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match ask().await {
                Ok(answer) => return answer,
                Err(reason) => last_reason = reason,
            }
        }
    };
    match timeout(patience, asking).await {
        Ok(answer) => answer,
        Err(_) => panic!("{what}: not within {} s: {last_reason}", patience.as_secs()),
    }
}
