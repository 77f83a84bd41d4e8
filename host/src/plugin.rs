//! `podloom plugin`: for those who write plugins and those who review them.

pub(crate) mod inspect;
pub(crate) mod test;
