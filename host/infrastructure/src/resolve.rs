//! What a reference to a Cloud leads to: the Cloud, its provider, and the Secrets that requests need. Pure: it reads caches alone.
//!
//! References stay in the namespace of their object, and the kind in a reference is the only selector: no object shadows another. What
//! is missing is a sentence for a condition, and no error.

use std::fmt;
use std::sync::Arc;

use kube::core::{ApiResource, ObjectMeta};
use podloom_api::names::infrastructure::{IN_USE_FINALIZER, key, reason};
use podloom_api::{
    CloudKind, CloudObject, CloudRef, CloudSpec, ImSpec, InfrastructureProviderObject,
    InfrastructureProviderSpec, OpenStackAuth, ProviderKind, ProviderRef, SecretRef,
};
use podloom_engine::cache::{Cache, Cacheable};
use podloom_engine::outbound::{Url, UrlError};
use podloom_engine::readable::Readable;
use podloom_engine::shown::shown;

use super::im::Owner;

/// An InfrastructureProvider or GlobalInfrastructureProvider in a cache.
pub(crate) type CachedProvider = Readable<InfrastructureProviderObject>;

/// Which object of a kind: its namespace, none if it is cluster-scoped, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// Its namespace; none if it is cluster-scoped.
    pub(crate) namespace: Option<String>,
    /// Its name.
    pub(crate) name: String,
}

/// A Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SecretKey {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
}

/// One value of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SecretUse {
    /// The Secret.
    pub(crate) secret: SecretKey,
    /// The key of the value.
    pub(crate) key: String,
}

/// Where an Infrastructure Manager is, and as whom to call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImEndpoint {
    /// The kind and name of the provider, for messages.
    pub(crate) provider: ProviderRef,
    /// The namespace of the provider; none if an administrator wrote it.
    pub(crate) namespace: Option<String>,
    /// Its URL.
    pub(crate) url: Url,
    /// The same as it was written.
    pub(crate) written_url: String,
    /// Certificates of further authorities, as PEM.
    pub(crate) ca_bundle: Option<String>,
    /// Whether any certificate is accepted.
    pub(crate) insecure_skip_tls_verify: bool,
    /// Whether templates may name files of the server.
    pub(crate) allow_file_references: bool,
    /// Who owns the infrastructures, and where its secret is.
    pub(crate) owner: Owner<SecretUse>,
    /// The password of the owner before the last change, to bring infrastructures over.
    pub(crate) previous: Option<SecretUse>,
}

/// What a Cluster's reference to a Cloud leads to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Backend {
    /// The Cloud, as the Cluster names it.
    pub(crate) cloud: CloudRef,
    /// The namespace of the Cloud; none if it is a GlobalCloud.
    pub(crate) cloud_namespace: Option<String>,
    /// The namespace of the Secrets that the Cloud names.
    pub(crate) secret_namespace: String,
    /// Where the Infrastructure Manager of its provider is.
    pub(crate) im: ImEndpoint,
    /// What the Cloud says: how to log in, and by the names of Secrets with what.
    pub(crate) login: CloudSpec,
    /// All Secrets that a request needs.
    pub(crate) secrets: Vec<SecretUse>,
    /// The kind and name of the Cloud or the provider, if it is being deleted: it does for existing infrastructures, and not for new ones.
    pub(crate) going: Option<String>,
    /// Whether the cached Cloud and provider have our finalizer in-use. No create request may be sent before they do: see
    /// `in_use::confirm`.
    pub(crate) is_guarded: bool,
}

/// What is wrong, as a condition says it: why a reference leads nowhere, or what IM did not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The reason of the condition.
    pub(crate) reason: &'static str,
    /// A sentence, with IM's own words if it is about those.
    pub(crate) message: String,
}

/// Returns what a Cluster's reference to a Cloud leads to. Secrets are not read here: a request may still miss one.
pub(crate) fn resolve(
    namespace: &str,
    cloud: &CloudRef,
    caches: &Caches,
) -> Result<Backend, Trouble> {
    let key = cloud_key(namespace, cloud);
    let missing = |missing: Missing| Trouble {
        reason: reason::CLOUD_NOT_FOUND,
        message: missing.sentence(cloud.kind.as_str(), &key),
    };
    let found = caches.clouds.get(&key).map_err(missing)?;
    let found = readable(&found).map_err(missing)?;
    of_cloud(cloud, found, caches)
}

