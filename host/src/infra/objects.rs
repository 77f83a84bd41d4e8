//! The Clusters, clouds and Infrastructure Managers of some files, as the types of their kinds.

use kube::core::Object as Stored;
use podloom_api::{
    CloudKind, CloudObject, ClusterObject, InfrastructureKind, InfrastructureProviderObject,
    ProviderKind,
};
use serde::de::DeserializeOwned;

use crate::error::Diagnostic;
use crate::manifest::{self, Document, DocumentKind};
use crate::render::typed::typed;

/// An object of a file.
pub(super) struct Object<'a, K> {
    pub(super) document: &'a Document,
    pub(super) value: K,
    kind: InfrastructureKind,
    /// Its namespace; empty for a kind that has none.
    pub(super) namespace: String,
}

impl<K> Object<'_, K> {
    fn is(&self, kind: InfrastructureKind, namespace: &str, name: &str) -> bool {
        self.kind == kind && self.namespace == namespace && self.document.name() == name
    }
}

/// What is read of the status of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// All, if our types can hold it.
    Read,
    /// Nothing: the object is one to apply, and its status means nothing.
    LeftOut,
}

/// The objects of some files.
#[derive(Default)]
pub(super) struct Objects<'a> {
    pub(super) clusters: Vec<Object<'a, ClusterObject>>,
    pub(super) clouds: Vec<Object<'a, CloudObject>>,
    pub(super) providers: Vec<Object<'a, InfrastructureProviderObject>>,
    /// What does not fit its type, by the index of its document.
    pub(super) unreadable: Vec<(usize, Diagnostic)>,
}

impl<'a> Objects<'a> {
    pub(super) fn read(documents: &'a [Document], namespace: &str, status: Status) -> Self {
        use InfrastructureKind as Kind;
        let mut objects = Self::default();
        for (index, document) in documents.iter().enumerate() {
            let DocumentKind::Infrastructure(kind) = manifest::kind(document) else {
                continue;
            };
            let place = Place {
                document,
                kind,
                namespace: match kind.is_global() {
                    true => "",
                    false => document.namespace(namespace),
                },
                status,
            };
            let read = match kind {
                Kind::Cluster => place.object().map(|it| objects.clusters.push(it)),
                Kind::Cloud | Kind::GlobalCloud => place.object().map(|it| objects.clouds.push(it)),
                Kind::InfrastructureProvider | Kind::GlobalInfrastructureProvider => {
                    place.object().map(|it| objects.providers.push(it))
                }
            };
            if let Err(diagnostic) = read {
                objects.unreadable.push((index, diagnostic));
            }
        }
        objects
    }

    /// Whether the templates of a Cluster may name files; none if the files lack its cloud, or the provider of that.
    pub(super) fn allows_file_references(
        &self,
        cluster: &Object<'_, ClusterObject>,
    ) -> Option<bool> {
        use InfrastructureKind as Kind;
        let home = cluster.namespace.as_str();
        let cloud_ref = cluster.value.spec.cloud_ref.as_ref()?;
        let (kind, namespace) = match cloud_ref.kind {
            CloudKind::Cloud => (Kind::Cloud, home),
            CloudKind::GlobalCloud => (Kind::GlobalCloud, ""),
        };
        let mut clouds = self.clouds.iter();
        let cloud = clouds.find(|it| it.is(kind, namespace, &cloud_ref.name))?;
        let provider_ref = &cloud.value.spec.provider_ref;
        let (kind, namespace) = match provider_ref.kind {
            ProviderKind::InfrastructureProvider => {
                (Kind::InfrastructureProvider, cloud.namespace.as_str())
            }
            ProviderKind::GlobalInfrastructureProvider => (Kind::GlobalInfrastructureProvider, ""),
        };
        let mut providers = self.providers.iter();
        let provider = providers.find(|it| it.is(kind, namespace, &provider_ref.name))?;
        Some(provider.value.spec.im.allow_file_references)
    }
}

/// Returns the object of the same kind, namespace and name.
pub(super) fn same<'o, K>(objects: &'o [Object<'_, K>], other: &Object<'_, K>) -> Option<&'o K> {
    let name = other.document.name();
    let mut objects = objects.iter();
    let found = objects.find(|it| it.is(other.kind, &other.namespace, name));
    found.map(|it| &it.value)
}

/// Where an object is from, and what it is.
struct Place<'a, 'n> {
    document: &'a Document,
    kind: InfrastructureKind,
    namespace: &'n str,
    status: Status,
}

impl<'a> Place<'a, '_> {
    fn object<S, U>(&self) -> Result<Object<'a, Stored<S, U>>, Diagnostic>
    where
        S: Clone,
        U: Clone,
        Stored<S, U>: DeserializeOwned,
    {
        let document = self.document;
        let stored = match self.status {
            Status::Read => serde_json::from_value(document.value.clone()).ok(),
            Status::LeftOut => None,
        };
        let mut value: Stored<S, U> = match stored {
            Some(value) => value,
            None => typed(document)?,
        };
        // A kind without namespaces has none, whatever its manifest says.
        let namespace = Some(self.namespace).filter(|it| !it.is_empty());
        value.metadata.namespace = namespace.map(str::to_owned);
        Ok(Object {
            document,
            value,
            kind: self.kind,
            namespace: self.namespace.to_owned(),
        })
    }
}
