//! Which values of Secrets an object needs.

use kube::core::ObjectMeta;
use podloom_api::names::infrastructure::key;
use podloom_api::{
    CloudObject, CloudSpec, ImSpec, InfrastructureProviderObject, OpenStackAuth, SecretRef,
};

use super::{OwnerUse, SecretKey, SecretUse};

impl SecretUse {
    /// Returns the value that a reference names, in the namespace of its object's Secrets. `key` is the one of a reference without one.
    pub(crate) fn of(namespace: &str, reference: &SecretRef, key: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: reference.name.clone(),
            key: reference.key_or(key).to_owned(),
        }
    }

    /// Returns the Secret of the value.
    pub(crate) fn secret(&self) -> SecretKey {
        SecretKey {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
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

impl OwnerUse {
    /// Returns the values that every request needs.
    pub(crate) fn required(&self) -> impl Iterator<Item = &SecretUse> {
        let (Self::Basic { password, .. } | Self::Token(password)) = self;
        std::iter::once(password)
    }

    /// Returns all values, the previous password among them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &SecretUse> {
        let previous = match self {
            Self::Basic { previous, .. } => previous.as_ref(),
            Self::Token(_) => None,
        };
        self.required().chain(previous)
    }
}

/// The owner that a provider names; none if it names none.
pub(super) fn owner(im: &ImSpec, namespace: &str) -> Option<OwnerUse> {
    if let Some(basic) = &im.basic {
        let previous = basic.previous_password_secret_ref.as_ref();
        return Some(OwnerUse::Basic {
            username: basic.username.clone(),
            password: SecretUse::of(namespace, &basic.password_secret_ref, key::PASSWORD),
            previous: previous.map(|it| SecretUse::of(namespace, it, key::PASSWORD)),
        });
    }
    let token = im.token_secret_ref.as_ref()?;
    Some(OwnerUse::Token(SecretUse::of(namespace, token, key::TOKEN)))
}

/// The values that the login at a Cloud needs.
pub(super) fn cloud(spec: &CloudSpec, namespace: &str) -> Vec<SecretUse> {
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
    let uses = cloud(&object.spec, namespace);
    uses.iter().map(SecretUse::secret).collect()
}

/// Returns the Secrets that a provider names. `global` is the namespace of those of cluster-scoped objects.
pub(crate) fn secrets_named_by_provider(
    provider: &InfrastructureProviderObject,
    global: &str,
) -> Vec<SecretKey> {
    let namespace = provider.metadata.namespace.as_deref().unwrap_or(global);
    let owner = owner(&provider.spec.im, namespace);
    let uses = owner.iter().flat_map(OwnerUse::all);
    uses.map(SecretUse::secret).collect()
}
