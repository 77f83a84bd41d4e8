//! Builds the next chain, proves it, and swaps it in.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use podloom_control_loop::{BoxError, Ctx, Handler, Next};
use podloom_turns::lock;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::Span;

use super::identity::{Content, Directory};
use super::snapshot::Snapshot;
use super::{Admit, Attempts, LoadError};
use crate::bundle::{Bundle, BundleError};
use crate::chain::Chain;
use crate::engine::Engine;
use crate::signature::Signers;
use crate::until::Until;
use crate::warnings::ChainWarning;

/// The longest pause before refused content is built again. It is retried because plugins miss their time limits on a machine that
/// stalls; the pauses double up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// When to look again for a missing directory.
const ABSENT_PAUSE: Duration = Duration::from_secs(1);

/// How soon to ask again whether a chain may serve.
const ADMIT_PAUSE: Duration = Duration::from_secs(5);

/// What a chain must be besides proved.
pub(super) struct Terms {
    /// Signed by one of these, if they are given.
    pub(super) signers: Option<Arc<Signers>>,
    /// Admitted.
    pub(super) admit: Admit,
}

/// The handler of the loop.
pub(super) struct Builder {
    engine: Arc<Engine>,
    attempts: Attempts,
    terms: Terms,
    first_pause: Duration,
    timeout: Duration,
    seen: Mutex<SeenContent>,
}

/// What the builder knows about contents of the directory.
#[derive(Default)]
struct SeenContent {
    /// The content whose chain serves.
    serving: Option<Content>,
    /// The content that was refused last, unless a good one came since.
    refused: Option<RejectedContent>,
    /// The warnings about the chain that serves.
    warnings: Vec<ChainWarning>,
}

struct RejectedContent {
    content: Content,
    /// Its chain, if that only waits to be admitted.
    waits: Option<Built>,
    pause: Duration,
    again: Instant,
}

impl Builder {
    pub(super) fn new(
        engine: Arc<Engine>,
        attempts: Attempts,
        terms: Terms,
        first_pause: Duration,
        timeout: Duration,
    ) -> Self {
        Self {
            engine,
            attempts,
            terms,
            first_pause,
            timeout,
            seen: Mutex::default(),
        }
    }

    /// Whether nothing has to be built: the content serves already, or was refused and is not due for a retry.
    fn is_settled(&self, content: &Content) -> bool {
        let mut seen = lock(&self.seen);
        if seen.serving.as_ref() == Some(content) {
            seen.refused = None;
            drop(seen);
            self.attempts.restored();
            return true;
        }
        let refused = seen.refused.as_ref();
        refused.is_some_and(|refused| refused.content == *content && Instant::now() < refused.again)
    }

    /// Reports that the directory cannot be read; returns when to look again, which is soon for a missing directory.
    fn unreadable(&self, id: &Directory, error: BundleError) -> Next {
        let pause = match error {
            BundleError::Open { .. } => ABSENT_PAUSE.min(self.first_pause),
            _ => self.first_pause,
        };
        self.attempts.refused(&Arc::new(LoadError::Unreadable {
            directory: id.path().to_owned(),
            error,
        }));
        Next::After(pause)
    }

    fn swap(&self, content: Content, built: Built, took: Duration) {
        let Built { chain, warnings } = built;
        let mut seen = lock(&self.seen);
        let before = std::mem::replace(
            &mut *seen,
            SeenContent {
                serving: Some(content),
                refused: None,
                warnings: warnings.clone(),
            },
        );
        drop(seen);
        for warning in warnings {
            // Each is logged once, even if its line in the manifest moves.
            let mut before = before.warnings.iter();
            if before.all(|old| (&old.plugin, &old.message) != (&warning.plugin, &warning.message))
            {
                tracing::warn!(plugin = warning.plugin, %warning, "the chain has a probable mistake");
            }
        }
        self.attempts.swapped(chain, took);
    }

    fn refuse(&self, content: Content, error: LoadError) {
        let mut seen = lock(&self.seen);
        let before = seen
            .refused
            .take()
            .filter(|refused| refused.content == content);
        let pause = before.map_or(self.first_pause, |before| {
            (before.pause * 2).min(LONGEST_PAUSE)
        });
        seen.refused = Some(RejectedContent {
            content,
            waits: None,
            pause,
            again: Instant::now() + pause,
        });
        drop(seen);
        self.attempts.refused(&Arc::new(error));
    }

    /// Keeps a chain that may not serve yet.
    fn keep(&self, content: Content, built: Built, error: LoadError) {
        let mut seen = lock(&self.seen);
        seen.refused = Some(RejectedContent {
            content,
            waits: Some(built),
            pause: self.first_pause,
            again: Instant::now(),
        });
        drop(seen);
        self.attempts.refused(&Arc::new(error));
    }

