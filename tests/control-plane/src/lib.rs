//! A real Kubernetes control plane on loopback, for Podloom's tests and demo.
//!
//! etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl are the real programs; the kubelet is KWOK, which
//! plays the life of pods from the files in `stages/`. A pod chooses one of them by the label [`BEHAVIOUR_LABEL`]; without that
//! label it runs.
//!
//! [`Programs::find`] takes the programs from `KUBEBUILDER_ASSETS`, from `PATH`, or from the user's cache directory, where it
//! builds what is missing from the Go modules pinned in `go/`. That takes minutes the first time, and nothing afterwards.
//! [`KUBERNETES`] chooses an older or a newer release, of the modules in `releases/`.
//! [`ControlPlane::start`] takes seconds.
//!
//! A control plane ends with its owner, however that ends: dropped, panicked, interrupted or killed. See [`ControlPlane`].

mod build;
mod cache;
mod control_plane;
mod go;
mod group;
mod keys;
mod kubeconfig;
mod program;
mod programs;
mod prometheus;
mod release;
mod tools;
mod version;
mod wait;

pub use build::module;
pub use cache::{cache, lock};
pub use control_plane::{ControlPlane, Options, StartError};
pub use go::{BuildError, Module, Package, last_lines};
pub use keys::{signing_key, token};
pub use kubeconfig::{Kubeconfig, KubeconfigError, write_secret};
pub use program::Program;
pub use programs::{FindError, Programs};
pub use prometheus::{PackageError, Prometheus, prometheus};
pub use release::{KUBERNETES, RELEASES, Release, UnknownRelease};
pub use tools::{crane, doors, helm, helm4, kustomize, report_crds};
pub use wait::{CommandError, PATIENCE, output, until};

/// The label by which a pod chooses its behaviour: the name of a file in `stages/`. With any other value its status never changes.
pub const BEHAVIOUR_LABEL: &str = "kubelet.test/behaviour";
