//! Walks all containers of a pod.

use serde::Deserialize;

use super::{Container, Pod};
use crate::Error;

/// How a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerKind {
    /// In `initContainers`: it runs and ends before the next one starts.
    Init,
    /// In `initContainers` with `restartPolicy: Always`, a native sidecar: it is started before the next one, and runs until
    /// the pod's regular containers have ended.
    Sidecar,
    /// In `containers`.
    Regular,
}

impl Pod {
    /// Returns all containers of the pod with their kinds, in the order in which they start: init containers and sidecars, then
    /// regular ones. The path of each is `container.node().path()`.
    ///
    /// Ephemeral containers are not among them: the API server creates no pod that has one, and a plugin sees pods as they
    /// are created.
    ///
    /// ```
    /// # use podloom_plugin_sdk::prelude::*;
    /// # fn pin(pod: &Pod) -> Result<(), Error> {
    /// for (kind, container) in pod.all_containers()? {
    ///     if kind != ContainerKind::Init {
    ///         container.field("resources").field("limits").field("memory").set_if_absent("1Gi")?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It reads what [`Needs::read_all_containers`](crate::Needs::read_all_containers) asks for, in one call.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn all_containers(&self) -> Result<Vec<(ContainerKind, Container<'_>)>, Error> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Spec {
            init_containers: Vec<Listed>,
            containers: Vec<Listed>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Listed {
            name: String,
            restart_policy: String,
        }
        let fields = [
            "/initContainers/*/name",
            "/initContainers/*/restartPolicy",
            "/containers/*/name",
        ];
        let spec: Spec = self.view("/spec", &fields)?.unwrap_or_default();
        let init = spec.init_containers.iter().map(|listed| {
            let kind = match listed.restart_policy.as_str() {
                "Always" => ContainerKind::Sidecar,
                _ => ContainerKind::Init,
            };
            (kind, self.init_container(&listed.name))
        });
        let regular = spec.containers.iter();
        let regular = regular.map(|listed| (ContainerKind::Regular, self.container(&listed.name)));
        Ok(init.chain(regular).collect())
    }
}
