//! The programs of a node: those of a control plane, and those that are built for the node.

use std::path::PathBuf;

use podloom_control_plane::module;

use crate::error::NodeError;
use crate::modules::{KUBELET, PACKAGES, own};
use crate::possible::{check_cache, check_visible};

/// Where each program is.
#[derive(Clone, Debug)]
pub struct Programs {
    /// etcd, the API server and the others.
    pub control_plane: podloom_control_plane::Programs,
    /// `kubelet`.
    pub kubelet: PathBuf,
    /// The directory of `containerd`, `ctr`, containerd's shim, the network plugins, and the stand-in for images.
    pub directory: PathBuf,
}

impl Programs {
    /// Finds the programs of the control plane, and builds what is missing, which takes minutes the first time.
    ///
    /// # Errors
    ///
    /// Fails if a program is missing and cannot be built, or if the node would not see it.
    pub fn find() -> Result<Self, NodeError> {
        check_cache()?;
        let programs = Self {
            control_plane: podloom_control_plane::Programs::find()?,
            kubelet: module().build(&[KUBELET])?.join(KUBELET.name),
            directory: own().build(&PACKAGES)?,
        };
        let plane = &programs.control_plane;
        for path in [
            &plane.etcd,
            &plane.api_server,
            &plane.controller_manager,
            &plane.scheduler,
        ] {
            check_visible(path, "KUBEBUILDER_ASSETS")?;
        }
        Ok(programs)
    }

    /// The names of the programs that [`Programs::find`] would build first.
    ///
    /// # Errors
    ///
    /// Fails if that build cannot even start, because Go is missing, or because the node would not see what is built; the message
    /// says what to do.
    pub fn missing() -> Result<Vec<&'static str>, NodeError> {
        check_cache()?;
        let plane = podloom_control_plane::Programs::missing()?;
        let mut missing: Vec<&str> = plane.into_iter().map(|program| program.name()).collect();
        for (module, packages) in [(module(), &[KUBELET][..]), (own(), &PACKAGES[..])] {
            missing.extend(module.missing(packages)?.iter().map(|package| package.name));
        }
        Ok(missing)
    }
}
