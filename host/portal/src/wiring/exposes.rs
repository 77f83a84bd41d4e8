//! PortalExposes, watched for themselves and for those that want the same hostname, in all watch scopes.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use kube::core::{ApiResource, ObjectMeta};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt};
use podloom_api::PortalExposeObject;
use podloom_engine::readable::Readable;
use podloom_engine::wakes::{Noted, Wakes};

use super::super::memory::Memory;
use super::super::naming;
use super::super::relays::{Relays, UserId};
use super::super::rivals::{Id, Rivals, id};

/// A PortalExpose in a cache. One that cannot be read hides no other.
pub(super) type Expose = Readable<PortalExposeObject>;

/// The PortalExposes of one watch scope.
#[derive(Clone)]
pub(super) struct Scope {
    /// The namespace; none means all.
    pub(super) namespace: Option<String>,
    pub(super) resource: Arc<ApiResource>,
    pub(super) store: Store<Expose>,
    pub(super) wakes: Wakes,
}

/// The PortalExposes of all watch scopes. Cheap to clone.
#[derive(Clone)]
pub(super) struct Exposes(pub(super) Arc<[Scope]>);

impl Exposes {
    /// Returns the cache of each scope.
    pub(super) fn stores(&self) -> Arc<[Store<Expose>]> {
        self.0.iter().map(|scope| scope.store.clone()).collect()
    }

    /// Wakes one.
    pub(super) fn wake(&self, namespace: &str, name: &str) {
        for scope in &*self.0 {
            if scope.namespace.as_deref().is_none_or(|it| it == namespace) {
                scope.wakes.wake(namespace, name);
            }
        }
    }

    /// Wakes all.
    pub(super) fn wake_all(&self) {
        for scope in &*self.0 {
            scope.wakes.wake_all();
        }
    }

    /// Wakes those that a test picks.
    pub(super) fn wake_if(&self, picks: impl Fn(&PortalExposeObject) -> bool) {
        let picks = |expose: &Expose| expose.0.as_ref().is_ok_and(&picks);
        for scope in &*self.0 {
            for expose in scope.store.state_filter(picks) {
                let namespace = expose.namespace().unwrap_or_default();
                scope.wakes.wake(&namespace, &expose.name_any());
            }
        }
    }

    /// Wakes those of these namespaces and names.
    fn wake_each(&self, ids: &BTreeSet<Id>) {
        ids.iter()
            .for_each(|(namespace, name)| self.wake(namespace, name));
    }
}

impl Scope {
    /// Returns those of the scope that something woke. Take it once.
    pub(super) fn woken(&self) -> impl Stream<Item = ObjectRef<Expose>> + Send + use<> {
        let (store, resource) = (self.store.clone(), Arc::clone(&self.resource));
        let taken = self.wakes.taken();
        taken.flat_map(move |noted| stream::iter(references(&noted, &store, &resource)))
    }

    /// Returns those of another object's namespace that refer to its name.
    pub(super) fn referring(
        &self,
        other: &ObjectMeta,
        refers: impl Fn(&PortalExposeObject, &str) -> bool,
    ) -> Vec<ObjectRef<Expose>> {
        let name = other.name.as_deref().unwrap_or_default();
        let referring = self.store.state_filter(|expose| {
            let is_near = |it: &PortalExposeObject| it.metadata.namespace == other.namespace;
            expose
                .0
                .as_ref()
                .is_ok_and(|it| is_near(it) && refers(it, name))
        });
        let referring = referring.iter();
        referring
            .map(|expose| ObjectRef::from_obj_with(&**expose, Arc::clone(&self.resource)))
            .collect()
    }

    /// Returns those that an object belongs to by its name, whatever its labels and owners are: somebody may have removed them. The
    /// suffix is what the names of such objects end in.
    pub(super) fn having(&self, child: &ObjectMeta, suffix: &str) -> Vec<ObjectRef<Expose>> {
        let name = child.name.as_deref().unwrap_or_default();
        let Some(base) = name.strip_suffix(suffix) else {
            return Vec::new();
        };
        let namespace = child.namespace.as_deref().unwrap_or_default();
        let same = ObjectRef::new_with(base, Arc::clone(&self.resource)).within(namespace);
        let mut having = match naming::may_be_cut(base) {
            true => self.referring(child, |expose, _| naming::base(&expose.name_any()) == base),
            false => Vec::new(),
        };
        if self.store.get(&same).is_some() && !having.contains(&same) {
            having.push(same);
        }
        having
    }

