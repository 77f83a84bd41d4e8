//! Certificates on a real API server: leaders write them, replicas serve them, and clients trust what the configurations publish.
//!
//! Leaders and replicas have the rights that a cluster grants them, and no others.
//!
//! `cargo xtask test` says by `PODLOOM_CONTROL_PLANE` that a control plane may be started. Without it every test passes by, and says
//! so.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is all test code: what goes wrong fails the test that asked"
)]

mod client;
mod cluster;
mod lost;
mod rotation;
mod scene;
mod start;
