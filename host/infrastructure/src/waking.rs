//! Which objects of a kind to wake, in all watch scopes.

use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use kube::core::ApiResource;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use podloom_engine::readable::Readable;
use podloom_engine::wakes::Wakes;

use super::resolve::Key;

/// The objects of a kind that the controllers of all scopes are to look at. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Waking(pub(crate) Arc<[Scope]>);

/// The objects of one scope.
#[derive(Clone)]
pub(crate) struct Scope {
    /// The namespace; none for all, and for cluster-scoped objects.
    pub(crate) namespace: Option<String>,
    /// Where they are noted.
    pub(crate) wakes: Wakes,
}

impl Scope {
    /// Returns one in which nothing is noted.
    pub(crate) fn of(namespace: Option<String>) -> Self {
        Self {
            namespace,
            wakes: Wakes::default(),
        }
    }

    /// Returns the objects that are noted, of this cache. Take it once.
    pub(crate) fn taken<K>(
        &self,
        store: Store<Readable<K>>,
        resource: Arc<ApiResource>,
    ) -> impl Stream<Item = ObjectRef<Readable<K>>> + Send + use<K>
    where
        K: Resource<DynamicType = ApiResource> + Clone + Send + Sync + 'static,
    {
        let taken = self.wakes.taken();
        taken.flat_map(move |noted| {
            let of = |name: &str, namespace: &str| {
                let object = ObjectRef::new_with(name, Arc::clone(&resource));
                match namespace {
                    "" => object,
                    namespace => object.within(namespace),
                }
            };
            let objects: Vec<_> = match noted.all {
                true => {
                    let all = store.state();
                    let all = all.iter();
                    all.map(|it| of(&it.name_any(), &it.namespace().unwrap_or_default()))
                        .collect()
                }
                false => {
                    let some = noted.some.iter();
                    some.map(|(namespace, name)| of(name, namespace)).collect()
                }
            };
            stream::iter(objects)
        })
    }
}

impl Waking {
    /// Wakes an object. One that no scope holds is nobody's.
    pub(crate) fn wake(&self, object: &Key) {
        for scope in &*self.0 {
            if scope.namespace.is_none() || scope.namespace == object.namespace {
                let namespace = object.namespace.as_deref().unwrap_or_default();
                scope.wakes.wake(namespace, &object.name);
            }
        }
    }

    /// Wakes all objects.
    pub(crate) fn wake_all(&self) {
        self.0.iter().for_each(|scope| scope.wakes.wake_all());
    }
}
