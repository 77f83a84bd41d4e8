//! Hot reload: loads the chain of a directory again whenever the content of the directory changes.
//!
//! A control loop with one id, the directory. The *source* emits it every few seconds and whenever the file system reports a
//! change; the *storage* reads a consistent snapshot of it; the *handler* builds the next chain, proves it, and swaps it in.
//! If anything fails, the last good chain keeps serving.

mod build;
mod directory;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use podloom_control_loop::{ControlLoop, Options, Recorder};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::build::Builder;
use self::directory::{Directories, Directory, Disk};
use crate::bundle::BundleError;
use crate::chain::Chain;
use crate::engine::Engine;
use crate::manifest::MANIFEST;
use crate::proof::ProofFailure;
use crate::signature::Signers;
use crate::text;

/// How much longer than its timeout a build may take before the loop drops it: a call of a plugin that runs then ends first.
const BUILD_GRACE: Duration = Duration::from_secs(60);

/// Says whether a chain that was proved may serve here, or else what is missing.
pub type Admit = Arc<dyn Fn(&Chain) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Loads the chain of a directory, and loads it again whenever the directory changes.
pub struct Loader {
    /// The loop's name in metrics and logs.
    pub name: &'static str,
    /// The directory with chain.yaml and the plugins.
    pub directory: PathBuf,
    /// The engine that the chain runs on.
    pub engine: Arc<Engine>,
    /// Holds the chain that serves.
    pub slot: Arc<Slot>,
    /// Who must have signed the chain; nobody if none are given.
    pub signers: Option<Signers>,
    /// Whether a chain may serve here; one that may not is asked about again.
    pub admit: Admit,
    /// How changes are noticed.
    pub watch: WatchMode,
    /// How often the directory is read even if no change was noticed.
    pub scan_interval: Duration,
    /// How long building and proving a chain may take.
    pub build_timeout: Duration,
    /// Called after each attempt, once the slot is updated.
    pub report: Arc<dyn Fn(&Reload) + Send + Sync>,
    /// The loop's metrics.
    pub recorder: Arc<dyn Recorder>,
}

/// How changes of a directory are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchMode {
    /// By notifications of the file system; scans find what these miss.
    #[default]
    Notified,
    /// Only by scans, for file systems without notifications.
    Scanned,
}

/// The result of an attempt to load a chain.
#[derive(Clone, Debug)]
pub enum Reload {
    /// Another chain serves from now on.
    Swapped {
        /// That chain; [`Plugin::compiled_in`](crate::Plugin::compiled_in) is set for its new plugins.
        chain: Arc<Chain>,
        /// How long building and proving it took.
        took: Duration,
    },
    /// After refused content, the directory has the content of the serving chain again.
    Restored {
        /// The chain that serves.
        chain: Arc<Chain>,
    },
    /// The last good chain keeps serving, if there was one.
    Refused {
        /// Why.
        error: Arc<LoadError>,
        /// Whether the attempt before failed with the same message.
        repeated: bool,
    },
}

impl Reload {
    /// One word for a metric.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Swapped { .. } => "success",
            Self::Restored { .. } => "restored",
            Self::Refused { error, .. } => error.reason,
        }
    }
}

/// Why a chain could not be loaded from a directory.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct LoadError {
    /// One word for a metric: `unreadable`, `invalid_bundle`, `unsigned`, `invalid_plugin`, `unproven`, `unmet`, or `broken`, which is
    /// a bug of the host.
    pub reason: &'static str,
    /// The plugin that caused it, if a plugin did.
    pub plugin: Option<String>,
    /// What is wrong, and in which directory.
    pub message: String,
}

impl LoadError {
    fn new(reason: &'static str, directory: &Path, problem: impl fmt::Display) -> Self {
        Self {
            reason,
            plugin: None,
            message: format!("{}: {problem}", directory.display()),
        }
    }

    /// Building the chain panicked.
    pub fn broken(directory: &Path, panic: &str) -> Self {
        let problem = format!("building the chain panicked, which is a bug of podloom: {panic}");
        Self::new("broken", directory, problem)
    }

    fn of_bundle(reason: &'static str, directory: &Path, error: &BundleError) -> Self {
        let message = text::with_sources(error);
        let mut error = Self::new(reason, directory, &message);
        if message.contains(&directory.display().to_string()) {
            error.message = message;
        }
        error
    }

