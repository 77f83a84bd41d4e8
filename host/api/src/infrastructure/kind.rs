//! The five kinds.

use kube::core::{ApiResource, GroupVersionKind};

use crate::names::infrastructure::{GROUP, VERSION};

/// One of the kinds of the group `infrastructure.podloom.dev`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InfrastructureKind {
    /// A cluster of machines.
    Cluster,
    /// A cloud, for the Clusters of its namespace.
    Cloud,
    /// A cloud, for all Clusters.
    GlobalCloud,
    /// An Infrastructure Manager, for the Clouds of its namespace.
    InfrastructureProvider,
    /// An Infrastructure Manager, for all Clouds and GlobalClouds.
    GlobalInfrastructureProvider,
}

impl InfrastructureKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Cluster,
        Self::Cloud,
        Self::GlobalCloud,
        Self::InfrastructureProvider,
        Self::GlobalInfrastructureProvider,
    ];

    /// Returns the kind, as in `kind:` of a manifest.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Cloud => "Cloud",
            Self::GlobalCloud => "GlobalCloud",
            Self::InfrastructureProvider => "InfrastructureProvider",
            Self::GlobalInfrastructureProvider => "GlobalInfrastructureProvider",
        }
    }

    /// Returns the plural name of the resource.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Cluster => "clusters",
            Self::Cloud => "clouds",
            Self::GlobalCloud => "globalclouds",
            Self::InfrastructureProvider => "infrastructureproviders",
            Self::GlobalInfrastructureProvider => "globalinfrastructureproviders",
        }
    }

    /// Returns whether its objects are in no namespace.
    pub const fn is_global(self) -> bool {
        matches!(self, Self::GlobalCloud | Self::GlobalInfrastructureProvider)
    }

    /// Returns what a dynamic client needs to know of the kind.
    ///
    /// ```
    /// use podloom_api::InfrastructureKind;
    ///
    /// let resource = InfrastructureKind::GlobalCloud.resource();
    /// assert_eq!(resource.api_version, "infrastructure.podloom.dev/v1alpha1");
    /// assert_eq!(resource.plural, "globalclouds");
    /// ```
    pub fn resource(self) -> ApiResource {
        let kind = GroupVersionKind::gvk(GROUP, VERSION, self.name());
        ApiResource::from_gvk_with_plural(&kind, self.plural())
    }
}
