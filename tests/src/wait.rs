//! Waiting with a deadline, always.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};

/// How long a single thing may take. Most take a fraction of a second; this is for machines that are busy with something else.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often is asked what cannot be watched.
pub(crate) const ASKING: Duration = Duration::from_millis(50);

/// Waits for something, and fails if it does not happen in time.
pub async fn within<T>(what: &str, patience: Duration, work: impl Future<Output = T>) -> T {
    match timeout(patience, work).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within {} s", patience.as_secs()),
    }
}

/// Asks until there is an answer, and fails with the last excuse if there is none in time.
///
/// For what cannot be watched: probes, logs, processes. Objects are watched.
pub async fn eventually<T>(what: &str, ask: impl AsyncFnMut() -> Result<T, String>) -> T {
    eventually_within(what, PATIENCE, ask).await
}

/// As [`eventually`], with a patience of one's own.
pub async fn eventually_within<T>(
    what: &str,
    patience: Duration,
    mut ask: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let mut excuse = String::new();
    let asking = async {
        let mut ticks = interval(ASKING);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match ask().await {
                Ok(answer) => return answer,
                Err(reason) => excuse = reason,
            }
        }
    };
    match timeout(patience, asking).await {
        Ok(answer) => answer,
        Err(_) => panic!("{what}: not within {} s: {excuse}", patience.as_secs()),
    }
}
