//! The pod's three lists of containers, which share one name space.

use podloom_plugin_sdk::{Error, Pod};

use crate::config::Config;
use crate::json::inner;
use crate::text::{decimal, element};

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
    pub(crate) fn of(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|list| {
            let element = path
                .strip_prefix(list.path())
                .and_then(|rest| rest.strip_prefix("/[name="));
            element.is_some_and(|rest| !rest.contains('/'))
        })
    }

    /// The path of the container of this name.
    pub(crate) fn element(self, name: &str) -> String {
        element(self.path(), "name", name)
    }

    /// The names of the pod's containers, in order. Asked one by one, so that the rest of them need not be readable.
    pub(crate) fn names(self, pod: &Pod) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        loop {
            let place = [self.path(), "/", &decimal(names.len()), "/name"].concat();
            match pod.get_json(&place)?.as_deref().and_then(inner) {
                Some(name) => names.push(name.to_owned()),
                None => return Ok(names),
            }
        }
    }
}

/// The names in the lists, kept up with what is injected.
pub(crate) struct Lists {
    pub(crate) containers: Vec<String>,
    pub(crate) init_containers: Vec<String>,
    pub(crate) ephemeral_containers: Vec<String>,
}

impl Lists {
    /// Reads the names. Those of `containers` may be many and are rarely needed: else only those that collide are there.
    pub(crate) fn read(config: &Config, pod: &Pod) -> Result<Self, Error> {
        let needs_all = !config.add_to_containers.is_empty()
            || config.containers.iter().any(|sidecar| {
                sidecar.list() == List::Containers || sidecar.container.has("ports")
            });
        let containers = if needs_all {
            List::Containers.names(pod)?
        } else {
            let mut taken = Vec::new();
            for sidecar in &config.containers {
                let place = List::Containers.element(sidecar.name());
                if pod.get_json(&[&place, "/name"].concat())?.is_some() {
                    taken.push(sidecar.name().to_owned());
                }
            }
            taken
        };
        Ok(Self {
            containers,
            init_containers: List::InitContainers.names(pod)?,
            ephemeral_containers: List::EphemeralContainers.names(pod)?,
        })
    }

    pub(crate) fn names(&self, list: List) -> &[String] {
        match list {
            List::Containers => &self.containers,
            List::InitContainers => &self.init_containers,
            List::EphemeralContainers => &self.ephemeral_containers,
        }
    }

    pub(crate) fn names_mut(&mut self, list: List) -> &mut Vec<String> {
        match list {
            List::Containers => &mut self.containers,
            List::InitContainers => &mut self.init_containers,
            List::EphemeralContainers => &mut self.ephemeral_containers,
        }
    }

    pub(crate) fn has(&self, list: List, name: &str) -> bool {
        self.names(list).iter().any(|known| known == name)
    }

    /// The other list in which a name is taken.
    pub(crate) fn elsewhere(&self, list: List, name: &str) -> Option<List> {
        List::ALL
            .into_iter()
            .find(|&other| other != list && self.has(other, name))
    }
}
