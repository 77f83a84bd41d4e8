//! The pod's three lists of containers, which share one name space.

use crate::json::{Object, quote};
use crate::text::element;

/// A list of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Containers,
    InitContainers,
    EphemeralContainers,
}

impl List {
    pub(crate) const ALL: [Self; 3] = [
        Self::Containers,
        Self::InitContainers,
        Self::EphemeralContainers,
    ];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Containers => "/spec/containers",
            Self::InitContainers => "/spec/initContainers",
            Self::EphemeralContainers => "/spec/ephemeralContainers",
        }
    }

    /// The list's name in a pod's spec.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Containers => "containers",
            Self::InitContainers => "initContainers",
            Self::EphemeralContainers => "ephemeralContainers",
        }
    }

    /// The list in which the element of this path is a container.
    #[inline(never)]
    pub(crate) fn of(path: &str) -> Option<Self> {
        // Three slashes: nothing follows the element, whose name has none.
        let is_element = path.bytes().filter(|byte| *byte == b'/').count() == 3;
        Self::ALL.into_iter().find(|list| {
            is_element
                && path
                    .strip_prefix(list.path())
                    .is_some_and(|rest| rest.starts_with("/[name="))
        })
    }

    /// The path of the container of this name.
    #[inline(never)]
    pub(crate) fn element(self, name: &str) -> String {
        element(self.path(), "name", name)
    }
}

/// What is known of the containers in the lists, kept up with what is injected.
#[derive(Debug, Default)]
pub(crate) struct Lists([Vec<Object>; 3]);

impl Lists {
    pub(crate) fn containers(&self, list: List) -> &[Object] {
        let [containers, init, ephemeral] = &self.0;
        match list {
            List::Containers => containers,
            List::InitContainers => init,
            List::EphemeralContainers => ephemeral,
        }
    }

    pub(crate) fn containers_mut(&mut self, list: List) -> &mut Vec<Object> {
        let [containers, init, ephemeral] = &mut self.0;
        match list {
            List::Containers => containers,
            List::InitContainers => init,
            List::EphemeralContainers => ephemeral,
        }
    }

    /// Follows an insertion.
    pub(crate) fn insert(&mut self, list: List, index: usize, name: &str) {
        let mut container = Object::default();
        container.set("name", &quote(name));
        self.containers_mut(list).insert(index, container);
    }

    #[inline(never)]
    pub(crate) fn has(&self, list: List, name: &str) -> bool {
        self.containers(list)
            .iter()
            .any(|known| known.string("name") == name)
    }

    /// The other list in which a name is taken.
    pub(crate) fn elsewhere(&self, list: List, name: &str) -> Option<List> {
        List::ALL
            .into_iter()
            .find(|&other| other != list && self.has(other, name))
    }
}
