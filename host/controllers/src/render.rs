//! From a Browser and its namespace's BrowserConfigs to a pod: pure, and the same bytes for the same input.
//!
//! 1. [`resolve()`] finds the version that a Browser asks for, merges it over the template and checks the result.
//! 2. [`render_pod`] makes the pod of it.
//!
//! [`accept()`] tells for each BrowserConfig whether it serves all that it defines, and [`config_version`] names what it amounts to.

mod accept;
mod check;
#[cfg(test)]
mod fixtures;
mod merge;
mod options;
mod pod;
mod resolve;
mod similar;

pub use accept::{Acceptance, Duplicate, Problem, accept};
pub use merge::{EffectiveConfig, config_version, merge};
pub use options::OptionsError;
pub use pod::{RenderError, browser_labels, hostname, render_pod};
pub use resolve::{ConfigRef, Missing, Pair, ResolveError, Resolved, resolve};

#[cfg(test)]
mod tests;
