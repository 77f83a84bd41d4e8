//! What a loop goes round.

use std::fmt::Display;
use std::hash::Hash;

/// Names one thing that the loop looks after: a path, a number, a UID.
///
/// Implemented for every type that can be one. Ids are cloned often, so a long one is better an `Arc<str>` than a `String`.
/// `Display` is for the log; ids never become labels of metrics.
/// None of these implementations may panic: they run in the loop itself, where nothing catches it.
pub trait Id: Clone + Eq + Hash + Display + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + Display + Send + Sync + 'static> Id for T {}
