//! What somebody excepts pods from.

use std::time::Duration;

/// A ChainException that is about a pod and has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodException {
    /// Its name.
    pub name: String,
    /// The plugins, as the chain names them.
    pub plugins: Vec<String>,
    /// What they do with the pod.
    pub effect: Effect,
    /// When it ends, for people.
    pub until: String,
    /// How long it lasts from its creation on. It holds only for plugins that allow as much.
    pub lasts: Duration,
}

/// What a plugin does with an excepted pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It runs, and a denial becomes a warning.
    Warn,
    /// It does not run.
    Skip,
}
