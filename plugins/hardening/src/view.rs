//! What the plugin looks at in a pod, in one call. Everything else is never seen, and stays as it is.

use std::cell::Cell;
use std::collections::BTreeMap;

use podloom_plugin_sdk::json::Object;
use podloom_plugin_sdk::path;
use podloom_plugin_sdk::prelude::*;
use podloom_plugin_sdk::serde::de::IgnoredAny;

use crate::config::{Config, PROBE_HOSTS, Report};

/// All that is looked at.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct View {
    pub(crate) metadata: Metadata,
    pub(crate) spec: Spec,
    /// The pod's own security context, which its containers inherit.
    #[serde(skip)]
    pub(crate) context: Context,
    /// The containers of all three lists, in the order in which they start.
    #[serde(skip)]
    pub(crate) containers: Vec<Container>,
}

impl View {
    pub(crate) fn read(config: &Config, pod: &Pod) -> Result<Self, Error> {
        let view: Option<Self> = pod.view("", &config.fields)?;
        let mut view = view.unwrap_or_default();
        view.context = Context::new("/spec", view.spec.security_context.take(), true);
        view.containers = view.spec.take_containers();
        Ok(view)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Metadata {
    pub(crate) labels: BTreeMap<String, String>,
    /// Only their names matter here.
    pub(crate) annotations: BTreeMap<String, IgnoredAny>,
}

/// The pod's specification.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    pub(crate) host_network: bool,
    #[serde(rename = "hostPID")]
    pub(crate) host_pid: bool,
    #[serde(rename = "hostIPC")]
    pub(crate) host_ipc: bool,
    pub(crate) host_users: Option<bool>,
    pub(crate) os: Named,
    pub(crate) node_selector: BTreeMap<String, String>,
    pub(crate) service_account_name: String,
    pub(crate) service_account: String,
    pub(crate) automount_service_account_token: Option<bool>,
    pub(crate) enable_service_links: Option<bool>,
    pub(crate) scheduler_name: Option<IgnoredAny>,
    pub(crate) resources: Option<IgnoredAny>,
    pub(crate) volumes: Vec<Object>,
    /// Moved into the view's `context`.
    security_context: Option<Box<SecurityContext>>,
    init_containers: Vec<Container>,
    containers: Vec<Container>,
    ephemeral_containers: Vec<Container>,
}

impl Spec {
    fn take_containers(&mut self) -> Vec<Container> {
        let lists = [
            ("/spec/initContainers", true, &mut self.init_containers),
            ("/spec/containers", true, &mut self.containers),
            (
                "/spec/ephemeralContainers",
                false,
                &mut self.ephemeral_containers,
            ),
        ];
        let mut all = Vec::new();
        for (list, writable, containers) in lists {
            for (index, container) in containers.iter_mut().enumerate() {
                container.path = match container.name.as_str() {
                    "" => path::field(list, &index.to_string()),
                    name => path::element(list, "name", name),
                };
                let settings = container.security_context.take();
                container.context = Context::new(&container.path, settings, writable);
            }
            all.append(containers);
        }
        all
    }
}

/// Something that has a name: an operating system, a sysctl.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Named {
    pub(crate) name: String,
}

/// A container of any of the three lists.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) image_pull_policy: String,
    pub(crate) resources: Resources,
    pub(crate) ports: Vec<Port>,
    pub(crate) volume_mounts: Vec<Mount>,
    pub(crate) liveness_probe: Handler,
    pub(crate) readiness_probe: Handler,
    pub(crate) startup_probe: Handler,
    pub(crate) lifecycle: Lifecycle,
    /// Moved into `context`.
    security_context: Option<Box<SecurityContext>>,
    /// Its path in the pod.
    #[serde(skip)]
    pub(crate) path: String,
    #[serde(skip)]
    pub(crate) context: Context,
    /// Whether the configuration spares it.
    #[serde(skip)]
    pub(crate) exempt: bool,
}

