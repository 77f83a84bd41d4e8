//! Builds the next chain, proves it, and lets it serve.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use podloom_control_loop::{BoxError, Ctx, Handler, Next};
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::Span;

use super::identity::{Content, Directory};
use super::snapshot::Snapshot;
use super::{Attempts, LoadError};
use crate::bundle::{Bundle, BundleError};
use crate::chain::Chain;
use crate::engine::Engine;
use crate::until::Until;

/// What was refused is built again now and then, for a machine that stood still makes plugins miss their time; in doubling
/// pauses up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// When to look again for a directory that is not there.
const ABSENT_PAUSE: Duration = Duration::from_secs(1);

/// The handler of the loop.
pub(super) struct Builder {
    engine: Arc<Engine>,
    attempts: Attempts,
    first_pause: Duration,
    timeout: Duration,
    seen: Mutex<SeenContent>,
}

/// What was made of the directory so far.
#[derive(Default)]
struct SeenContent {
    /// The content whose chain serves.
    serving: Option<Content>,
    /// The content that was refused last, if nothing was good since.
    refused: Option<RejectedContent>,
}

struct RejectedContent {
    content: Content,
    pause: Duration,
    again: Instant,
}

impl Builder {
    pub(super) fn new(
        engine: Arc<Engine>,
        attempts: Attempts,
        first_pause: Duration,
        timeout: Duration,
    ) -> Self {
        Self {
            engine,
            attempts,
            first_pause,
            timeout,
            seen: Mutex::default(),
        }
    }

    /// Whether the content is known, so that nothing is to be built.
    fn is_settled(&self, content: &Content) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.serving.as_ref() == Some(content) {
            seen.refused = None;
            drop(seen);
            self.attempts.restored();
            return true;
        }
        let refused = seen.refused.as_ref();
        refused.is_some_and(|refused| refused.content == *content && Instant::now() < refused.again)
    }

    /// Tells that the directory cannot be read, and when to look again. To find that it is not there costs next to nothing.
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

    fn swap(&self, content: Content, chain: Chain, took: Duration) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = SeenContent {
            serving: Some(content),
            refused: None,
        };
        self.attempts.swapped(chain, took);
    }

    fn refuse(&self, content: Content, error: LoadError) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = seen
            .refused
            .take()
            .filter(|refused| refused.content == content);
        let pause = before.map_or(self.first_pause, |before| {
            (before.pause * 2).min(LONGEST_PAUSE)
        });
        seen.refused = Some(RejectedContent {
            content,
            pause,
            again: Instant::now() + pause,
        });
        drop(seen);
        self.attempts.refused(&Arc::new(error));
    }
}

impl Handler<Directory, Snapshot> for Builder {
    async fn handle(
        &self,
        ctx: &Ctx,
        id: &Directory,
        object: Option<Snapshot>,
    ) -> Result<Next, BoxError> {
        // The storage never calls the directory absent.
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
        let (engine, directory) = (Arc::clone(&self.engine), id.path().to_owned());
        let serving = self.attempts.slot.serving().chain.clone();
        let until = Until::after(self.timeout);
        // Spans do not follow work to another thread by themselves.
        let span = Span::current();
        let building = spawn_blocking(move || {
            span.in_scope(|| build(&engine, serving.as_deref(), &directory, bundle, until))
        });
        let built = tokio::select! {
            built = building => built,
            // A chain that is half built has nothing to finish.
            () = ctx.stopping.cancelled() => return Ok(Next::Settled),
        };
        match built {
            Ok(Ok(chain)) => self.swap(content, chain, started.elapsed()),
            Ok(Err(error)) => self.refuse(content, error),
            Err(broke) => self.refuse(content, broken(id.path(), &broke)),
        }
        Ok(Next::Settled)
    }
}

/// Everything that is asked of a chain before it serves; blocks for as long as that takes, and not much longer than it may.
fn build(
    engine: &Arc<Engine>,
    serving: Option<&Chain>,
    directory: &Path,
    read: Result<Bundle, BundleError>,
    until: Until,
) -> Result<Chain, LoadError> {
    let directory = || PathBuf::from(directory);
    let bundle = read.map_err(|error| LoadError::Bundle {
        directory: directory(),
        error,
    })?;
    let chain = Chain::load_until(engine, serving, &bundle, until);
    let chain = chain.map_err(|error| LoadError::Chain {
        directory: directory(),
        error,
    })?;
    let failures = chain.prove_until(until);
    if failures.is_empty() {
        return Ok(chain);
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
