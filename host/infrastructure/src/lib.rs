//! Clusters of machines, which Infrastructure Managers (IM) create from TOSCA templates on clouds.
//!
//! - `template` says what of a template, and of a change, can be sent; `kubeconfig` which kubeconfigs are stored. Both are pure.
//! - `im` sends requests to an IM.
//! - `resolve` finds what a Cluster's Cloud leads to, and `in_use` keeps it from being deleted. `secrets` reads the
//!   values that a request needs.
//! - `cluster` is the controller of Clusters: it asks an IM for one thing at a time, and records it first.
//! - `provider` and `cloud` are the controllers of the four kinds beside Clusters.
//! - `validate` says what is wrong with an object before it is stored, and `offline` with an object in a file.

mod cloud;
mod cluster;
mod drift;
#[cfg(test)]
mod fixtures;
mod im;
mod in_use;
mod insecure;
mod kubeconfig;
mod metrics;
pub mod offline;
mod probed;
mod provider;
mod resolve;
mod said;
mod secrets;
mod template;
#[cfg(test)]
mod tests;
pub mod validate;
mod wiring;

pub use metrics::InfrastructureMetrics;
pub use wiring::InfrastructureSetup;
pub use wiring::begin;