/// Whether a container has limits and requests.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Resources {
    pub(crate) limits: Option<IgnoredAny>,
    pub(crate) requests: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Lifecycle {
    pub(crate) post_start: Handler,
    pub(crate) pre_stop: Handler,
}

/// A probe or a hook.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Handler {
    pub(crate) http_get: Address,
    pub(crate) tcp_socket: Address,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Address {
    pub(crate) host: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Port {
    pub(crate) host_port: i64,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Mount {
    pub(crate) mount_path: Option<String>,
}

/// The place of a security context, of the pod or of a container.
#[derive(Default)]
pub(crate) struct Context {
    /// Its path in the pod.
    pub(crate) path: String,
    /// Whether it is there.
    pub(crate) exists: bool,
    /// Whether it may be changed: of those of ephemeral containers only new ones.
    pub(crate) writable: bool,
    /// The edit that writes it, if it is not there.
    pub(crate) created: Cell<Option<usize>>,
    /// What it says; nothing if it is not there. In a box, for it is large and moved about while it is read.
    pub(crate) settings: Box<SecurityContext>,
}

impl Context {
    fn new(parent: &str, settings: Option<Box<SecurityContext>>, writable: bool) -> Self {
        Self {
            path: path::join(parent, "securityContext"),
            exists: settings.is_some(),
            writable,
            created: Cell::new(None),
            settings: settings.unwrap_or_default(),
        }
    }

    /// The path of one of its fields.
    pub(crate) fn field(&self, field: &str) -> String {
        path::join(&self.path, field)
    }
}

/// A security context, of the pod or of a container: each has some of these fields.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SecurityContext {
    pub(crate) privileged: bool,
    pub(crate) allow_privilege_escalation: Option<bool>,
    pub(crate) capabilities: Option<Capabilities>,
    pub(crate) proc_mount: Option<String>,
    pub(crate) read_only_root_filesystem: Option<bool>,
    pub(crate) run_as_non_root: Option<bool>,
    pub(crate) run_as_user: Option<i64>,
    pub(crate) run_as_group: Option<i64>,
    pub(crate) fs_group: Option<i64>,
    pub(crate) seccomp_profile: Option<ProfileSource>,
    pub(crate) app_armor_profile: Option<ProfileSource>,
    pub(crate) se_linux_options: SeLinuxOptions,
    pub(crate) windows_options: WindowsOptions,
    pub(crate) sysctls: Vec<Named>,
}

impl SecurityContext {
    /// The capabilities that it adds.
    pub(crate) fn added(&self) -> &[String] {
        self.capabilities
            .as_ref()
            .map_or(&[], |capabilities| &capabilities.add)
    }

    /// The capabilities that it drops.
    pub(crate) fn dropped(&self) -> &[String] {
        self.capabilities
            .as_ref()
            .map_or(&[], |capabilities| &capabilities.drop)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Capabilities {
    add: Vec<String>,
    drop: Vec<String>,
}

/// Where a seccomp or AppArmor profile comes from.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ProfileSource {
    r#type: String,
}

impl ProfileSource {
    /// Whether it is one that the standards allow.
    pub(crate) fn is_confined(&self) -> bool {
        matches!(self.r#type.as_str(), "RuntimeDefault" | "Localhost")
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct SeLinuxOptions {
    pub(crate) r#type: String,
    pub(crate) user: String,
    pub(crate) role: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WindowsOptions {
    pub(crate) host_process: bool,
}

/// Small objects are named whole, and so are ephemeral containers: most pods have none.
/// The lists of containers come in the order in which they start.
const ALWAYS: &[&str] = &[
    "/metadata/annotations",
    "/spec/hostNetwork",
    "/spec/hostPID",
    "/spec/hostIPC",
    "/spec/hostUsers",
    "/spec/os",
    "/spec/nodeSelector/kubernetes.io~1os",
    "/spec/securityContext",
    "/spec/volumes",
    "/spec/initContainers/*/name",
    "/spec/initContainers/*/securityContext",
    "/spec/initContainers/*/ports/*/hostPort",
    "/spec/containers/*/name",
    "/spec/containers/*/securityContext",
    "/spec/containers/*/ports/*/hostPort",
    "/spec/ephemeralContainers",
];
const HANDLERS: &[&str] = &[
    "/spec/initContainers/*/livenessProbe/httpGet/host",
    "/spec/initContainers/*/livenessProbe/tcpSocket/host",
    "/spec/initContainers/*/readinessProbe/httpGet/host",
    "/spec/initContainers/*/readinessProbe/tcpSocket/host",
    "/spec/initContainers/*/startupProbe/httpGet/host",
    "/spec/initContainers/*/startupProbe/tcpSocket/host",
    "/spec/initContainers/*/lifecycle/postStart/httpGet/host",
    "/spec/initContainers/*/lifecycle/postStart/tcpSocket/host",
    "/spec/initContainers/*/lifecycle/preStop/httpGet/host",
    "/spec/initContainers/*/lifecycle/preStop/tcpSocket/host",
    "/spec/containers/*/livenessProbe/httpGet/host",
    "/spec/containers/*/livenessProbe/tcpSocket/host",
    "/spec/containers/*/readinessProbe/httpGet/host",
    "/spec/containers/*/readinessProbe/tcpSocket/host",
    "/spec/containers/*/startupProbe/httpGet/host",
    "/spec/containers/*/startupProbe/tcpSocket/host",
    "/spec/containers/*/lifecycle/postStart/httpGet/host",
    "/spec/containers/*/lifecycle/postStart/tcpSocket/host",
    "/spec/containers/*/lifecycle/preStop/httpGet/host",
    "/spec/containers/*/lifecycle/preStop/tcpSocket/host",
];
const IMAGES: &[&str] = &["/spec/initContainers/*/image", "/spec/containers/*/image"];
const PULL_POLICIES: &[&str] = &[
    "/spec/initContainers/*/imagePullPolicy",
    "/spec/containers/*/imagePullPolicy",
];
/// Only whether limits and requests are there counts: none has a resource without a name, so each is shown as an empty object.
const RESOURCES: &[&str] = &[
    "/spec/resources",
    "/spec/initContainers/*/resources/limits/",
    "/spec/initContainers/*/resources/requests/",
    "/spec/containers/*/resources/limits/",
    "/spec/containers/*/resources/requests/",
];
const MOUNTS: &[&str] = &[
    "/spec/initContainers/*/volumeMounts/*/mountPath",
    "/spec/containers/*/volumeMounts/*/mountPath",
];
const ACCOUNTS: &[&str] = &["/spec/serviceAccountName", "/spec/serviceAccount"];
const LABELS: &[&str] = &["/metadata/labels"];
const TOKEN: &[&str] = &["/spec/automountServiceAccountToken"];
/// The API server sets the second one too, so where that is missing, somebody wrote the first.
const SERVICE_LINKS: &[&str] = &["/spec/enableServiceLinks", "/spec/schedulerName"];

/// Returns the fields that matter with this configuration.
pub(crate) fn fields(config: &Config) -> Vec<&'static str> {
    let reports = |report: Report| config.report.contains(&report);
    let pull_policies = reports(Report::PullPolicy);
    let read_only = config.read_only_root_filesystem.is_some();
    let token = config.automount_service_account_token.is_some();
    let groups = [
        (true, ALWAYS),
        (config.version.0 >= PROBE_HOSTS, HANDLERS),
        (
            read_only || pull_policies || reports(Report::LatestTag) || reports(Report::Digest),
            IMAGES,
        ),
        (pull_policies, PULL_POLICIES),
        (reports(Report::Resources), RESOURCES),
        (read_only || token, MOUNTS),
        (token || !config.exemptions.is_empty(), ACCOUNTS),
        (config.asks_for_labels(), LABELS),
        (token, TOKEN),
        (config.enable_service_links.is_some(), SERVICE_LINKS),
    ];
    let wanted = groups.into_iter().filter(|(wanted, _)| *wanted);
    wanted.flat_map(|(_, group)| group).copied().collect()
}
