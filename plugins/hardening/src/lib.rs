//! The standard plugin `hardening`.
