//! Control planes on which Podloom is installed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use kube::Client;
use podloom_api::{InfrastructureKind, SelenosisApi, SelenosisKind, names};
use podloom_control_plane::{ControlPlane, Options};
use serde_json::Value;

use crate::servers::{LateServer, Servers, client};
use crate::wait::{PATIENCE, POLL_INTERVAL};

/// A control plane, with or without Podloom's CRDs and the rights of its ServiceAccount.
pub struct Cluster {
    /// The control plane.
    pub plane: ControlPlane,
    operator_kubeconfig: OnceLock<PathBuf>,
    portal_kubeconfig: OnceLock<PathBuf>,
    infrastructure_kubeconfig: OnceLock<PathBuf>,
    cleaner_kubeconfig: OnceLock<PathBuf>,
    late_server: OnceLock<LateServer>,
}

/// A request that the API server has answered, from its audit log.
#[derive(Clone, Debug)]
pub struct AuditedRequest {
    /// `create`, `patch`, ...
    pub verb: String,
    /// The plural of the object's kind.
    pub resource: String,
    /// `status`, ...; empty if it is about the object itself.
    pub subresource: String,
    /// The object's namespace; empty if it has none.
    pub namespace: String,
    /// The object's name; for a `create`, it is known only if the request succeeded.
    pub name: String,
    /// The HTTP status of the answer.
    pub status: u64,
    /// When it arrived, in RFC 3339, so that it sorts as text.
    pub received: String,
}

impl AuditedRequest {
    /// Whether it changes anything.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

/// What kubectl printed.
#[derive(Clone, Debug)]
pub struct Said {
    /// Whether it succeeded.
    pub is_done: bool,
    /// Its standard output.
    pub out: String,
    /// Its standard error: warnings, and what went wrong.
    pub error: String,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

impl Cluster {
    /// The cluster shared by all tests that start operators themselves, each for a namespace of its own.
    #[must_use]
    pub fn without_operator() -> Arc<Self> {
        static WITHOUT_OPERATOR: OnceLock<Arc<Cluster>> = OnceLock::new();
        let cluster = WITHOUT_OPERATOR.get_or_init(|| Arc::new(Self::installed()));
        Arc::clone(cluster)
    }

    /// A cluster on which Podloom was never installed.
    #[must_use]
    pub fn bare() -> Self {
        Self::start(&Options {
            audit: true,
            ..Options::default()
        })
    }

    /// The same, with these options.
    #[must_use]
    pub fn start(options: &Options) -> Self {
        let plane = ControlPlane::start(options).unwrap();
        Self {
            plane,
            operator_kubeconfig: OnceLock::new(),
            portal_kubeconfig: OnceLock::new(),
            infrastructure_kubeconfig: OnceLock::new(),
            cleaner_kubeconfig: OnceLock::new(),
            late_server: OnceLock::new(),
        }
    }

    /// A cluster with the CRDs in both sets of groups, and with the rights that `deploy/` gives the operator.
    #[must_use]
    pub fn installed() -> Self {
        let cluster = Self::bare();
        cluster.install();
        cluster
    }

    /// Installs Podloom, except for the operator itself.
    pub fn install(&self) {
        self.apply(&root().join("crds"));
        for set in ["split", "portal", "infrastructure", "cleaner", "rollout"] {
            self.apply(&root().join("crds").join(set));
        }
        self.await_kinds();
        let browser = root().join("deploy/controllers/browser");
        self.apply(&root().join("deploy/base/namespace.yaml"));
        self.apply(&browser.join("rbac.yaml"));
        self.apply(&browser.join("flow-schema/flow-schema.yaml"));
        self.apply(&root().join("deploy/controllers/portal/rbac.yaml"));
        self.apply(&root().join("deploy/controllers/infrastructure/rbac.yaml"));
        self.apply(&root().join("deploy/controllers/cleaner/rbac.yaml"));
        self.apply(&root().join("tests/blackbox/fixtures/cleaner/rights.yaml"));
        self.apply(&root().join("deploy/controllers/webhook/rbac.yaml"));
        for duty in ["webhook", "rollout"] {
            let policy = format!("deploy/controllers/{duty}/policy/policy.yaml");
            self.apply(&root().join(policy));
        }
        // The roles of both sets have the same name, since an installation has only one set.
        let split = std::fs::read_to_string(browser.join("split/rbac.yaml")).unwrap();
        self.apply_text(&split.replace("podloom-browsers", "podloom-browsers-split"));
    }

