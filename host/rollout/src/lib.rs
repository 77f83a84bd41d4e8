//! ChainRollouts: how the chain of `--candidate` comes to serve, step by step, and what takes it back.
//!
//! - `route` says which chain the pods of an owner pass. Every replica of the operator asks it, and it is pure: replicas agree without
//!   talking.
//! - `kind` is the controller. It knows no chain: replicas write into the status which chains they have, and what they counted.
//! - `plan` decides the next step from that, and `judge` whether a limit is reached. Both are pure.
//! - `tally` follows the pods that passed either chain.
//!
//! The status is all that is known of a rollout. Time counts only while somebody judges, so clocks need not agree.

mod judge;
mod kind;
mod metrics;
mod plan;
mod pod;
mod route;
mod tally;
mod wiring;

pub use kind::{BEAT, BEAT_AT_REST};
pub use metrics::RolloutMetrics;
pub use route::{Route, first};
pub use wiring::{RolloutSetup, begin};
