//! The standard plugin `labels`.
