//! The ids that a loop handles.

use std::fmt::Display;
use std::hash::Hash;

/// Identifies one thing that the loop handles: a path, a number, a UID.
///
/// Implemented for every suitable type. Ids are cloned often, so prefer `Arc<str>` to a long `String`.
/// `Display` is for the log; ids never become metric labels.
/// The implementations of these traits must not panic: they run in the loop itself, where panics are not caught.
pub trait Id: Clone + Eq + Hash + Display + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + Display + Send + Sync + 'static> Id for T {}