    /// `failures` has at least one item.
    fn unproven(directory: &Path, failures: &[ProofFailure]) -> Self {
        const SHOWN: usize = 5;
        let shown = failures.iter().take(SHOWN).map(ToString::to_string);
        let mut problem = shown.collect::<Vec<_>>().join("; ");
        if failures.len() > SHOWN {
            problem.push_str(&format!("; and {} more", failures.len() - SHOWN));
        }
        Self {
            plugin: failures.first().and_then(|failure| failure.plugin.clone()),
            ..Self::new("unproven", &directory.join(MANIFEST), problem)
        }
    }
}

impl Loader {
    /// Loads, watches and reloads until `stop` is cancelled. Compiling runs on threads of its own.
    pub async fn run(self, stop: CancellationToken) {
        let directory = Directory(self.directory.as_path().into());
        let disk = Disk::default();
        let source = Directories::new(directory, self.watch, disk.clone());
        let options = Options {
            workers: NonZeroUsize::MIN,
            resync_interval: Some(self.scan_interval),
            backoff_cap: self.scan_interval,
            handle_timeout: self.build_timeout.saturating_add(BUILD_GRACE),
            ..Options::default()
        };
        let control = ControlLoop {
            options,
            recorder: Arc::clone(&self.recorder),
            ..ControlLoop::new(self.name, source, disk, Builder::new(self))
        };
        control.run(stop).await;
    }
}

/// Holds the chain that serves. It is swapped atomically, so a pod passes through one chain from start to end.
pub struct Slot {
    serving: ArcSwap<Serving>,
    attempted: watch::Sender<bool>,
}

/// The chain that serves, and the error of the last attempt to load one.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    /// None until a chain was loaded.
    pub chain: Option<Arc<Chain>>,
    /// Since when it serves.
    pub since: Option<SystemTime>,
    /// Why the last attempt failed, if it did.
    pub failed: Option<FailedReload>,
}

/// A failed attempt to load a chain.
#[derive(Clone, Debug)]
pub struct FailedReload {
    /// When it failed like this for the first time.
    pub at: SystemTime,
    /// Why.
    pub error: Arc<LoadError>,
}

impl Default for Slot {
    /// Nothing serves yet.
    fn default() -> Self {
        Self {
            serving: ArcSwap::default(),
            attempted: watch::Sender::new(false),
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.serving()).finish()
    }
}

impl Slot {
    /// What serves now. Get it once per pod, so that the pod sees one chain.
    pub fn serving(&self) -> Arc<Serving> {
        self.serving.load_full()
    }

    /// Waits until the first attempt to load a chain has succeeded or failed.
    pub async fn attempted(&self) {
        let mut attempted = self.attempted.subscribe();
        // The sender lives as long as the slot.
        let _never_closed = attempted.wait_for(|attempted| *attempted).await;
    }

    /// Swaps in another chain.
    pub fn swap(&self, chain: Arc<Chain>) {
        self.serving.store(Arc::new(Serving {
            chain: Some(chain),
            since: Some(SystemTime::now()),
            failed: None,
        }));
        self.attempted.send_replace(true);
    }

    /// Clears the last failure; returns the serving chain if there was a failure.
    fn restore(&self) -> Option<Arc<Chain>> {
        let serving = self.serving();
        serving.failed.as_ref()?;
        self.serving.store(Arc::new(Serving {
            failed: None,
            ..Serving::clone(&serving)
        }));
        serving.chain.clone()
    }

    /// Records why an attempt failed; returns whether the attempt before failed for the same reason. The chain keeps serving.
    pub fn refuse(&self, error: &Arc<LoadError>) -> bool {
        let serving = self.serving();
        let known = serving
            .failed
            .as_ref()
            .is_some_and(|failed| failed.error.to_string() == error.to_string());
        if !known {
            let failed = FailedReload {
                at: SystemTime::now(),
                error: Arc::clone(error),
            };
            self.serving.store(Arc::new(Serving {
                failed: Some(failed),
                ..Serving::clone(&serving)
            }));
        }
        self.attempted.send_replace(true);
        known
    }
}
