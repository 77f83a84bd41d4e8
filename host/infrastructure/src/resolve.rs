//! What a reference to a Cloud leads to: the Cloud, its provider, and the Secrets that requests need. Pure: it reads caches alone.
//!
//! References stay in the namespace of their object, and the kind in a reference is the only selector: no object shadows another. What
//! is missing is a sentence for a condition, and no error.

mod account;
mod caches;
mod secrets_of;

use std::fmt;

use kube::core::ObjectMeta;
use podloom_api::names::infrastructure::{IN_USE_FINALIZER, reason};
use podloom_api::{
    CloudKind, CloudObject, CloudRef, CloudSpec, InfrastructureProviderObject,
    InfrastructureProviderSpec, ProviderKind, ProviderRef,
};

pub(crate) use self::account::{Account, Tenant, same_url};
pub(crate) use self::caches::{Caches, TwinResources, Twins};
pub(crate) use self::secrets_of::{secrets_named_by_cloud, secrets_named_by_provider};

use self::caches::{Missing, readable};
use podloom_engine::outbound::{Url, UrlError};
use podloom_engine::readable::Readable;
use podloom_engine::shown::shown;

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
    /// The namespace of the Secret.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
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
    /// Who owns the infrastructures.
    pub(crate) owner: OwnerUse,
}

/// The owner of infrastructures, by the Secrets with its values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnerUse {
    /// A user name and a password. Both are the identity of the owner.
    Basic {
        /// The user name.
        username: String,
        /// Its password.
        password: SecretUse,
        /// The password before the last change, to bring infrastructures over.
        previous: Option<SecretUse>,
    },
    /// A token.
    Token(SecretUse),
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
    /// The provider, as the Cloud names it.
    pub(crate) provider: ProviderRef,
    /// Where its Infrastructure Manager is.
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

/// Why a reference leads nowhere. For the condition Scheduled of a Cluster and Resolved of a Cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unresolved {
    /// CloudNotFound, ProviderNotFound or SecretNotFound.
    pub(crate) reason: &'static str,
    /// A sentence that names what is missing.
    pub(crate) message: String,
}

/// Returns what a Cluster's reference to a Cloud leads to. Secrets are not read here: a request may still miss one.
pub(crate) fn resolve(
    namespace: &str,
    cloud: &CloudRef,
    caches: &Caches,
) -> Result<Backend, Unresolved> {
    let key = cloud_key(namespace, cloud);
    let missing = |missing: Missing| Unresolved {
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
) -> Result<Backend, Unresolved> {
    let namespace = cloud.metadata.namespace.clone();
    let named = &cloud.spec.provider_ref;
    let key = provider_key(namespace.as_deref(), named);
    let missing = |message| Unresolved {
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
    let mut secrets = secrets_of::cloud(&cloud.spec, &secret_namespace);
    secrets.extend(im.owner.required().cloned());
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
        provider: named.clone(),
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
    let owner = secrets_of::owner(im, in_namespace).ok_or_else(|| {
        format!(
            "{} {} has neither spec.im.basic nor spec.im.tokenSecretRef",
            kind.as_str(),
            shown(&name)
        )
    })?;
    Ok(ImEndpoint {
        provider: ProviderRef { kind, name },
        namespace,
        url,
        written_url: im.url.clone(),
        ca_bundle: im.ca_bundle.clone(),
        insecure_skip_tls_verify: im.insecure_skip_tls_verify,
        allow_file_references: im.allow_file_references,
        owner,
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
    /// Returns which provider it is.
    pub(crate) fn key(&self) -> Key {
        Key {
            namespace: self.namespace.clone(),
            name: self.provider.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
