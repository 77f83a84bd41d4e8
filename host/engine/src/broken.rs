//! What is said of watches that break: each one is counted, and the log has a line in a while.

use std::sync::Mutex;
use std::time::Duration;

use kube::runtime::watcher;
use podloom_turns::lock;
use tokio::time::Instant;

use super::metrics::EngineMetrics;
use super::plain::plain;

/// How often the log says that a watch breaks again and again.
pub const SAID: Duration = Duration::from_mins(10);

/// Lets one of many equal lines into the log: the first, and then one every ten minutes.
#[derive(Default)]
pub struct Seldom(Mutex<Said>);

/// The last line, and how many were left out since.
#[derive(Default)]
struct Said {
    at: Option<Instant>,
    left_out: u64,
}

impl Seldom {
    /// Returns how many lines were left out since the last one, if it is time for another one.
    pub fn is_due(&self) -> Option<u64> {
        let now = Instant::now();
        let mut said = lock(&self.0);
        if said.at.is_some_and(|at| now.duration_since(at) < SAID) {
            said.left_out += 1;
            return None;
        }
        said.at = Some(now);
        Some(std::mem::take(&mut said.left_out))
    }
}

/// Returns a function that counts and logs the errors of one watch. No other code logs them; the watch restarts after a while.
pub fn on_break(
    metrics: &EngineMetrics,
    kind: &'static str,
    namespace: Option<String>,
) -> impl Fn(&watcher::Error) + Send + Sync + use<> {
    let (metrics, seldom) = (metrics.clone(), Seldom::default());
    move |error| {
        metrics.watch_broke(kind);
        if let Some(left_out) = seldom.is_due() {
            let error = plain(error);
            tracing::warn!(kind, namespace, error, left_out, "watch broke, restarting");
        }
    }
}