/// Returns what a Cloud leads to.
pub(crate) fn of_cloud(
    reference: &CloudRef,
    cloud: &CloudObject,
    caches: &Caches,
) -> Result<Backend, Trouble> {
    let namespace = cloud.metadata.namespace.clone();
    let named = &cloud.spec.provider_ref;
    let key = provider_key(namespace.as_deref(), named);
    let missing = |message| Trouble {
        reason: reason::PROVIDER_NOT_FOUND,
        message,
    };
    if namespace.is_none() && named.kind == ProviderKind::InfrastructureProvider {
        return Err(missing(format!(
            "GlobalCloud {} names an InfrastructureProvider; only a GlobalInfrastructureProvider can be used",
            shown(&reference.name)
        )));
    }
    let absent = |it: Missing| missing(it.sentence(named.kind.as_str(), &key));
    let provider = caches.providers.get(&key).map_err(absent)?;
    let provider = readable(&provider).map_err(absent)?;
    let im = endpoint(provider, caches).map_err(missing)?;
    let secret_namespace = caches.secret_namespace(namespace.as_deref()).to_owned();
    let mut secrets = secrets_of_login(&cloud.spec, &secret_namespace);
    secrets.push(im.owner.secret().clone());
    secrets.sort();
    secrets.dedup();
    let both = [&cloud.metadata, &provider.metadata];
    let kinds = [reference.kind.as_str(), named.kind.as_str()];
    let going = both.iter().zip(kinds).map(|(metadata, kind)| {
        let name = metadata.name.as_deref().unwrap_or_default();
        metadata.deletion_timestamp.as_ref()?;
        Some(format!("{kind} {}", shown(name)))
    });
    Ok(Backend {
        cloud: reference.clone(),
        cloud_namespace: namespace,
        secret_namespace,
        im,
        login: cloud.spec.clone(),
        secrets,
        going: going.flatten().next(),
        is_guarded: both.iter().all(|it| is_guarded(it)),
    })
}

/// Returns where the Infrastructure Manager of a provider is, or a sentence about why that is not known.
pub(crate) fn endpoint(
    provider: &InfrastructureProviderObject,
    caches: &Caches,
) -> Result<ImEndpoint, String> {
    let namespace = provider.metadata.namespace.clone();
    let kind = match namespace {
        Some(_) => ProviderKind::InfrastructureProvider,
        None => ProviderKind::GlobalInfrastructureProvider,
    };
    let name = provider.metadata.name.clone().unwrap_or_default();
    let InfrastructureProviderSpec { im } = &provider.spec;
    let url = im.url.parse();
    let url = url.map_err(|error: UrlError| {
        format!(
            "spec.im.url of {} {} cannot be used: {error}",
            kind.as_str(),
            shown(&name)
        )
    })?;
    let in_namespace = caches.secret_namespace(namespace.as_deref());
    let owner = owner(im, in_namespace).ok_or_else(|| {
        format!(
            "{} {} has neither spec.im.basic nor spec.im.tokenSecretRef",
            kind.as_str(),
            shown(&name)
        )
    })?;
    let previous = previous(im, in_namespace);
    Ok(ImEndpoint {
        provider: ProviderRef { kind, name },
        namespace,
        url,
        written_url: im.url.clone(),
        ca_bundle: im.ca_bundle.clone(),
        insecure_skip_tls_verify: im.insecure_skip_tls_verify,
        allow_file_references: im.allow_file_references,
        owner,
        previous,
    })
}

/// Returns whether an object has our finalizer in-use, so that it stays as long as Clusters need it.
pub(crate) fn is_guarded(object: &ObjectMeta) -> bool {
    let finalizers = object.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|it| it == IN_USE_FINALIZER)
}

/// Returns which Cloud a Cluster of a namespace names.
pub(crate) fn cloud_key(namespace: &str, cloud: &CloudRef) -> Key {
    let namespace = match cloud.kind {
        CloudKind::Cloud => Some(namespace.to_owned()),
        CloudKind::GlobalCloud => None,
    };
    Key {
        namespace,
        name: cloud.name.clone(),
    }
}

