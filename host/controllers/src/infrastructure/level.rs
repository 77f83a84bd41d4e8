//! The two levels of Clouds and providers: in namespaces, for those who work there, and cluster-scoped, for all. All code is the same.

use podloom_api::names::infrastructure::{FIELD_MANAGER, IN_USE_FINALIZER};

use crate::engine::kind::{ResourceScope, Traits, Unreadable};

/// A level of Clouds and providers.
pub(crate) trait Level: Send + Sync + 'static {
    /// What the engine must know about the Clouds of the level.
    const CLOUD: Traits;
    /// What the engine must know about its providers.
    const PROVIDER: Traits;
}

/// Clouds and InfrastructureProviders.
pub(crate) struct InNamespaces;

/// GlobalClouds and GlobalInfrastructureProviders.
pub(crate) struct Global;

impl Level for InNamespaces {
    const CLOUD: Traits = guarded("Cloud", "cloud", ResourceScope::Namespaced);
    const PROVIDER: Traits = guarded(
        "InfrastructureProvider",
        "infrastructureprovider",
        ResourceScope::Namespaced,
    );
}

impl Level for Global {
    const CLOUD: Traits = guarded("GlobalCloud", "globalcloud", ResourceScope::Cluster);
    const PROVIDER: Traits = guarded(
        "GlobalInfrastructureProvider",
        "globalinfrastructureprovider",
        ResourceScope::Cluster,
    );
}

/// What is the same for all of them. One that our types cannot hold keeps the finalizer, since Clusters may need it.
const fn guarded(kind: &'static str, controller: &'static str, scope: ResourceScope) -> Traits {
    Traits {
        scope,
        finalizer: Some(IN_USE_FINALIZER),
        unreadable: Unreadable::Keep,
        ..Traits::of(kind, controller, FIELD_MANAGER)
    }
}
