//! Podloom's chain of sandboxed WebAssembly pod mutators.
//!
//! [`Bundle::read`] takes a consistent snapshot of a plugin directory, [`Chain::load`] makes a chain of it on an
//! [`Engine`], [`Chain::prove`] tries the chain on sample pods, and [`Chain::mutate`] passes a pod through it.
//! [`Loader`] repeats the first three steps whenever the directory changes.
//! Each call of a plugin gets a fresh sandbox, and each of its reads and writes is checked against the paths that it was granted.

mod bundle;
mod chain;
mod component;
mod contract;
mod engine;
mod error;
mod file;
mod limits;
mod loader;
mod manifest;
mod matching;
mod metrics;
mod plugin;
mod proof;
mod request;
mod sandbox;
mod signature;
mod stamp;
mod text;
mod warnings;

pub use bundle::{Bundle, BundleError, SIGNATURE};
pub use chain::{Chain, ChainError, Pass, PluginGrants, Progress, Values};
pub use component::Form;
pub use contract::SERVED;
pub use engine::{Engine, EngineOptions, InstanceAllocation};
pub use error::{ConfigComplaint, PluginError};
pub use file::{sha256, wasm_of};
pub use limits::{CallLimits, PluginSize};
pub use loader::{Admit, FailedReload, LoadError, Loader, Reload, Serving, Slot, WatchMode};
pub use manifest::{FailurePolicy, MANIFEST, manifest_schema};
pub use matching::{Match, Takes, literal as cel_literal};
pub use metrics::PluginMetrics;
pub use plugin::{Description, Inspection, Plugin, inspect};
pub use proof::{ProofFailure, SAMPLE_PODS, sample_pods};
pub use signature::{PublicKey, Signers};
pub use stamp::{CHAIN, MUTATIONS, MutationEntry};
pub use warnings::{ChainWarning, Denials};