/// Returns which provider a Cloud of a namespace names; a GlobalCloud has none.
pub(crate) fn provider_key(namespace: Option<&str>, provider: &ProviderRef) -> Key {
    let namespace = match provider.kind {
        ProviderKind::InfrastructureProvider => namespace.map(str::to_owned),
        ProviderKind::GlobalInfrastructureProvider => None,
    };
    Key {
        namespace,
        name: provider.name.clone(),
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{}", shown(namespace), shown(&self.name)),
            None => write!(f, "{}", shown(&self.name)),
        }
    }
}

impl fmt::Display for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", shown(&self.namespace), shown(&self.name))
    }
}

impl Key {
    /// Returns which object of its kind this is.
    pub(crate) fn of(object: &ObjectMeta) -> Self {
        Self {
            namespace: object.namespace.clone(),
            name: object.name.clone().unwrap_or_default(),
        }
    }
}

impl Backend {
    /// Returns which Cloud it is.
    pub(crate) fn cloud_key(&self) -> Key {
        Key {
            namespace: self.cloud_namespace.clone(),
            name: self.cloud.name.clone(),
        }
    }
}

impl ImEndpoint {
    /// Returns all values of Secrets, the previous password among them.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &SecretUse> {
        std::iter::once(self.owner.secret()).chain(&self.previous)
    }

    /// Returns which provider it is.
    pub(crate) fn key(&self) -> Key {
        Key {
            namespace: self.namespace.clone(),
            name: self.provider.name.clone(),
        }
    }
}

// Accounts at Infrastructure Managers.

/// An account at an Infrastructure Manager: the same id in two accounts is not the same infrastructure, since the server of one of them
/// may answer with whatever id it likes.
///
/// Accounts are compared by what names them, since nobody but a request may read a password: two that are different here may be the
/// same there. Nobody can write a provider that has the account of another namespace, because an owner is named by Secrets of the
/// provider's own namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Account {
    /// The URL, without slashes at its end.
    pub(crate) url: Arc<str>,
    /// The owner.
    pub(crate) owner: Owner<SecretUse>,
}

/// Who wrote a provider: a namespace, or an administrator of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Tenant {
    /// All providers of a namespace.
    Namespace(String),
    /// One GlobalInfrastructureProvider.
    Global(String),
}

/// Returns a URL as it counts in an account.
pub(crate) fn same_url(url: &str) -> &str {
    url.trim_end_matches('/')
}

impl ImEndpoint {
    /// Returns the account that it leads to.
    pub(crate) fn account(&self) -> Account {
        Account {
            url: same_url(&self.written_url).into(),
            owner: self.owner.clone(),
        }
    }

    /// Returns whose provider it is of.
    pub(crate) fn tenant(&self) -> Tenant {
        match &self.namespace {
            Some(namespace) => Tenant::Namespace(namespace.clone()),
            None => Tenant::Global(self.provider.name.clone()),
        }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(name) => write!(f, "namespace {}", shown(name)),
            Self::Global(name) => {
                let kind = ProviderKind::GlobalInfrastructureProvider.as_str();
                write!(f, "{kind} {}", shown(name))
            }
        }
    }
}

// Which values of Secrets an object needs.

impl SecretUse {
    /// Returns the value that a reference names, in the namespace of its object's Secrets. `key` is the one of a reference without one.
    pub(crate) fn of(namespace: &str, reference: &SecretRef, key: &str) -> Self {
        Self {
            secret: SecretKey {
                namespace: namespace.to_owned(),
                name: reference.name.clone(),
            },
            key: reference.key_or(key).to_owned(),
        }
    }
}

impl SecretKey {
    /// Returns which Secret this is.
    pub(crate) fn of(secret: &ObjectMeta) -> Self {
        Self {
            namespace: secret.namespace.clone().unwrap_or_default(),
            name: secret.name.clone().unwrap_or_default(),
        }
    }
}

/// The owner that a provider names; none if it names none.
fn owner(im: &ImSpec, namespace: &str) -> Option<Owner<SecretUse>> {
    if let Some(basic) = &im.basic {
        return Some(Owner::Basic {
            username: basic.username.clone(),
            password: SecretUse::of(namespace, &basic.password_secret_ref, key::PASSWORD),
        });
    }
    let token = im.token_secret_ref.as_ref()?;
    Some(Owner::Token(SecretUse::of(namespace, token, key::TOKEN)))
}

/// The previous password of the owner.
fn previous(im: &ImSpec, namespace: &str) -> Option<SecretUse> {
    let reference = im.basic.as_ref()?.previous_password_secret_ref.as_ref()?;
    Some(SecretUse::of(namespace, reference, key::PASSWORD))
}

