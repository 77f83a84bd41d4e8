//! A real node, and the operator on it as a user installs it.
//!
//! With `PODLOOM_REAL_NODE=1` these tests run, and fail where a node cannot run; otherwise they are skipped.
//! `PODLOOM_IMAGE` is the archive of `cargo xtask image`, `PODLOOM_DIST_ROOT` the directory with its files, `PODLOOM_BUNDLE` the
//! standard plugins, and `PODLOOM_BLACKBOX_BINARY` the binary for `podloom bundle`.
//!
//! One node runs all tests, one after the other: they share two cores, and each needs the operator in a state of its own.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is test code: what goes wrong fails the test"
)]

mod cluster;
mod confinement;
mod disruptions;
mod guide;
mod helm;
mod install;
mod owner;
mod portal;
mod possible;
mod sessions;
mod upgrade;
mod warm;
mod ways;
mod webhooks;
