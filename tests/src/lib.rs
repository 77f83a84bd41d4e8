//! The building blocks of the black-box tests: control planes, operators as processes, and clients that record what they watch.
//!
//! A test is a function that [`blackbox`] runs in a namespace of its own:
//!
//! ```ignore
//! blackbox("my-test", async |scene| {
//!     scene.behaviours().await;
//!     let seen = scene.watch_browsers().await;
//!     scene.browser("b", "oom-killed").await;
//!     assert_eq!(seen.until_gone("b").await, [..]);
//! });
//! ```
//!
//! Nothing here knows the operator's code: the operator is the binary that `PODLOOM_BLACKBOX_BINARY` names, with the rights that
//! `deploy/` gives it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is all test code: what goes wrong fails the test"
)]

mod bundle;
mod chromium;
pub mod cleaner;
mod cluster;
pub mod doors;
pub mod doubles;
pub mod edits;
pub mod faults;
pub mod helm;
mod http;
pub mod im;
pub mod infrastructure;
pub mod kustomize;
pub mod lives;
pub mod monitoring;
pub mod objects;
mod operator;
pub mod portal;
mod process;
pub mod prometheus;
pub mod registry;
mod rights;
pub mod rules;
mod run;
mod scene;
mod script;
mod seed;
pub mod servers;
mod specs;
pub mod steps;
pub mod usage;
mod wait;
mod watched;
pub mod webhook;

pub use bundle::{Bundle, MountedBundle, assemble, standard};
pub use chromium::Chromium;
pub use cluster::{AuditedRequest, Cluster, Said};
pub use http::{Answer, free_address, get};
pub use operator::{Operator, binary};
pub use process::Signal;
pub use rights::{Account, election, may_lead, rbac, unused};
pub use run::{blackbox, blackbox_on, blackbox_within};
pub use scene::Scene;
pub use script::Script;
pub use seed::Seed;
pub use specs::{Specs, with};
pub use wait::{PATIENCE, eventually, eventually_within, within};
pub use watched::{Change, Object, Watched};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, even if a thread panicked while it held the lock.
pub fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
