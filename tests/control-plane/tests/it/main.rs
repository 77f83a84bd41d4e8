//! Tests of the control plane itself. If its programs are not installed, the first test builds them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is test code: what goes wrong fails the test"
)]

mod behaviours;
mod cluster;
mod objects;
mod owner;
mod restart;