/// The values that the login at a Cloud needs.
fn secrets_of_login(spec: &CloudSpec, namespace: &str) -> Vec<SecretUse> {
    let mut references: Vec<(&SecretRef, &str)> = Vec::new();
    if let Some(openstack) = &spec.openstack {
        let OpenStackAuth {
            password,
            application_credential,
        } = &openstack.auth;
        references.extend(
            password
                .iter()
                .map(|it| (&it.password_secret_ref, key::PASSWORD)),
        );
        references.extend(
            application_credential
                .iter()
                .map(|it| (&it.secret_ref, key::SECRET)),
        );
    }
    if let Some(generic) = &spec.generic {
        let parameters = generic.secret_parameters.iter().flatten();
        references.extend(parameters.map(|(_, it)| (it, key::VALUE)));
    }
    let uses = references.into_iter();
    uses.map(|(reference, key)| SecretUse::of(namespace, reference, key))
        .collect()
}

/// Returns the Secrets that a Cloud names. `global` is the namespace of those of cluster-scoped objects.
pub(crate) fn secrets_named_by_cloud(object: &CloudObject, global: &str) -> Vec<SecretKey> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or(global);
    let uses = secrets_of_login(&object.spec, namespace);
    uses.into_iter().map(|it| it.secret).collect()
}

/// Returns the Secrets that a provider names. `global` is the namespace of those of cluster-scoped objects.
pub(crate) fn secrets_named_by_provider(
    provider: &InfrastructureProviderObject,
    global: &str,
) -> Vec<SecretKey> {
    let namespace = provider.metadata.namespace.as_deref().unwrap_or(global);
    let im = &provider.spec.im;
    let owner = owner(im, namespace);
    let uses = owner.iter().map(Owner::secret);
    let previous = previous(im, namespace);
    let uses = uses.chain(&previous);
    uses.map(|it| it.secret.clone()).collect()
}

// The caches of what Clusters and Clouds can name.

/// The caches of a kind whose objects are in namespaces, and of its cluster-scoped twin. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Twins<K>
where
    Readable<K>: Cacheable,
{
    /// The objects of all watch scopes.
    pub(crate) namespaced: Cache<Readable<K>>,
    /// All cluster-scoped ones, if they may be read.
    pub(crate) global: Cache<Readable<K>>,
}

/// The resources of a kind whose objects are in namespaces, and of its cluster-scoped twin.
#[derive(Clone)]
pub(crate) struct TwinResources {
    /// Objects in namespaces.
    pub(crate) namespaced: Arc<ApiResource>,
    /// Cluster-scoped objects.
    pub(crate) global: Arc<ApiResource>,
}

/// What objects can name, in all watch scopes. Cheap to clone.
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
enum Missing {
    Absent,
    /// Our types cannot hold it.
    Unreadable,
    /// The operator may not read the kind, or it is not installed.
    Unknown,
}

impl Missing {
    fn sentence(self, kind: &str, key: &Key) -> String {
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
    Readable<K>: Cacheable,
{
    /// Returns an object; none if there is none, or if the kind may not be read.
    pub(crate) fn find(&self, key: &Key) -> Option<Arc<Readable<K>>> {
        self.get(key).ok()
    }

    /// Returns all objects.
    pub(crate) fn all(&self) -> Vec<Arc<Readable<K>>> {
        let mut all = self.namespaced.all();
        all.extend(self.global.all());
        all
    }

    /// Wakes an object.
    pub(crate) fn wake(&self, key: &Key) {
        self.of(key).wake(key.namespace.as_deref(), &key.name);
    }

    fn get(&self, key: &Key) -> Result<Arc<Readable<K>>, Missing> {
        if key.namespace.is_none() && !self.global.is_known(None) {
            return Err(Missing::Unknown);
        }
        let found = self.of(key).get(key.namespace.as_deref(), &key.name);
        found.ok_or(Missing::Absent)
    }

    fn of(&self, key: &Key) -> &Cache<Readable<K>> {
        match key.namespace {
            Some(_) => &self.namespaced,
            None => &self.global,
        }
    }
}

/// Returns an object that our types can hold.
fn readable<K>(found: &Readable<K>) -> Result<&K, Missing> {
    found.0.as_ref().map_err(|_| Missing::Unreadable)
}

#[cfg(test)]
mod tests;
