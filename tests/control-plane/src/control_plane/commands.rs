//! The command line of each program, and the files and ports that they share.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{INTERNAL, Options};
use crate::keys;
use crate::programs::Programs;

/// The behaviours of pods and Nodes.
const STAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/stages");

/// By default KWOK plays four pods at a time. Every value must be here: in a configuration file, a missing value means zero.
const KWOK_CONFIGURATION: &str = "\
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 16
  nodePlayStageParallelism: 4
  nodeLeaseParallelism: 4
  podsOnNodeSyncParallelism: 4
";

/// By default the scheduler and the controllers limit themselves to 50 and 20 requests a second. With 1,000 pods at once, a
/// benchmark would measure nothing but these limits.
const CLIENT_LIMITS: [&str; 2] = ["--kube-api-qps=2000", "--kube-api-burst=4000"];

/// Without the node life-cycle controller a Node keeps its not-ready taint, and no pod is scheduled. Without the aggregation of
/// ClusterRoles, `view`, `edit` and `admin` are empty. Without the collector of pods, a Job waits forever for a pod that was deleted before it
/// had a node.
const CONTROLLERS: &str = "--controllers=clusterrole-aggregation-controller,daemonset-controller,\
                           deployment-controller,garbage-collector-controller,job-controller,namespace-controller,\
                           node-lifecycle-controller,pod-garbage-collector-controller,replicaset-controller,replicationcontroller-controller,\
                           serviceaccount-controller,\
                           statefulset-controller";

/// The files and ports of a control plane.
pub(super) struct Layout {
    pub(super) data: PathBuf,
    /// The API server's URL.
    pub(super) server: String,
    port: u16,
    pub(super) etcd: SocketAddr,
    etcd_peer: String,
}

impl Layout {
    /// Files in this directory, and ports that are free now.
    pub(super) fn choose(data: &Path) -> io::Result<Self> {
        // All three are held until all are chosen, so that they differ.
        let listeners = [free_port()?, free_port()?, free_port()?];
        let [port, etcd, peer] = listeners.each_ref().map(|(port, _)| *port);
        Ok(Self {
            data: data.to_owned(),
            server: format!("https://127.0.0.1:{port}"),
            port,
            etcd: (Ipv4Addr::LOCALHOST, etcd).into(),
            etcd_peer: format!("http://127.0.0.1:{peer}"),
        })
    }

    /// The same files, for one more API server on a port of its own, which finds etcd at this address.
    pub(super) fn beside(&self, etcd: SocketAddr) -> io::Result<Self> {
        let (port, _) = free_port()?;
        Ok(Self {
            data: self.data.clone(),
            server: format!("https://127.0.0.1:{port}"),
            port,
            etcd,
            etcd_peer: self.etcd_peer.clone(),
        })
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.data.join("kubeconfig")
    }

    /// The kubeconfig of the control plane's own programs.
    pub(super) fn internal_kubeconfig(&self) -> PathBuf {
        self.data.join("control-plane.kubeconfig")
    }

    pub(super) fn audit_policy(&self) -> PathBuf {
        self.data.join("audit-policy.yaml")
    }

    pub(super) fn admission_configuration(&self) -> PathBuf {
        self.data.join("admission.yaml")
    }

    pub(super) fn audit_log(&self) -> PathBuf {
        self.data.join("audit.log")
    }

    pub(super) fn tokens(&self) -> PathBuf {
        self.data.join("tokens.csv")
    }

    pub(super) fn signing_key(&self) -> PathBuf {
        self.data.join("service-accounts.pem")
    }

    pub(super) fn nodes(&self) -> PathBuf {
        self.data.join("nodes.yaml")
    }

    fn certificates(&self) -> PathBuf {
        self.data.join("certificates")
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.certificates().join("apiserver.crt")
    }
}

