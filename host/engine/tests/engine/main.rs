//! The engine on a real API server, with a kind of these tests' own.
//!
//! Lamps are in namespaces, streets are cluster-scoped, and one implementation serves both: see [`kind`]. It uses what the engine
//! offers to every kind and nothing else.
//!
//! `cargo xtask test` says by `PODLOOM_CONTROL_PLANE` that a control plane may be started. Without it every test passes by, and says
//! so.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is all test code: what goes wrong fails the test that asked"
)]

mod changed;
mod cluster;
mod created;
mod deleted;
mod kind;
mod plan;
mod readiness;
mod refused;
mod scene;
mod status;
mod unreadable;
