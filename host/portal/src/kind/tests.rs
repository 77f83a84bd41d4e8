//! What passes ask of the API server, and what they make of its answers.

pub(crate) mod cluster;
mod deletion;
mod faults;
mod identity;
mod server;
mod tunnels;

use super::ExposeKind;
use crate::class::ClassKind;
use podloom_engine::kind::{Kind, ResourceScope};

#[test]
fn the_kinds_are_in_namespaces_and_in_the_cluster() {
    assert_eq!(ExposeKind::TRAITS.scope, ResourceScope::Namespaced);
    assert_eq!(ClassKind::TRAITS.scope, ResourceScope::Cluster);
}
