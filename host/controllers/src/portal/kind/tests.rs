//! What passes ask of the API server, and what they make of its answers.

pub(in crate::portal) mod cluster;
mod deletion;
mod faults;
mod identity;
mod server;
mod tunnels;

use super::ExposeKind;
use crate::engine::kind::{Kind, ResourceScope};
use crate::portal::class_kind::ClassKind;

#[test]
fn the_kinds_are_in_namespaces_and_in_the_cluster() {
    assert_eq!(ExposeKind::TRAITS.scope, ResourceScope::Namespaced);
    assert_eq!(ClassKind::TRAITS.scope, ResourceScope::Cluster);
}
