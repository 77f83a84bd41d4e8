//! The control plane itself, tested. Needs its programs: built by the first test that asks, if they are nowhere.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the questions to the cluster fail a test as the tests themselves do"
)]

mod behaviours;
mod cluster;
mod objects;
mod owner;
mod restart;