    /// Wakes those whose identity is in a Secret of this name.
    pub(super) fn wake_owner(&self, secret: &ObjectMeta) {
        for owner in self.having(secret, naming::SECRET) {
            let namespace = owner.namespace.as_deref().unwrap_or_default();
            self.wakes.wake(namespace, &owner.name);
        }
    }
}

/// The objects that are noted.
fn references(
    noted: &Noted,
    store: &Store<Expose>,
    resource: &Arc<ApiResource>,
) -> Vec<ObjectRef<Expose>> {
    if noted.all {
        let all = store.state();
        let all = all.iter();
        return all
            .map(|expose| ObjectRef::from_obj_with(&**expose, Arc::clone(resource)))
            .collect();
    }
    let some = noted.some.iter();
    some.map(|(namespace, name)| ObjectRef::new_with(name, Arc::clone(resource)).within(namespace))
        .collect()
}

/// What is kept of a PortalExpose outside caches, and must be forgotten with it.
#[derive(Clone)]
pub(super) struct Traces {
    pub(super) memory: Memory,
    pub(super) relays: Relays,
    pub(super) rivals: Rivals,
}

impl Traces {
    fn forget(&self, metadata: &ObjectMeta) {
        self.memory
            .forget(metadata.uid.as_deref().unwrap_or_default());
        self.relays.forget(&UserId {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        });
    }

    /// Notes what a PortalExpose wants; returns the others that this concerns. One that cannot be read wants nothing.
    fn note(&self, expose: &Expose) -> BTreeSet<Id> {
        match &expose.0 {
            Ok(expose) => self.rivals.put(expose),
            Err(unreadable) => self.rivals.remove(&id(&unreadable.metadata)),
        }
    }
}

/// Which PortalExposes a watch has shown.
#[derive(Default)]
struct Shown {
    all: BTreeSet<Id>,
    /// Those of the list that is being read.
    listed: BTreeSet<Id>,
}

/// Puts events into the cache, then wakes those that another one concerns, and forgets what is gone.
///
/// Hostnames of a list are known before the cache is filled: a pass would believe that they are free.
pub(super) fn cached(
    events: impl Stream<Item = Result<Event<Expose>, watcher::Error>> + Send + 'static,
    mut writer: Writer<Expose>,
    all: Exposes,
    traces: Traces,
) -> impl Stream<Item = Result<Event<Expose>, watcher::Error>> + Send + 'static {
    let known = writer.as_reader();
    let mut shown = Shown::default();
    events.inspect(move |event| {
        let Ok(event) = event else { return };
        match event {
            Event::Apply(expose) => {
                let concerned = traces.note(expose);
                shown.all.insert(id(expose.meta()));
                writer.apply_watcher_event(event);
                all.wake_each(&concerned);
            }
            Event::Delete(expose) => {
                let id = id(expose.meta());
                let concerned = traces.rivals.remove(&id);
                shown.all.remove(&id);
                writer.apply_watcher_event(event);
                traces.forget(expose.meta());
                all.wake_each(&concerned);
            }
            Event::Init => {
                shown.listed.clear();
                writer.apply_watcher_event(event);
            }
            Event::InitApply(expose) => {
                // All are woken after the list.
                traces.note(expose);
                shown.listed.insert(id(expose.meta()));
                shown.all.insert(id(expose.meta()));
                writer.apply_watcher_event(event);
            }
            // What went while the watch was broken shows in no event.
            Event::InitDone => {
                for id in shown.all.difference(&shown.listed) {
                    traces.rivals.remove(id);
                }
                shown.all = std::mem::take(&mut shown.listed);
                let before = known.state();
                writer.apply_watcher_event(event);
                let there = known.state();
                let there: BTreeSet<_> = there.iter().map(|it| it.meta().uid.as_deref()).collect();
                let gone = before
                    .iter()
                    .filter(|it| !there.contains(&it.meta().uid.as_deref()));
                gone.for_each(|gone| traces.forget(gone.meta()));
                all.wake_all();
            }
        }
    })
}

#[cfg(test)]
mod tests;
