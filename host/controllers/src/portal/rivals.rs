//! PortalExposes that want the same hostname. A relay serves a hostname for one key, so the oldest of them gets it.

use kube::core::ObjectMeta;
use podloom_api::{PortalExposeObject, PortalExposeSpec};

use super::authority::Authority;
use super::world::{Conflict, has_finalizer};

/// Returns the conflict with the oldest of the others that is older than this one.
///
/// Namespaces do not matter: the hostname is the same.
pub(crate) fn conflict<'a>(
    expose: &PortalExposeObject,
    others: impl Iterator<Item = &'a PortalExposeObject>,
) -> Option<Conflict> {
    let own = rank(&expose.metadata);
    let rivals = others.filter(|other| {
        let is_it = other.metadata.uid == expose.metadata.uid;
        !is_it && exists(&other.metadata) && rank(&other.metadata) < own
    });
    let rivals = rivals.filter_map(|other| Some((other, shared(&expose.spec, &other.spec)?)));
    let (oldest, authority) = rivals.min_by_key(|(other, _)| rank(&other.metadata))?;
    let is_near = oldest.metadata.namespace == expose.metadata.namespace;
    Some(Conflict {
        authority,
        name: oldest.metadata.name.clone().filter(|_| is_near),
    })
}

/// Returns a relay at which two specs have the same hostname.
pub(crate) fn shared(one: &PortalExposeSpec, other: &PortalExposeSpec) -> Option<Authority> {
    if one.app.name != other.app.name {
        return None;
    }
    let theirs: Vec<Authority> = authorities(other).collect();
    authorities(one).find(|authority| theirs.contains(authority))
}

fn authorities(spec: &PortalExposeSpec) -> impl Iterator<Item = Authority> {
    let targets = spec.relay.targets.iter();
    targets.filter_map(|target| Authority::parse(&target.url))
}

/// Whether its tunnel may exist. One that is being deleted may have finalizers of others for ever.
fn exists(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_none() || has_finalizer(metadata)
}

/// What changes when others must look again: what they see of it.
pub(crate) fn edition(metadata: &ObjectMeta) -> (Option<&str>, Option<i64>, bool) {
    let ObjectMeta {
        uid, generation, ..
    } = metadata;
    (uid.as_deref(), *generation, exists(metadata))
}

/// The lowest one gets the hostname.
fn rank(metadata: &ObjectMeta) -> impl Ord {
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
    // Names make the order total: two may be created in the same second.
    (
        created.is_none(),
        created,
        metadata.namespace.clone(),
        metadata.name.clone(),
    )
}

#[cfg(test)]
mod tests;
