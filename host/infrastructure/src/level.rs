//! The two levels of Clouds and providers: in namespaces, for those who work there, and cluster-scoped, for all. All code is the same.

use podloom_api::names::infrastructure::{FIELD_MANAGER, IN_USE_FINALIZER};
use podloom_engine::kind::{ResourceScope, Traits, Unreadable};

/// A level of the objects of a kind.
pub(crate) trait Level<P>: Send + Sync + 'static {
    /// What the engine must know about them.
    const TRAITS: Traits;
}

/// Clouds and InfrastructureProviders.
pub(crate) struct InNamespaces;

/// GlobalClouds and GlobalInfrastructureProviders.
pub(crate) struct Global;

/// What is the same for all of them. One that our types cannot hold keeps the finalizer, since Clusters may need it.
pub(crate) const fn guarded(
    kind: &'static str,
    controller: &'static str,
    scope: ResourceScope,
) -> Traits {
    Traits {
        scope,
        finalizer: Some(IN_USE_FINALIZER),
        unreadable: Unreadable::Keep,
        ..Traits::of(kind, controller, FIELD_MANAGER)
    }
}
