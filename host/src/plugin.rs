//! `podloom plugin`: for those who write plugins and those who review them.

pub(crate) mod build;
pub(crate) mod inspect;
pub(crate) mod new;
pub(crate) mod test;
