//! The events of one page.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event;
use futures::stream::{self, Stream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use super::{Console, PERIOD};
use crate::run::server::HTTP_LIMITS;

/// How much earlier the events end than their connection would. The page then connects again, with nothing cut off.
const MARGIN: Duration = Duration::from_secs(10);
/// How long the page waits before that.
const RETRY: Duration = Duration::from_secs(1);

/// One page that gets events.
pub(super) struct Listener {
    console: Arc<Console>,
    ticks: Interval,
    end: Instant,
    /// What it got last.
    sent: Option<Arc<str>>,
    _place: OwnedSemaphorePermit,
}

impl Listener {
    pub(super) fn new(console: Arc<Console>, place: OwnedSemaphorePermit) -> Self {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            console,
            ticks,
            end: Instant::now() + HTTP_LIMITS.life.saturating_sub(MARGIN),
            sent: None,
            _place: place,
        }
    }

    /// The state at once, and then whenever it has changed.
    pub(super) fn events(self) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
        stream::unfold(self, async |mut listener| {
            let is_first = listener.sent.is_none();
            let state = listener.next().await?;
            let mut event = Event::default().data(&*state);
            if is_first {
                event = event.retry(RETRY);
            }
            Some((Ok(event), listener))
        })
    }

    /// None at the end, and as soon as the operator stops.
    async fn next(&mut self) -> Option<Arc<str>> {
        loop {
            tokio::select! {
                biased;
                () = self.console.state.stop.cancelled() => return None,
                () = sleep_until(self.end) => return None,
                _ = self.ticks.tick() => {}
            }
            let console = Arc::clone(&self.console);
            // Counting many objects takes a moment, in which other tasks must go on.
            let state = spawn_blocking(move || console.latest()).await.ok()?;
            if self.sent.as_ref() != Some(&state) {
                self.sent = Some(Arc::clone(&state));
                return Some(state);
            }
        }
    }
}
