//! The pod's three lists of containers, which share one name space.

use podloom_plugin_sdk::path;

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

    /// The path of the container of this name.
    pub(crate) fn element(self, name: &str) -> String {
        path::element(self.path(), "name", name)
    }

    /// The list in which the element of this path is a container.
    pub(crate) fn of(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|list| {
            path.strip_prefix(list.path())
                .and_then(|rest| rest.strip_prefix("/[name="))
                // Nothing follows the element, and no name has a slash.
                .is_some_and(|rest| !rest.contains('/'))
        })
    }
}
