//! PortalExposes, watched for themselves and for those that want the same hostname, in all watch scopes.

use std::collections::BTreeSet;

use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};
use podloom_api::PortalExposeObject;
use podloom_engine::cache::{Cache, Change, Seen};
use podloom_engine::readable::Readable;

use super::super::kind::Tunnels;
use super::super::naming;
use super::super::relays::UserId;
use super::super::rivals::{Id, Rivals, id};

/// A PortalExpose in a cache. One that cannot be read hides no other.
pub(super) type Expose = Readable<PortalExposeObject>;

/// The PortalExposes of all watch scopes.
pub(super) type Exposes = Cache<Expose>;

/// Wakes those of another object's namespace that refer to its name.
pub(super) fn wake_referring(
    exposes: &Exposes,
    other: &ObjectMeta,
    refers: impl Fn(&PortalExposeObject, &str) -> bool,
) {
    let name = other.name.as_deref().unwrap_or_default();
    for expose in exposes.all_in(other.namespace.as_deref()) {
        if expose.0.as_ref().is_ok_and(|it| refers(it, name)) {
            exposes.wake_it(&expose);
        }
    }
}

/// Wakes those that an object belongs to by its name, whatever its labels and owners are: somebody may have removed them. The suffix is
/// what the names of such objects end in.
pub(super) fn wake_having(exposes: &Exposes, child: &ObjectMeta, suffix: &str) {
    let name = child.name.as_deref().unwrap_or_default();
    let Some(base) = name.strip_suffix(suffix) else {
        return;
    };
    if naming::may_be_cut(base) {
        wake_referring(exposes, child, |expose, _| {
            naming::base(&expose.name_any()) == base
        });
    }
    if let Some(same) = exposes.get(child.namespace.as_deref(), base) {
        exposes.wake_it(&same);
    }
}

/// Wakes PortalExposes that another one concerns, and forgets what is kept of those that are gone.
///
/// Hostnames of a list are known before the cache is filled: a pass would believe that they are free.
pub(crate) fn listen(exposes: &Exposes, tunnels: Tunnels) {
    let all = exposes.clone();
    let wake = |exposes: &Exposes, concerned: BTreeSet<Id>| {
        for (namespace, name) in &concerned {
            exposes.wake(Some(namespace), name);
        }
    };
    exposes.listen(move |seen| match seen {
        Seen::Coming(expose) => wake(&all, note(&tunnels.rivals, expose)),
        Seen::Changed(Change {
            before: Some(gone),
            after: None,
            ..
        }) => {
            let (namespace, name) = id(gone.meta());
            // Another one of this name may be there.
            if all.get(Some(&namespace), &name).is_none() {
                let id = (namespace.clone(), name.clone());
                wake(&all, tunnels.rivals.remove(&id));
            }
            let uid = gone.meta().uid.as_deref();
            tunnels.memory.forget(uid.unwrap_or_default());
            tunnels.relays.forget(&UserId { namespace, name });
        }
        Seen::Changed(_) => {}
        Seen::Listed(listed) => {
            // A list that was interrupted may have shown what is not there.
            tunnels.rivals.keep(|(namespace, name)| {
                listed.is_some_and(|listed| listed != namespace)
                    || all.get(Some(namespace), name).is_some()
            });
            all.wake_in(None);
        }
    });
}

/// Notes what a PortalExpose wants; returns the others that this concerns. One that cannot be read wants nothing.
fn note(rivals: &Rivals, expose: &Expose) -> BTreeSet<Id> {
    match &expose.0 {
        Ok(expose) => rivals.put(expose),
        Err(unreadable) => rivals.remove(&id(&unreadable.metadata)),
    }
}

#[cfg(test)]
mod tests;