    /// Waits until the API server serves the kinds.
    fn await_kinds(&self) {
        let deadline = Instant::now() + PATIENCE;
        let kinds = SelenosisApi::ALL.into_iter().flat_map(|api| {
            SelenosisKind::ALL.map(|kind| format!("{}.{}", kind.plural(), api.group(kind)))
        });
        let portal = ["portalexposes", "tunnelclasses"];
        let portal = portal.map(|plural| format!("{plural}.{}", names::portal::GROUP));
        let infrastructure = InfrastructureKind::ALL;
        let infrastructure = infrastructure
            .map(|kind| format!("{}.{}", kind.plural(), names::infrastructure::GROUP));
        let cleaner = [format!("cleaners.{}", names::cleaner::GROUP)];
        let rollout = [format!("chainrollouts.{}", names::rollout::GROUP)];
        let kinds = kinds.chain(portal).chain(infrastructure).chain(cleaner);
        for kind in kinds.chain(rollout) {
            while let Err(error) = self.try_kubectl(&["get", &kind, "--all-namespaces"]) {
                assert!(Instant::now() < deadline, "{kind} is not served: {error}");
                thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Waits until the controller of Cleaners has the rights to targets: Kubernetes copies them into the role that it has.
    fn await_target_rights(&self) {
        let deadline = Instant::now() + PATIENCE;
        let account = "system:serviceaccount:podloom-system:podloom-cleaner";
        let asked = ["auth", "can-i", "delete", "pods", "--as", account];
        while let Err(error) = self.try_kubectl(&asked) {
            assert!(Instant::now() < deadline, "no rights to targets: {error}");
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Applies a file, or all files of a directory.
    pub fn apply(&self, path: &Path) {
        self.kubectl(&[
            "apply",
            "--server-side",
            "--filename",
            path.to_str().unwrap(),
        ]);
    }

    /// Applies manifests.
    pub fn apply_text(&self, text: &str) {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        self.apply(file.path());
    }

    /// Runs kubectl as administrator, and returns its output.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        match self.try_kubectl(arguments) {
            Ok(printed) => printed,
            Err(why) => panic!("kubectl {}: {why}", arguments.join(" ")),
        }
    }

    fn try_kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        let said = self.ask_kubectl(arguments);
        match said.is_done {
            true => Ok(said.out),
            false => Err(said.error),
        }
    }

    /// Runs kubectl as administrator, and returns everything that it printed, whether it succeeds or not.
    pub fn ask_kubectl(&self, arguments: &[&str]) -> Said {
        let mut kubectl: Command = self.plane.kubectl();
        let output = kubectl.args(arguments).output().unwrap();
        Said {
            is_done: output.status.success(),
            out: String::from_utf8(output.stdout).unwrap(),
            error: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The kubeconfig of the operator's own ServiceAccount.
    pub fn operator_kubeconfig(&self) -> &Path {
        self.operator_kubeconfig.get_or_init(|| {
            self.plane
                .kubeconfig_for_service_account("podloom-system", "podloom")
                .unwrap()
        })
    }

    /// The kubeconfig of the portal controller's own ServiceAccount.
    pub fn portal_kubeconfig(&self) -> &Path {
        self.portal_kubeconfig.get_or_init(|| {
            self.plane
                .kubeconfig_for_service_account("podloom-system", "podloom-portal")
                .unwrap()
        })
    }

    /// The kubeconfig of the infrastructure controller's own ServiceAccount.
    pub fn infrastructure_kubeconfig(&self) -> &Path {
        self.infrastructure_kubeconfig.get_or_init(|| {
            self.plane
                .kubeconfig_for_service_account("podloom-system", "podloom-infrastructure")
                .unwrap()
        })
    }

    /// The kubeconfig of the ServiceAccount of the controller of Cleaners.
    pub fn cleaner_kubeconfig(&self) -> &Path {
        self.cleaner_kubeconfig.get_or_init(|| {
            self.await_target_rights();
            self.plane
                .kubeconfig_for_service_account("podloom-system", "podloom-cleaner")
                .unwrap()
        })
    }

    /// The API server and a second one, which the first call starts, for the account of a kubeconfig.
    pub fn servers(&self, account: &Path) -> Servers<'_> {
        let late = || LateServer::start(&self.plane);
        Servers::new(self.late_server.get_or_init(late), account)
    }

    /// An account's requests that the API servers have answered, from its audit log.
    pub fn requests_of(&self, user: &str) -> Vec<AuditedRequest> {
        let log = std::fs::read_to_string(self.plane.audit_log()).unwrap_or_default();
        // Most lines are about others; the last one may be half written.
        let entries = log
            .lines()
            .filter(|line| line.contains(user))
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        // A watch is there when it begins, and again when it ends.
        let mut seen = BTreeSet::new();
        entries
            .filter(|entry| entry["user"]["username"] == user)
            .filter(|entry| seen.insert(text(&entry["auditID"])))
            .map(|entry| AuditedRequest {
                verb: text(&entry["verb"]),
                resource: text(&entry["objectRef"]["resource"]),
                subresource: text(&entry["objectRef"]["subresource"]),
                namespace: text(&entry["objectRef"]["namespace"]),
                name: text(&entry["objectRef"]["name"]),
                status: entry["responseStatus"]["code"].as_u64().unwrap_or_default(),
                received: text(&entry["requestReceivedTimestamp"]),
            })
            .collect()
    }

    /// An administrator's client. It works only in the runtime that created it.
    pub async fn client(&self) -> Client {
        client(&self.plane.kubeconfig()).await
    }

    /// A client with the rights of the operator's own ServiceAccount. It works only in the runtime that created it.
    pub async fn operator_client(&self) -> Client {
        client(self.operator_kubeconfig()).await
    }
}
