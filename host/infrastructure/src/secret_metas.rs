//! Which Secrets there are: their metadata, never their values, and only where it may be read.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::ObjectRef;
use podloom_api::names::infrastructure::annotation;
use podloom_engine::optional::OptionalCache;

use super::resolve::SecretKey;

/// The metadata of a Secret.
pub(crate) type SecretMeta = PartialObjectMeta<Secret>;

/// The metadata of Secrets of one namespace, or of all.
#[derive(Clone)]
pub(crate) struct SecretMetasOf {
    /// The namespace; none for all.
    pub(crate) namespace: Option<String>,
    /// The cache; it knows nothing without the right to list and watch Secrets.
    pub(crate) cache: OptionalCache<SecretMeta>,
}

/// The metadata of all Secrets that our objects may name. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SecretMetas(pub(crate) Arc<[SecretMetasOf]>);

impl SecretMetas {
    /// Returns whether the Secrets of a namespace may be read.
    pub(crate) fn are_known(&self, namespace: &str) -> bool {
        self.of(namespace).any(|it| it.cache.known().is_some())
    }

    /// Returns the metadata of a Secret; none if there is none, or if it may not be read.
    pub(crate) fn get(&self, secret: &SecretKey) -> Option<Arc<SecretMeta>> {
        let reference = ObjectRef::new(&secret.name).within(&secret.namespace);
        let mut caches = self.of(&secret.namespace);
        caches.find_map(|it| it.cache.known()?.get(&reference))
    }

    /// Returns the version of a Secret.
    pub(crate) fn version(&self, secret: &SecretKey) -> Option<String> {
        let found = self.get(secret)?;
        found.metadata.resource_version.clone()
    }

    /// Returns the Secrets that a test picks by their metadata.
    pub(crate) fn pick(&self, picks: impl Fn(&ObjectMeta) -> bool) -> Vec<SecretKey> {
        let stores = self.0.iter().filter_map(|it| it.cache.known());
        let picked = stores.flat_map(|store| store.state_filter(|it| picks(&it.metadata)));
        picked.map(|it| SecretKey::of(&it.metadata)).collect()
    }

    fn of(&self, namespace: &str) -> impl Iterator<Item = &SecretMetasOf> {
        let all = self.0.iter();
        all.filter(move |it| it.namespace.as_deref().is_none_or(|name| name == namespace))
    }
}

/// Keeps what is read of a Secret.
pub(crate) fn prune(secret: &mut SecretMeta) {
    secret.metadata = ObjectMeta {
        name: secret.metadata.name.take(),
        namespace: secret.metadata.namespace.take(),
        uid: secret.metadata.uid.take(),
        resource_version: secret.metadata.resource_version.take(),
        deletion_timestamp: secret.metadata.deletion_timestamp.take(),
        owner_references: secret.metadata.owner_references.take(),
        finalizers: secret.metadata.finalizers.take(),
        annotations: secret.metadata.annotations.take().map(|mut annotations| {
            annotations.retain(|key, _| key == annotation::OPERATION);
            annotations
        }),
        ..ObjectMeta::default()
    };
}
