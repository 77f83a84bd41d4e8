//! Builds the next chain, proves it, and swaps it in.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use podloom_control_loop::{BoxError, Ctx, Handler, Next};
use podloom_turns::lock;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::Span;

use super::directory::{Directory, Snapshot};
use super::{LoadError, Loader, Reload};
use crate::bundle::{Bundle, BundleError};
use crate::chain::Chain;
use crate::engine::Engine;
use crate::request::Until;
use crate::signature::Signers;
use crate::warnings::ChainWarning;

/// The longest pause before refused content is built again. It is retried because plugins miss their time limits on a machine that
/// stalls; the pauses double up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// When to look again for a missing directory.
const ABSENT_PAUSE: Duration = Duration::from_secs(1);

/// How soon to ask again whether a chain may serve.
const ADMIT_PAUSE: Duration = Duration::from_secs(5);

/// The handler of the loop.
pub(super) struct Builder {
    loader: Loader,
    seen: Mutex<SeenContent>,
}

/// What the builder knows about contents of the directory.
#[derive(Default)]
struct SeenContent {
    /// The content whose chain serves.
    serving: Option<String>,
    /// The content that was refused last, unless a good one came since.
    refused: Option<RejectedContent>,
    /// The warnings about the chain that serves.
    warnings: Vec<ChainWarning>,
}

struct RejectedContent {
    content: String,
    /// Its chain, if that only waits to be admitted.
    waits: Option<Built>,
    pause: Duration,
    again: Instant,
}

impl Builder {
    pub(super) fn new(loader: Loader) -> Self {
        let seen = Mutex::default();
        Self { loader, seen }
    }

    /// Whether nothing has to be built: the content serves already, or was refused and is not due for a retry.
    fn is_settled(&self, content: &str) -> bool {
        let mut seen = lock(&self.seen);
        if seen.serving.as_deref() == Some(content) {
            seen.refused = None;
            drop(seen);
            if let Some(chain) = self.loader.slot.restore() {
                (self.loader.report)(&Reload::Restored { chain });
            }
            return true;
        }
        let refused = seen.refused.as_ref();
        refused.is_some_and(|refused| refused.content == content && Instant::now() < refused.again)
    }

    /// Reports that the directory cannot be read; returns when to look again, which is soon for a missing directory.
    fn unreadable(&self, id: &Directory, error: &BundleError) -> Next {
        let pause = match error {
            BundleError::Open { .. } => ABSENT_PAUSE.min(self.first_pause()),
            _ => self.first_pause(),
        };
        self.report(LoadError::of_bundle("unreadable", &id.0, error));
        Next::After(pause)
    }

    fn swap(&self, content: String, built: Built, took: Duration) {
        let Built { chain, warnings } = built;
        let mut seen = lock(&self.seen);
        let now = SeenContent {
            serving: Some(content),
            refused: None,
            warnings: warnings.clone(),
        };
        let before = std::mem::replace(&mut *seen, now);
        drop(seen);
        for warning in warnings {
            // Each is logged once, even if its line in the manifest moves.
            let mut before = before.warnings.iter();
            if before.all(|old| (&old.plugin, &old.message) != (&warning.plugin, &warning.message))
            {
                tracing::warn!(plugin = warning.plugin, %warning, "the chain has a probable mistake");
            }
        }
        let chain = Arc::new(chain);
        self.loader.slot.swap(Arc::clone(&chain));
        (self.loader.report)(&Reload::Swapped { chain, took });
    }

    /// Remembers and reports refused content. If its chain only waits to be admitted, it is kept, and asked about again.
    fn refuse(&self, content: String, waits: Option<Built>, error: LoadError) {
        let mut seen = lock(&self.seen);
        let before = seen.refused.take();
        let before = before.filter(|refused| waits.is_none() && refused.content == content);
        let pause = before.map_or(self.first_pause(), |before| {
            (before.pause * 2).min(LONGEST_PAUSE)
        });
        let now = Instant::now();
        seen.refused = Some(RejectedContent {
            content,
            again: if waits.is_some() { now } else { now + pause },
            waits,
            pause,
        });
        drop(seen);
        self.report(error);
    }

    fn report(&self, error: LoadError) {
        let error = Arc::new(error);
        let repeated = self.loader.slot.refuse(&error);
        (self.loader.report)(&Reload::Refused { error, repeated });
    }

    /// The pause before refused content is built again for the first time.
    fn first_pause(&self) -> Duration {
        self.loader.scan_interval
    }

    /// The chain of this content, if it only waits to be admitted.
    fn take_waiting(&self, content: &str) -> Option<Built> {
        let mut seen = lock(&self.seen);
        let refused = seen.refused.as_mut();
        refused
            .filter(|refused| refused.content == content)?
            .waits
            .take()
    }

    /// Builds and proves a chain on another thread.
    async fn build(
        &self,
        id: &Directory,
        bundle: Result<Bundle, BundleError>,
    ) -> Result<Built, LoadError> {
        let (engine, directory) = (Arc::clone(&self.loader.engine), Arc::clone(&id.0));
        let serving = self.loader.slot.serving().chain.clone();
        let signers = self.loader.signers.clone();
        let until = Until::after(self.loader.build_timeout);
        // Spans do not follow work to another thread by themselves.
        let span = Span::current();
        let building = spawn_blocking(move || {
            span.in_scope(|| {
                let bundle = trusted(&directory, bundle, signers.as_ref())?;
                build(&engine, serving.as_deref(), &directory, &bundle, until)
            })
        });
        let built = building.await;
        built.unwrap_or_else(|broke| Err(LoadError::broken(&id.0, &broke.to_string())))
    }

    /// Lets a chain serve, if it may; returns when to look again.
    async fn admit(&self, id: &Directory, content: String, built: Built, took: Duration) -> Next {
        let Err(problem) = (self.loader.admit)(&built.chain).await else {
            self.swap(content, built, took);
            return Next::Settled;
        };
        let error = LoadError::new("unmet", &id.0, problem);
        self.refuse(content, Some(built), error);
        Next::After(ADMIT_PAUSE.min(self.first_pause()))
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
            Err(error) if error.is_of_the_disk() => return Ok(self.unreadable(id, &error)),
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
                    self.refuse(content, None, error);
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
    let bundle = read.map_err(|error| LoadError::of_bundle("invalid_bundle", directory, &error))?;
    if let Some(signers) = signers {
        let checked = signers.check(&bundle);
        checked.map_err(|problem| LoadError::new("unsigned", directory, problem))?;
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
    let chain = Chain::load_until(engine, serving, bundle, until);
    let chain = chain.map_err(|error| LoadError {
        plugin: Some(error.plugin.clone()),
        ..LoadError::new("invalid_plugin", directory, error)
    })?;
    let failures = chain.prove_until(until);
    if !failures.is_empty() {
        return Err(LoadError::unproven(directory, &failures));
    }
    let warnings = chain.warnings_until(until);
    Ok(Built { chain, warnings })
}

#[cfg(test)]
mod tests;
