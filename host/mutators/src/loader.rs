//! Hot reload: the chain of a directory, loaded anew when what is in the directory changes.
//!
//! A control loop with one id, the directory. The *source* names it every few seconds, and whenever the file system tells of a
//! change; the *storage* reads a consistent snapshot of it; the *handler* builds the next chain, proves it, and swaps it in.
//! Whatever goes wrong, the last good chain keeps serving.

mod build;
mod disk;
mod identity;
mod slot;
mod snapshot;
mod watch;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use podloom_control_loop::{ControlLoop, Options, Recorder};
use tokio_util::sync::CancellationToken;

use self::build::Builder;
use self::disk::Disk;
use self::identity::Directory;
use self::snapshot::Snapshots;
use self::watch::Directories;
use crate::bundle::BundleError;
use crate::chain::{Chain, ChainError};
use crate::engine::Engine;
use crate::manifest::MANIFEST;
use crate::proof::ProofFailure;
use crate::text;

pub use self::slot::{FailedReload, Serving, Slot};

/// The loop's name in metrics and logs.
const NAME: &str = "plugins";
/// A build ends by itself when its time is over, but not before the plugin returns that is called at that moment; then comes
/// this.
const BUILD_GRACE: Duration = Duration::from_secs(60);

/// Loads the chain of a directory, and again whenever the directory changes.
pub struct Loader {
    /// The directory: chain.yaml and the plugins.
    pub directory: PathBuf,
    /// The process's engine.
    pub engine: Arc<Engine>,
    /// Where the chain serves.
    pub slot: Arc<Slot>,
    /// How changes are noticed.
    pub watch: WatchMode,
    /// How often the directory is read though no change was noticed.
    pub scan_interval: Duration,
    /// How long building and proving a chain may take.
    pub build_timeout: Duration,
    /// Told of every attempt, after the slot holds what came of it.
    pub tell: Arc<dyn Fn(&Reload) + Send + Sync>,
    /// The loop's metrics.
    pub recorder: Arc<dyn Recorder>,
}

/// How changes of a directory are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchMode {
    /// The file system tells, and a scan finds what it did not tell.
    #[default]
    Notified,
    /// The scan alone, as on file systems that tell nothing.
    Scanned,
}

/// What came of an attempt to load a chain.
#[derive(Clone, Debug)]
pub enum Reload {
    /// Another chain serves from now on.
    Swapped {
        /// That chain; [`Plugin::compiled_in`](crate::Plugin::compiled_in) tells which of its plugins are new.
        chain: Arc<Chain>,
        /// How long building and proving it took.
        took: Duration,
    },
    /// The directory holds again what serves, after something that was refused.
    Restored {
        /// The chain that serves.
        chain: Arc<Chain>,
    },
    /// The last good chain keeps serving, if there was one.
    Refused {
        /// Why.
        error: Arc<LoadError>,
        /// Whether the attempt before ended with the same words.
        repeated: bool,
    },
}

impl Reload {
    /// One word for a metric.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Swapped { .. } => "success",
            Self::Restored { .. } => "restored",
            Self::Refused { error, .. } => error.reason(),
        }
    }
}

/// Why the content of a directory does not serve.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The directory or a file in it cannot be read, or changes without end.
    #[error("{}", told(.directory, .error))]
    Unreadable {
        /// The directory.
        directory: PathBuf,
        /// Why; part of the message.
        error: BundleError,
    },
    /// It is no bundle: no manifest, a wrong one, or a file is missing.
    #[error("{}", told(.directory, .error))]
    Bundle {
        /// The directory.
        directory: PathBuf,
        /// What is wrong; part of the message.
        error: BundleError,
    },
    /// A plugin cannot run as the manifest asks.
    #[error("{}: {error}", .directory.display())]
    Chain {
        /// The directory.
        directory: PathBuf,
        /// Which plugin, and what is wrong; part of the message.
        error: ChainError,
    },
    /// On sample pods the chain did what it must not do.
    #[error("{}", unproven(.directory, .failures))]
    Unproven {
        /// The directory.
        directory: PathBuf,
        /// What it did, at least one thing.
        failures: Vec<ProofFailure>,
    },
    /// Building the chain broke; our own fault.
    #[error("{}: building the chain broke: {message}", .directory.display())]
    Broken {
        /// The directory.
        directory: PathBuf,
        /// How.
        message: String,
    },
}

impl LoadError {
    /// One word for a metric.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "unreadable",
            Self::Bundle { .. } => "invalid_bundle",
            Self::Chain { .. } => "invalid_plugin",
            Self::Unproven { .. } => "unproven",
            Self::Broken { .. } => "broken",
        }
    }

    /// The plugin that is to blame, if it is one.
    pub fn plugin(&self) -> Option<&str> {
        match self {
            Self::Chain { error, .. } => Some(&error.plugin),
            Self::Unproven { failures, .. } => failures.first()?.plugin.as_deref(),
            _ => None,
        }
    }
}

fn told(directory: &Path, error: &BundleError) -> String {
    let text = text::with_sources(error);
    let name = directory.display().to_string();
    if text.contains(&name) {
        return text;
    }
    format!("{name}: {text}")
}

fn unproven(directory: &Path, failures: &[ProofFailure]) -> String {
    const SHOWN: usize = 5;
    let told: Vec<String> = failures
        .iter()
        .take(SHOWN)
        .map(ToString::to_string)
        .collect();
    let mut text = format!("{}/{MANIFEST}: {}", directory.display(), told.join("; "));
    if failures.len() > SHOWN {
        text.push_str(&format!("; and {} more", failures.len() - SHOWN));
    }
    text
}

impl Loader {
    /// Loads, watches and loads again until it is told to stop. Compiling happens on threads of its own.
    pub async fn run(self, stop: CancellationToken) {
        let directory = Directory::new(&self.directory);
        let attempts = Attempts {
            slot: Arc::clone(&self.slot),
            tell: self.tell,
        };
        let disk = Disk::default();
        let source = Directories::new(directory, self.watch, disk.clone());
        let storage = Snapshots { disk };
        let handler = Builder::new(
            self.engine,
            attempts,
            self.scan_interval,
            self.build_timeout,
        );
        let options = Options {
            workers: NonZeroUsize::MIN,
            resync_interval: Some(self.scan_interval),
            backoff_cap: self.scan_interval,
            handle_timeout: self.build_timeout.saturating_add(BUILD_GRACE),
            ..Options::default()
        };
        let control = ControlLoop {
            options,
            recorder: self.recorder,
            ..ControlLoop::new(NAME, source, storage, handler)
        };
        control.run(stop).await;
    }
}

/// Where the outcome of an attempt goes: into the slot, then to whoever wants to know.
struct Attempts {
    slot: Arc<Slot>,
    tell: Arc<dyn Fn(&Reload) + Send + Sync>,
}

impl Attempts {
    fn swapped(&self, chain: Chain, took: Duration) {
        let chain = Arc::new(chain);
        self.slot.swap(Arc::clone(&chain));
        (self.tell)(&Reload::Swapped { chain, took });
    }

    fn restored(&self) {
        if let Some(chain) = self.slot.restore() {
            (self.tell)(&Reload::Restored { chain });
        }
    }

    fn refused(&self, error: &Arc<LoadError>) {
        let repeated = self.slot.refuse(error);
        (self.tell)(&Reload::Refused {
            error: Arc::clone(error),
            repeated,
        });
    }
}
