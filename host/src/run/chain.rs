//! The chain that serves, and how it is loaded.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use podloom_mutators::{Bundle, Chain, Engine, MANIFEST};

/// The chain that serves now; swapped as a whole, so that a pod sees one chain from start to end.
#[derive(Debug)]
pub(crate) struct Slot(ArcSwap<Serving>);

/// What serves, and what was told of the last attempt to load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Serving {
    /// None until a chain was good.
    pub(crate) chain: Option<Arc<Chain>>,
    /// When it began to serve.
    pub(crate) since: Option<Timestamp>,
    /// Why the last attempt came to nothing, if it did.
    pub(crate) error: Option<LoadError>,
}

/// An attempt to load a chain that came to nothing.
#[derive(Clone, Debug)]
pub(crate) struct LoadError {
    /// When.
    pub(crate) at: Timestamp,
    /// Why, for people.
    pub(crate) message: String,
}

impl Slot {
    /// Nothing serves yet.
    pub(crate) fn new() -> Self {
        Self(ArcSwap::default())
    }

    /// What serves now.
    pub(crate) fn serving(&self) -> Arc<Serving> {
        self.0.load_full()
    }

    /// Serves another chain from now on.
    pub(crate) fn swap(&self, chain: Arc<Chain>) {
        self.0.store(Arc::new(Serving {
            chain: Some(chain),
            since: Some(Timestamp::now()),
            error: None,
        }));
    }

    /// Remembers why an attempt failed. What serves goes on serving.
    pub(crate) fn refuse(&self, message: String) {
        let error = LoadError {
            at: Timestamp::now(),
            message,
        };
        self.0.rcu(|serving| Serving {
            error: Some(error.clone()),
            ..Serving::clone(serving)
        });
    }
}

/// Reads, compiles and proves the chain of a directory. Blocks for as long as that takes.
pub(crate) fn load(engine: &Arc<Engine>, directory: &Path) -> Result<Chain, String> {
    let bundle =
        Bundle::read(directory).map_err(|error| format!("{:#}", anyhow::Error::new(error)))?;
    let chain = Chain::load(engine, &bundle)
        .map_err(|error| format!("{}: {error}", directory.display()))?;
    let failures = chain.prove();
    if failures.is_empty() {
        return Ok(chain);
    }
    let told: Vec<String> = failures.iter().map(ToString::to_string).collect();
    Err(format!(
        "{}/{MANIFEST}: {}",
        directory.display(),
        told.join("; ")
    ))
}
