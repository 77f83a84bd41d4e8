//! The API groups and the kinds in them: the two sets that Selenosis' kinds are served in, and the kinds of infrastructure.

use std::str::FromStr;

use kube::core::{ApiResource, GroupVersionKind};

use crate::names::infrastructure::{GROUP, VERSION};

/// Which set of API groups an installation serves Browsers and BrowserConfigs in.
///
/// One install watches one set.
///
/// ```
/// use podloom_api::{SelenosisApi, SelenosisKind};
///
/// let api: SelenosisApi = "split".parse()?;
/// assert_eq!(api.resource(SelenosisKind::Browser).api_version, "browser.selenosis.io/v1");
/// # Ok::<(), podloom_api::UnknownSelenosisApi>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SelenosisApi {
    /// Both kinds in `selenosis.io/v1`.
    #[default]
    Seed,
    /// A group per kind, as today's Selenosis installations have it: `browser.selenosis.io/v1` and `browserconfig.selenosis.io/v1`.
    Split,
}

/// One of our kinds that exists in both sets of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SelenosisKind {
    /// One browser session.
    Browser,
    /// What the pods of sessions look like.
    BrowserConfig,
}

/// A name that is none of the sets of API groups.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no Selenosis API, use seed or split")]
pub struct UnknownSelenosisApi(
    /// The name as it was given.
    pub String,
);

written!(
    SelenosisApi, name, "Returns the name that the command line knows this set by.":
    Seed = "seed", Split = "split"
);

written!(
    SelenosisKind, name, "Returns the kind as documents write it.":
    Browser = "Browser", BrowserConfig = "BrowserConfig"
);

impl SelenosisApi {
    /// The version that both sets serve.
    pub const VERSION: &'static str = "v1";

    /// Returns the API group of a kind in this set.
    pub fn group(self, kind: SelenosisKind) -> &'static str {
        match (self, kind) {
            (Self::Seed, SelenosisKind::Browser | SelenosisKind::BrowserConfig) => "selenosis.io",
            (Self::Split, SelenosisKind::Browser) => "browser.selenosis.io",
            (Self::Split, SelenosisKind::BrowserConfig) => "browserconfig.selenosis.io",
        }
    }

    /// Returns what a dynamic client needs to know of a kind in this set.
    pub fn resource(self, kind: SelenosisKind) -> ApiResource {
        let gvk = GroupVersionKind::gvk(self.group(kind), Self::VERSION, kind.name());
        ApiResource::from_gvk_with_plural(&gvk, kind.plural())
    }

    /// Returns the set and the kind of a document, or none if it is of another kind.
    ///
    /// An apiVersion of ours with a kind of another set, such as a BrowserConfig in `browser.selenosis.io/v1`, is none of ours.
    pub fn recognize(api_version: &str, kind: &str) -> Option<(Self, SelenosisKind)> {
        let (group, version) = api_version.split_once('/')?;
        let kind = SelenosisKind::ALL
            .into_iter()
            .find(|known| known.name() == kind)?;
        let api = Self::ALL.into_iter().find(|api| api.group(kind) == group)?;
        (version == Self::VERSION).then_some((api, kind))
    }
}

texts!(
    SelenosisKind, plural, "Returns the plural that URLs use.":
    Browser = "browsers", BrowserConfig = "browserconfigs"
);

impl FromStr for SelenosisApi {
    type Err = UnknownSelenosisApi;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|api| api.name() == name)
            .ok_or_else(|| UnknownSelenosisApi(name.to_owned()))
    }
}

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

written!(
    InfrastructureKind, name, "Returns the kind, as in `kind:` of a manifest.":
    Cluster = "Cluster", Cloud = "Cloud", GlobalCloud = "GlobalCloud",
    InfrastructureProvider = "InfrastructureProvider",
    GlobalInfrastructureProvider = "GlobalInfrastructureProvider"
);

texts!(
    InfrastructureKind, plural, "Returns the plural name of the resource.":
    Cluster = "clusters", Cloud = "clouds", GlobalCloud = "globalclouds",
    InfrastructureProvider = "infrastructureproviders",
    GlobalInfrastructureProvider = "globalinfrastructureproviders"
);

impl InfrastructureKind {
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
