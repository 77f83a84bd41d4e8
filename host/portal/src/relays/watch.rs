//! Watches relays: a control loop with one id for each of them.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use podloom_control_loop::{
    BoxError, ControlLoop, Ctx, Handler, Hints, Next, Options, Recorder, source_fn, storage_fn,
};
use podloom_engine::clock::Clock;
use podloom_engine::wakes::Wakes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::RelayMetrics;
use super::board::{Board, Finding, Question, Step};
use super::poll::{Asker, REQUESTS};
use crate::check::Authority;

/// The loop's name in metrics and logs.
const NAME: &str = "portal-relays";

/// The handler of the loop.
pub(super) struct Watcher {
    pub(super) board: Arc<Board>,
    /// The PortalExposes with a changed result.
    pub(super) changed: Wakes,
    pub(super) clock: Clock,
    pub(super) metrics: RelayMetrics,
    pub(super) asker: Asker,
    pub(super) hints: Hints<Authority>,
}

/// A look on the account of a namespace, which is given back in any case.
struct Paid<'a> {
    watcher: &'a Watcher,
    tenant: String,
}

impl Drop for Paid<'_> {
    fn drop(&mut self) {
        self.watcher.board.end(&self.tenant);
        self.watcher.call();
    }
}

impl Watcher {
    /// Returns the loop's work. The ids are the relays that somebody wants to know about.
    pub(super) fn start(
        self,
        recorder: Arc<dyn Recorder>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let hints = self.hints.clone();
        let (listed, looked_up) = (Arc::clone(&self.board), Arc::clone(&self.board));
        let source = source_fn(move |_| {
            let wanted = listed.wanted();
            async move { Ok(wanted) }
        });
        let storage = storage_fn(move |_, authority: Authority| {
            let wanted = looked_up.is_wanted(&authority).then_some(());
            async move { Ok(wanted) }
        });
        let control = ControlLoop {
            options: Options {
                // Each request of a relay takes a permit, so more relays at once would only wait for each other.
                workers: NonZeroUsize::new(REQUESTS.into()).unwrap_or(NonZeroUsize::MIN),
                // The board sends a hint for each change, and hints are never lost.
                resync_interval: None,
                ..Options::default()
            },
            recorder,
            hints,
            ..ControlLoop::new(NAME, source, storage, self)
        };
        control.run(stop).map(drop).boxed()
    }

    /// Asks a relay and records the result. Returns how long to wait for the next look; none if nobody wants to know any more.
    async fn look(&self, authority: &Authority, question: Question) -> Option<Duration> {
        let _paid = Paid {
            watcher: self,
            tenant: question.tenant.clone(),
        };
        let begun = Instant::now();
        let finding = self.asker.ask(authority, &question).await;
        if finding != Finding::Busy {
            let is_up = matches!(finding, Finding::Answers(_));
            self.metrics.polled(authority, is_up, begun.elapsed());
        }
        let times = (self.clock.now(), Instant::now());
        let (changed, wait) = self.board.record(authority, &finding, random(), times)?;
        for user in changed {
            self.changed.wake(&user.namespace, &user.name);
        }
        Some(wait)
    }

    /// Hints at the relays whose turn it is now.
    fn call(&self) {
        for authority in self.board.called() {
            self.hints.push(authority);
        }
    }
}

impl Handler<Authority, ()> for Watcher {
    /// Never fails: trouble is a result. A hint may come at any time, so the board says whether the relay is due.
    async fn handle(
        &self,
        ctx: &Ctx,
        authority: &Authority,
        wanted: Option<()>,
    ) -> Result<Next, BoxError> {
        if wanted.is_none() {
            self.metrics.forget(authority);
            return Ok(Next::Settled);
        }
        let step = self.board.step(authority, Instant::now());
        // Those that waited behind it may go on, whatever it does.
        self.call();
        let wait = match step {
            None | Some(Step::Queue) => None,
            Some(Step::Rest) => {
                self.metrics.forget(authority);
                None
            }
            Some(Step::Wait(wait)) => Some(wait),
            Some(Step::Ask(question)) => tokio::select! {
                () = ctx.stopping.cancelled() => None,
                wait = self.look(authority, question) => wait,
            },
        };
        Ok(wait.map_or(Next::Settled, Next::After))
    }
}

impl Drop for Watcher {
    /// Whoever watches next shows the series.
    fn drop(&mut self) {
        self.metrics.clear();
    }
}

/// A random number from 0 to 1.
fn random() -> f64 {
    let random = RandomState::new().hash_one(0_u8) % 1000;
    f64::from(u32::try_from(random).unwrap_or_default()) / 1000.0
}
