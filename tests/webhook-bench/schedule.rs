//! Reviews that are due at fixed instants, as those of a cluster are, which does not wait until a slow webhook is ready for more.
//!
//! A latency counts from the instant at which its review was due, even if all connections were busy then: a server that pauses is
//! charged for every review that waited, not only for the one that it was answering.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use hyper::body::Bytes;
use tokio::sync::Semaphore;

use crate::client::{Meter, Sender, Target};
use crate::report::Figures;

/// Reviews at a fixed rate, over a pool of connections.
#[derive(Clone)]
pub(crate) struct Schedule {
    pub(crate) target: Target,
    pub(crate) review: Bytes,
    pub(crate) connections: usize,
    /// Reviews a second.
    pub(crate) rate: f64,
    pub(crate) time: Duration,
}

/// When each review is due, and which is the next to be sent.
struct Due {
    begun: Instant,
    rate: f64,
    count: usize,
    next: AtomicUsize,
    /// A permit for each review that is due and not yet sent.
    waiting: Semaphore,
}

impl Schedule {
    /// Sends all reviews. `pid` is the server's process, whose processor time is measured.
    pub(crate) async fn run(&self, pid: Option<u32>) -> Result<Figures> {
        let connected = self.target.connections(self.connections, &self.review);
        let senders = connected.await?;
        let due = Arc::new(Due {
            begun: Instant::now(),
            rate: self.rate,
            count: (self.rate * self.time.as_secs_f64()) as usize,
            next: AtomicUsize::new(0),
            waiting: Semaphore::new(0),
        });
        let meter = Meter::start(pid)?;
        let sending = senders
            .into_iter()
            .map(|sender| tokio::spawn(self.clone().send(sender, Arc::clone(&due))))
            .collect::<Vec<_>>();
        let connections = self.connections;
        // The runtime's own clock has a resolution of a millisecond.
        thread::spawn(move || due.announce(connections));
        let (mut latencies, mut failures) = (Vec::new(), 0);
        for (answered, failed) in try_join_all(sending).await? {
            latencies.extend(answered);
            failures += failed;
        }
        meter.figures(latencies, failures)
    }

    /// One connection of the pool. Returns the latencies of what was answered, and how many reviews failed.
    async fn send(self, mut sender: Sender, due: Arc<Due>) -> (Vec<Duration>, usize) {
        let (mut latencies, mut failures) = (Vec::new(), 0);
        while let Some(instant) = due.next().await {
            match self.ask(&mut sender).await {
                Ok(()) => latencies.push(instant.elapsed()),
                Err(error) => {
                    if failures == 0 {
                        eprintln!("a review failed: {error:#}");
                    }
                    failures += 1;
                }
            }
        }
        (latencies, failures)
    }

    /// A server may close a connection that nobody uses, so a closed one is replaced.
    async fn ask(&self, sender: &mut Sender) -> Result<()> {
        if sender.ready().await.is_err() {
            *sender = self.target.connect().await?;
        }
        self.target.ask(sender, &self.review).await?;
        Ok(())
    }
}

impl Due {
    fn at(&self, number: usize) -> Instant {
        self.begun + Duration::from_secs_f64(number as f64 / self.rate)
    }

    /// Waits for the next review, and returns when it was due; none if there are no more.
    async fn next(&self) -> Option<Instant> {
        // The semaphore is never closed.
        self.waiting.acquire().await.ok()?.forget();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.count).then(|| self.at(number))
    }

    /// Lets each review go when it is due, and then all connections, so that they end.
    fn announce(&self, connections: usize) {
        for number in 0..self.count {
            thread::sleep(self.at(number).saturating_duration_since(Instant::now()));
            self.waiting.add_permits(1);
        }
        self.waiting.add_permits(connections);
    }
}
