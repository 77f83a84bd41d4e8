//! Which Clouds lead to a provider or a Secret: whoever needs one of these Clouds needs it.

use std::collections::BTreeSet;

use kube::Resource;
use podloom_api::{CloudObject, InfrastructureProviderObject};
use podloom_engine::readable::Readable;

use crate::resolve::{
    Key, SecretKey, provider_key, secrets_named_by_cloud, secrets_named_by_provider,
};

type Cloud = Readable<CloudObject>;
type Provider = Readable<InfrastructureProviderObject>;

/// Returns those of these Clouds that name the provider.
pub(crate) fn clouds_of_provider<'c>(
    provider: &Key,
    clouds: impl IntoIterator<Item = &'c Cloud>,
) -> BTreeSet<Key> {
    let naming = clouds
        .into_iter()
        .filter(|cloud| leads_to(cloud, |named| named == provider));
    naming.map(|cloud| Key::of(cloud.meta())).collect()
}

/// Returns those of these Clouds that name the Secret, themselves or by their provider. `global` is the namespace of the Secrets of
/// cluster-scoped objects.
pub(crate) fn clouds_of_secret<'c>(
    secret: &SecretKey,
    clouds: impl IntoIterator<Item = &'c Cloud>,
    providers: impl IntoIterator<Item = &'c Provider>,
    global: &str,
) -> BTreeSet<Key> {
    let naming = providers.into_iter().filter(|provider| {
        let named = provider
            .0
            .as_ref()
            .map(|it| secrets_named_by_provider(it, global));
        named.is_ok_and(|named| named.contains(secret))
    });
    let providers: BTreeSet<Key> = naming.map(|it| Key::of(it.meta())).collect();
    let naming = clouds.into_iter().filter(|cloud| {
        let named = cloud
            .0
            .as_ref()
            .map(|it| secrets_named_by_cloud(it, global));
        named.is_ok_and(|named| named.contains(secret))
            || leads_to(cloud, |provider| providers.contains(provider))
    });
    naming.map(|cloud| Key::of(cloud.meta())).collect()
}

fn leads_to(cloud: &Cloud, is_one: impl Fn(&Key) -> bool) -> bool {
    cloud.0.as_ref().is_ok_and(|cloud| {
        let namespace = cloud.metadata.namespace.as_deref();
        is_one(&provider_key(namespace, &cloud.spec.provider_ref))
    })
}
