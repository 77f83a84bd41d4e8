//! The standard plugin `sidecar`.
