//! The control plane that all tests share, with an account of least rights for each test, and everything that was logged.

use std::io::{self, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, OnceLock};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use podloom_control_plane::{ControlPlane, Options};
use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;

/// The name of the account in each namespace.
const ACCOUNT: &str = "podloom";
/// The name of the Secret in each namespace.
pub(crate) const SECRET: &str = "podloom-webhook-tls";

pub(crate) struct Cluster {
    plane: ControlPlane,
    log: Log,
}

impl Cluster {
    /// The one that all tests share. It ends with the process, since a static is never dropped.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| {
            let log = Log::default();
            tracing_subscriber::fmt()
                .with_max_level(tracing::Level::TRACE)
                .with_ansi(false)
                .with_writer(log.clone())
                .init();
            let options = Options {
                nodes: 0,
                audit: false,
                ..Options::default()
            };
            let plane = ControlPlane::start(&options).unwrap();
            Self { plane, log }
        })
    }

    /// Everything that was logged so far, at every level.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&self.log.0.lock().unwrap()).into_owned()
    }

    /// An administrator's client. It belongs to the runtime in which it was made.
    pub(crate) async fn admin(&self) -> Client {
        client(&self.plane.kubeconfig()).await
    }

    /// A client with the rights of the operator in this namespace; the configurations have the namespace's name.
    pub(crate) async fn operator(&self, namespace: &str) -> Client {
        self.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": account(namespace) }));
        let kubeconfig = self
            .plane
            .kubeconfig_for_service_account(namespace, ACCOUNT)
            .unwrap();
        client(&kubeconfig).await
    }

    /// Applies an object, or a list of them.
    pub(crate) fn apply(&self, objects: &Value) {
        let mut kubectl = self.plane.kubectl();
        kubectl.args(["apply", "--filename", "-"]);
        let mut kubectl = kubectl
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = kubectl.stdin.take().unwrap();
        input.write_all(objects.to_string().as_bytes()).unwrap();
        drop(input);
        assert!(
            kubectl.wait().unwrap().success(),
            "could not apply {objects}"
        );
    }
}

/// A namespace, and an account with the rights that certificates need.
fn account(namespace: &str) -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io";
    let version = format!("{rbac}/v1");
    let subject = json!({ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace });
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": ACCOUNT, "namespace": namespace } }),
        json!({
            "apiVersion": version, "kind": "Role", "metadata": { "name": ACCOUNT, "namespace": namespace },
            "rules": [
                { "apiGroups": [""], "resources": ["secrets"], "verbs": ["create"] },
                { "apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": ["get", "update"] },
            ],
        }),
        json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": { "name": ACCOUNT, "namespace": namespace },
            "roleRef": { "apiGroup": rbac, "kind": "Role", "name": ACCOUNT }, "subjects": [subject],
        }),
        json!({
            "apiVersion": version, "kind": "ClusterRole", "metadata": { "name": namespace },
            "rules": [{
                "apiGroups": ["admissionregistration.k8s.io"],
                "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
                "resourceNames": [namespace], "verbs": ["get", "patch"],
            }],
        }),
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": { "name": namespace },
            "roleRef": { "apiGroup": rbac, "kind": "ClusterRole", "name": namespace }, "subjects": [subject],
        }),
    ]
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options);
    Client::try_from(config.await.unwrap()).unwrap()
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
