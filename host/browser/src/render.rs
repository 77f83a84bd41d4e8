//! From a Browser and its namespace's BrowserConfigs to a pod: pure, and the same bytes for the same input.
//!
//! 1. [`resolve()`] finds the version that a Browser asks for, merges it over the template and checks the result.
//! 2. [`render_pod`] makes the pod of it.
//!
//! [`accept()`] checks for each BrowserConfig whether it serves all that it defines, and hashes it.

mod accept;
mod check;
#[cfg(test)]
mod fixtures;
mod merge;
mod options;
mod pod;
pub(super) mod resize;
mod resolve;
mod similar;
mod warm;

pub use accept::{Acceptance, Duplicate, Problem, accept, accept_one};
pub use merge::{EffectiveConfig, merge};
pub use options::OptionsError;
pub use pod::{RenderError, browser_labels, hostname, merged_size, owner_of_session, render_pod};
pub use resolve::{ConfigRef, Missing, Pair, ResolveError, Resolved, resolve};

pub(super) use accept::MERGED_MAX;
pub(super) use check::FOUND_MAX;
pub(super) use options::{check_options, unknown_options};
pub(super) use pod::EffectiveDigest;
pub(super) use resolve::resolve_pair;
pub(super) use similar::list;
pub(super) use warm::{POOLS_MAX, is_of_session, max_age, pools, warm_problem};

#[cfg(test)]
mod tests;
