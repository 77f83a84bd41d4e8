//! The command line of each program. Paths and addresses are those inside the node, where nobody else has them.

use std::path::{Path, PathBuf};

use crate::programs::Programs;

/// Where files of the node's own programs are, inside it.
pub(crate) const FILES: &str = "/var/node";

/// The URL of the API server in the node's network.
pub(crate) const SERVER: &str = "https://127.0.0.1:6443";

/// The name of the Node.
pub(crate) const NODE: &str = "real-0";

/// A program with its arguments.
pub(crate) struct Line {
    /// The name of its log.
    pub(crate) name: &'static str,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
}

fn line(name: &'static str, program: &Path, arguments: &[&str]) -> Line {
    let in_files = |argument: &&str| argument.replace("@", FILES);
    Line {
        name,
        program: program.to_owned(),
        arguments: arguments.iter().map(in_files).collect(),
    }
}

pub(crate) fn containerd(programs: &Programs) -> Line {
    let program = programs.directory.join("containerd");
    line("containerd", &program, &["--config", "@/containerd.toml"])
}

pub(crate) fn etcd(programs: &Programs) -> Line {
    let arguments = [
        "--data-dir=@/etcd",
        // Faster; nothing here has to survive a crash of the machine.
        "--unsafe-no-fsync",
    ];
    line("etcd", &programs.control_plane.etcd, &arguments)
}

pub(crate) fn api_server(programs: &Programs) -> Line {
    let arguments = [
        "--etcd-servers=http://127.0.0.1:2379",
        "--secure-port=6443",
        "--bind-address=127.0.0.1",
        // The Service `kubernetes` has no Endpoints: rules of iptables lead there.
        "--advertise-address=10.99.0.2",
        "--endpoint-reconciler-type=none",
        "--cert-dir=@/certificates",
        "--token-auth-file=@/tokens.csv",
        "--service-account-key-file=@/service-accounts.pem",
        "--service-account-signing-key-file=@/service-accounts.pem",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged=true",
        // Webhooks are called at a pod's address: there is no kube-proxy that would lead from the address of a Service to it.
        "--enable-aggregator-routing=true",
        // Not by its host name, which no DNS server knows.
        "--kubelet-preferred-address-types=InternalIP",
    ];
    line(
        "kube-apiserver",
        &programs.control_plane.api_server,
        &arguments,
    )
}

pub(crate) fn controller_manager(programs: &Programs) -> Line {
    let arguments = [
        "--kubeconfig=@/controllers.kubeconfig",
        "--service-account-private-key-file=@/service-accounts.pem",
        "--root-ca-file=@/certificates/apiserver.crt",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--secure-port=0",
        // By default it makes a directory in /usr, which is this machine's.
        "--flex-volume-plugin-dir=/var/lib/kubelet/volume-plugins",
    ];
    let program = &programs.control_plane.controller_manager;
    line("kube-controller-manager", program, &arguments)
}

pub(crate) fn scheduler(programs: &Programs) -> Line {
    let arguments = [
        "--kubeconfig=@/scheduler.kubeconfig",
        "--leader-elect=false",
        "--secure-port=0",
    ];
    line(
        "kube-scheduler",
        &programs.control_plane.scheduler,
        &arguments,
    )
}

pub(crate) fn kubelet(programs: &Programs) -> Line {
    let name = format!("--hostname-override={NODE}");
    let arguments = [
        "--config=@/kubelet.yaml",
        "--kubeconfig=@/node.kubeconfig",
        "--root-dir=/var/lib/kubelet",
        &name,
        "--node-ip=10.99.0.2",
    ];
    line("kubelet", &programs.kubelet, &arguments)
}