/// A port that nobody listens on. It is below the ports that systems use for outgoing connections: otherwise a client that keeps
/// trying to reach a server that is down could be given the server's own port.
fn free_port() -> io::Result<(u16, TcpListener)> {
    let mut last = None;
    for _ in 0..100 {
        let port = 15_000 + keys::random_u16()? % 15_000;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return Ok((port, listener)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

pub(super) fn etcd(programs: &Programs, layout: &Layout) -> Command {
    let mut command = Command::new(&programs.etcd);
    command
        .arg("--name=default")
        .arg(option("--data-dir", layout.data.join("etcd")))
        .arg(format!("--listen-client-urls=http://{}", layout.etcd))
        .arg(format!("--advertise-client-urls=http://{}", layout.etcd))
        .arg(format!("--listen-peer-urls={}", layout.etcd_peer))
        .arg(format!(
            "--initial-advertise-peer-urls={}",
            layout.etcd_peer
        ))
        .arg(format!("--initial-cluster=default={}", layout.etcd_peer))
        // Faster; nothing here has to survive a crash of the machine.
        .arg("--unsafe-no-fsync");
    command
}

/// Logs every request when it is answered, and watches when they begin, too, without bodies. The requests of the control plane's own
/// programs are left out: there are many.
pub(super) fn audit_policy() -> String {
    format!(
        "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {{ level: None, users: [{INTERNAL}, 'system:apiserver', 'system:anonymous'] }}
- {{ level: Metadata, omitManagedFields: true }}
"
    )
}

/// Has the API server show the certificate of a kubeconfig to webhooks.
pub(super) fn admission_configuration(kubeconfig: &Path) -> String {
    let plugin = |name: &str| {
        format!(
            "\
- name: {name}
  configuration: {{ apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: {kubeconfig:?} }}
"
        )
    };
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n{}{}",
        plugin("MutatingAdmissionWebhook"),
        plugin("ValidatingAdmissionWebhook")
    )
}

pub(super) fn api_server(programs: &Programs, layout: &Layout, options: &Options) -> Command {
    let mut command = Command::new(&programs.api_server);
    command
        .arg(format!("--etcd-servers=http://{}", layout.etcd))
        .arg(format!("--secure-port={}", layout.port))
        // Without a network the server finds no address to advertise. A loopback address is not valid in Endpoints, so none are
        // written.
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .arg("--endpoint-reconciler-type=none")
        .arg(option("--cert-dir", layout.certificates()))
        .arg(option("--token-auth-file", layout.tokens()))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(option("--service-account-key-file", layout.signing_key()))
        .arg(option(
            "--service-account-signing-key-file",
            layout.signing_key(),
        ))
        .arg("--authorization-mode=RBAC")
        .arg("--disable-admission-plugins=ServiceAccount")
        // As in clusters that run node agents; Pod Security admission decides where privileged pods are allowed.
        .arg("--allow-privileged=true")
        .arg("--service-cluster-ip-range=10.0.0.0/16");
    if options.webhook_client.is_some() {
        command.arg(option(
            "--admission-control-config-file",
            layout.admission_configuration(),
        ));
    }
    if options.audit {
        command
            .arg(option("--audit-policy-file", layout.audit_policy()))
            .arg(option("--audit-log-path", layout.audit_log()))
            // In MiB. At the usual 100 the log would be moved away while a benchmark with 10,000 objects reads it.
            .arg("--audit-log-maxsize=8192");
    }
    command
}

pub(super) fn controller_manager(programs: &Programs, layout: &Layout) -> Command {
    let mut command = Command::new(&programs.controller_manager);
    command
        .arg(option("--kubeconfig", layout.internal_kubeconfig()))
        .args(["--leader-elect=false", "--secure-port=0", CONTROLLERS])
        // KWOK sends a heartbeat for each Node only every ten minutes, so Nodes must not count as lost sooner.
        .arg("--node-monitor-grace-period=1h")
        .args(CLIENT_LIMITS);
    command
}

pub(super) fn scheduler(programs: &Programs, layout: &Layout) -> Command {
    let mut command = Command::new(&programs.scheduler);
    command
        .arg(option("--kubeconfig", layout.internal_kubeconfig()))
        .args(["--leader-elect=false", "--secure-port=0"])
        .args(CLIENT_LIMITS);
    command
}

/// KWOK with every file of `stages/`.
pub(super) fn kwok(programs: &Programs, layout: &Layout) -> io::Result<Command> {
    let configuration = layout.data.join("kwok.yaml");
    fs::write(&configuration, KWOK_CONFIGURATION)?;
    let mut command = Command::new(&programs.kwok);
    command
        .arg(option("--kubeconfig", layout.internal_kubeconfig()))
        .arg(option("--config", configuration))
        .args(["--manage-all-nodes=true", "--cidr=10.1.0.0/16"])
        // With leases, a restarted KWOK would do nothing until the old leases expire.
        .arg("--node-lease-duration-seconds=0");
    for stage in stages()? {
        command.arg(option("--config", stage));
    }
    Ok(command)
}

fn stages() -> io::Result<Vec<PathBuf>> {
    let mut files = fs::read_dir(STAGES)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    files.sort();
    Ok(files)
}

/// `--name=path`, for a path that need not be UTF-8.
fn option(name: &str, path: PathBuf) -> std::ffi::OsString {
    let mut word = std::ffi::OsString::from(name);
    word.push("=");
    word.push(path);
    word
}
