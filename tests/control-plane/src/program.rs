//! The programs of a control plane.

/// One program of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controllers of Kubernetes itself.
    ControllerManager,
    /// The scheduler.
    Scheduler,
    /// The command line client.
    Kubectl,
    /// The kubelet's stand-in.
    Kwok,
}

impl Program {
    /// All programs, in the order in which they are built.
    pub const ALL: [Self; 6] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kubectl,
        Self::Kwok,
    ];

    /// The name of its file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kwok => "kwok",
        }
    }

    /// The Go package that it is built from.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::ApiServer => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::ControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::Scheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok",
        }
    }

    /// Whether it is a part of Kubernetes, and is released with it.
    pub(crate) fn is_kubernetes(self) -> bool {
        self.module() == "k8s.io/kubernetes"
    }

    /// The Go module whose version in `go.mod` is the program's own.
    pub(crate) fn module(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::Kwok => "sigs.k8s.io/kwok",
            _ => "k8s.io/kubernetes",
        }
    }

    /// The arguments that make it print its version.
    pub(crate) fn version_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Kubectl => &["version", "--client"],
            _ => &["--version"],
        }
    }
}
