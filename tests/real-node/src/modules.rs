//! The Go modules from which a node's programs are built.

use podloom_control_plane::{Module, Package};

/// Built from the module of Kubernetes.
pub(crate) const KUBELET: Package = Package {
    name: "kubelet",
    path: "k8s.io/kubernetes/cmd/kubelet",
};

/// Built from the node's own module. containerd looks for its shim, and the plugins of its network, beside itself.
pub(crate) const PACKAGES: [Package; 7] = [
    Package {
        name: "containerd",
        path: "github.com/containerd/containerd/v2/cmd/containerd",
    },
    Package {
        name: "containerd-shim-runc-v2",
        path: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
    },
    Package {
        name: "ctr",
        path: "github.com/containerd/containerd/v2/cmd/ctr",
    },
    Package {
        name: "bridge",
        path: "github.com/containernetworking/plugins/plugins/main/bridge",
    },
    Package {
        name: "loopback",
        path: "github.com/containernetworking/plugins/plugins/main/loopback",
    },
    Package {
        name: "host-local",
        path: "github.com/containernetworking/plugins/plugins/ipam/host-local",
    },
    Package {
        name: "stand-in",
        path: "./stand-in",
    },
];

/// Our own Go files: if one changes, the programs are built again.
const SOURCES: [&str; 1] = [include_str!("../go/stand-in/main.go")];

/// The module with everything of a node that is not Kubernetes' own.
pub(crate) fn own() -> Module {
    Module {
        title: "real node",
        directory: concat!(env!("CARGO_MANIFEST_DIR"), "/go"),
        go_mod: include_str!("../go/go.mod"),
        go_sum: include_str!("../go/go.sum"),
        sources: &SOURCES,
        link: "-s -w".to_owned(),
        time: "three minutes",
        instead: |_| String::new(),
    }
}

#[cfg(test)]
mod tests;