    /// The chain of this content, if it only waits to be admitted.
    fn take_waiting(&self, content: &Content) -> Option<Built> {
        let mut seen = lock(&self.seen);
        let refused = seen.refused.as_mut();
        refused
            .filter(|refused| refused.content == *content)?
            .waits
            .take()
    }

    /// Builds and proves a chain on another thread.
    async fn build(
        &self,
        id: &Directory,
        bundle: Result<Bundle, BundleError>,
    ) -> Result<Built, LoadError> {
        let (engine, directory) = (Arc::clone(&self.engine), id.path().to_owned());
        let serving = self.attempts.slot.serving().chain.clone();
        let (until, signers) = (Until::after(self.timeout), self.terms.signers.clone());
        // Spans do not follow work to another thread by themselves.
        let span = Span::current();
        let building = spawn_blocking(move || {
            span.in_scope(|| {
                let bundle = trusted(&directory, bundle, signers.as_deref())?;
                build(&engine, serving.as_deref(), &directory, &bundle, until)
            })
        });
        let built = building.await;
        built.unwrap_or_else(|broke| Err(broken(id.path(), &broke)))
    }

    /// Lets a chain serve, if it may; returns when to look again.
    async fn admit(&self, id: &Directory, content: Content, built: Built, took: Duration) -> Next {
        let Err(problem) = (self.terms.admit)(&built.chain).await else {
            self.swap(content, built, took);
            return Next::Settled;
        };
        let directory = id.path().to_owned();
        self.keep(content, built, LoadError::Unmet { directory, problem });
        Next::After(ADMIT_PAUSE.min(self.first_pause))
    }
}

impl Handler<Directory, Snapshot> for Builder {
    async fn handle(
        &self,
        ctx: &Ctx,
        id: &Directory,
        object: Option<Snapshot>,
    ) -> Result<Next, BoxError> {
        // The storage always returns a snapshot.
        let Some(Snapshot { content, bundle }) = object else {
            return Ok(Next::Settled);
        };
        let bundle = match bundle {
            Err(error) if error.is_of_the_disk() => return Ok(self.unreadable(id, error)),
            bundle => bundle,
        };
        if self.is_settled(&content) {
            return Ok(Next::Settled);
        }
        let started = Instant::now();
        let attempt = async {
            let built = match self.take_waiting(&content) {
                Some(built) => Ok(built),
                None => self.build(id, bundle).await,
            };
            match built {
                Ok(built) => self.admit(id, content, built, started.elapsed()).await,
                Err(error) => {
                    self.refuse(content, error);
                    Next::Settled
                }
            }
        };
        tokio::select! {
            next = attempt => Ok(next),
            // A partly built chain can be dropped.
            () = ctx.stopping.cancelled() => Ok(Next::Settled),
        }
    }
}

/// A chain that can serve.
struct Built {
    chain: Chain,
    warnings: Vec<ChainWarning>,
}

/// The bundle, if it is one, and is signed by one of those who must have signed it.
fn trusted(
    directory: &Path,
    read: Result<Bundle, BundleError>,
    signers: Option<&Signers>,
) -> Result<Bundle, LoadError> {
    let directory = || PathBuf::from(directory);
    let bundle = read.map_err(|error| LoadError::Bundle {
        directory: directory(),
        error,
    })?;
    if let Some(signers) = signers {
        signers
            .check(&bundle)
            .map_err(|error| LoadError::Unsigned {
                directory: directory(),
                error,
            })?;
    }
    Ok(bundle)
}

/// Loads and proves a chain. Blocks until that is done, or shortly after the deadline.
fn build(
    engine: &Arc<Engine>,
    serving: Option<&Chain>,
    directory: &Path,
    bundle: &Bundle,
    until: Until,
) -> Result<Built, LoadError> {
    let directory = || PathBuf::from(directory);
    let chain = Chain::load_until(engine, serving, bundle, until);
    let chain = chain.map_err(|error| LoadError::Chain {
        directory: directory(),
        error,
    })?;
    let failures = chain.prove_until(until);
    if failures.is_empty() {
        let warnings = chain.warnings_until(until);
        return Ok(Built { chain, warnings });
    }
    Err(LoadError::Unproven {
        directory: directory(),
        failures,
    })
}

fn broken(directory: &Path, error: &tokio::task::JoinError) -> LoadError {
    LoadError::Broken {
        directory: directory.to_owned(),
        message: error.to_string(),
    }
}

#[cfg(test)]
mod tests;
