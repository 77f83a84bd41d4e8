//! The caches of what Clusters and Clouds can name.

use std::sync::Arc;

use kube::Resource;
use kube::core::ApiResource;
use kube::runtime::reflector::{ObjectRef, Store};
use podloom_api::{CloudObject, InfrastructureProviderObject};
use podloom_engine::optional::OptionalCache;
use podloom_engine::readable::Readable;
use podloom_engine::shown::shown;

use super::Key;

/// The caches of a kind whose objects are in namespaces, and of its cluster-scoped twin. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Twins<K>
where
    K: Resource<DynamicType = ApiResource> + Clone + 'static,
{
    /// The objects of the watch scope.
    pub(crate) namespaced: Store<Readable<K>>,
    /// All cluster-scoped ones, if they may be read.
    pub(crate) global: OptionalCache<Readable<K>>,
    /// The resource of either.
    pub(crate) resources: TwinResources,
}

/// The resources of a kind whose objects are in namespaces, and of its cluster-scoped twin.
#[derive(Clone)]
pub(crate) struct TwinResources {
    /// Objects in namespaces.
    pub(crate) namespaced: Arc<ApiResource>,
    /// Cluster-scoped objects.
    pub(crate) global: Arc<ApiResource>,
}

/// What the objects of one watch scope can name. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Caches {
    /// Clouds and GlobalClouds.
    pub(crate) clouds: Twins<CloudObject>,
    /// InfrastructureProviders and GlobalInfrastructureProviders.
    pub(crate) providers: Twins<InfrastructureProviderObject>,
    /// The namespace of the Secrets of cluster-scoped objects.
    pub(crate) global_secret_namespace: Arc<str>,
}

/// Why there is no object.
#[derive(Clone, Copy)]
pub(super) enum Missing {
    Absent,
    /// Our types cannot hold it.
    Unreadable,
    /// The operator may not read the kind, or it is not installed.
    Unknown,
}

impl Missing {
    pub(super) fn sentence(self, kind: &str, key: &Key) -> String {
        let name = shown(&key.name);
        match (self, &key.namespace) {
            (Self::Absent, Some(namespace)) => format!(
                "{kind} {name} does not exist in namespace {}; create it, or correct the reference",
                shown(namespace)
            ),
            (Self::Absent, None) => {
                format!("{kind} {name} does not exist; create it, or correct the reference")
            }
            (Self::Unreadable, _) => format!(
                "{kind} {name} does not fit its schema; compare it with `kubectl explain {}.spec`",
                kind.to_lowercase()
            ),
            (Self::Unknown, _) => format!(
                "{kind} {name} cannot be used: the operator may not read objects of this kind, or its CRD is not installed"
            ),
        }
    }
}

impl TwinResources {
    /// Returns the resource of an object.
    pub(crate) fn of(&self, key: &Key) -> &Arc<ApiResource> {
        match key.namespace {
            Some(_) => &self.namespaced,
            None => &self.global,
        }
    }
}

impl Caches {
    /// Returns the namespace of the Secrets of an object in a namespace, or of a cluster-scoped one.
    pub(crate) fn secret_namespace<'a>(&'a self, namespace: Option<&'a str>) -> &'a str {
        namespace.unwrap_or(&self.global_secret_namespace)
    }
}

impl<K> Twins<K>
where
    K: Resource<DynamicType = ApiResource> + Clone + 'static,
{
    /// Returns an object; none if there is none, or if the kind may not be read.
    pub(crate) fn find(&self, key: &Key) -> Option<Arc<Readable<K>>> {
        self.get(key).ok()
    }

    pub(super) fn get(&self, key: &Key) -> Result<Arc<Readable<K>>, Missing> {
        let reference = ObjectRef::new_with(&key.name, Arc::clone(self.resources.of(key)));
        let (store, reference) = match &key.namespace {
            Some(namespace) => (&self.namespaced, reference.within(namespace)),
            None => (self.global.known().ok_or(Missing::Unknown)?, reference),
        };
        store.get(&reference).ok_or(Missing::Absent)
    }
}

/// Returns an object that our types can hold.
pub(super) fn readable<K>(found: &Readable<K>) -> Result<&K, Missing> {
    found.0.as_ref().map_err(|_| Missing::Unreadable)
}
