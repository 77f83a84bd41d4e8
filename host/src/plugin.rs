//! `podloom plugin`: commands for authors and reviewers of plugins.

pub(crate) mod build;
pub(crate) mod inspect;
pub(crate) mod new;
pub(crate) mod pack;
pub(crate) mod test;
