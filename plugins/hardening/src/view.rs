//! What the plugin looks at in a pod; everything else is skipped as it is read, and stays as it is.
//!
//! A field that is `null` is absent, as it is for the API server.

mod fields;
mod read;
mod security_context;

use podloom_plugin_sdk::{Error, Pod, json, path};

use self::fields::fields;
use self::read::{Fields, List, Object, Target};
pub(crate) use self::security_context::{Options, SecurityContext};
use crate::config::Config;

const SPEC: &str = "/spec";
/// What follows a container's path in that of its security context.
const CONTEXT: &str = "/securityContext";

/// The pod's specification.
#[derive(Default)]
pub(crate) struct Spec {
    pub(crate) host_network: Option<bool>,
    pub(crate) host_pid: Option<bool>,
    pub(crate) host_ipc: Option<bool>,
    pub(crate) host_users: Option<bool>,
    pub(crate) os: Named,
    pub(crate) node_selector: NodeSelector,
    pub(crate) service_account_name: Option<String>,
    pub(crate) service_account: Option<String>,
    pub(crate) automount_service_account_token: Option<bool>,
    pub(crate) enable_service_links: Option<bool>,
    pub(crate) resources: bool,
    pub(crate) security_context: SecurityContext,
    pub(crate) volumes: Vec<Volume>,
    containers: Containers,
}

impl Fields for Spec {
    fn field(&mut self, key: &str) -> Target<'_> {
        match key {
            "hostNetwork" => Target::Flag(&mut self.host_network),
            "hostPID" => Target::Flag(&mut self.host_pid),
            "hostIPC" => Target::Flag(&mut self.host_ipc),
            "hostUsers" => Target::Flag(&mut self.host_users),
            "os" => Target::Object(Object::Named(&mut self.os)),
            "nodeSelector" => Target::Object(Object::NodeSelector(&mut self.node_selector)),
            "serviceAccountName" => Target::Text(&mut self.service_account_name),
            "serviceAccount" => Target::Text(&mut self.service_account),
            "automountServiceAccountToken" => {
                Target::Flag(&mut self.automount_service_account_token)
            }
            "enableServiceLinks" => Target::Flag(&mut self.enable_service_links),
            "resources" => Target::Presence(&mut self.resources),
            "securityContext" => {
                Target::Object(Object::SecurityContext(&mut self.security_context))
            }
            "volumes" => Target::List(List::Volumes(&mut self.volumes)),
            "initContainers" => self.containers.of("/spec/initContainers", true),
            "containers" => self.containers.of("/spec/containers", true),
            "ephemeralContainers" => self.containers.of("/spec/ephemeralContainers", false),
            _ => Target::Nothing,
        }
    }
}

/// Something that has a name: an operating system, a sysctl.
#[derive(Default)]
pub(crate) struct Named {
    pub(crate) name: Option<String>,
}

impl Fields for Named {
    fn field(&mut self, key: &str) -> Target<'_> {
        match key {
            "name" => Target::Text(&mut self.name),
            _ => Target::Nothing,
        }
    }
}

#[derive(Default)]
pub(crate) struct NodeSelector {
    pub(crate) os: Option<String>,
}

impl Fields for NodeSelector {
    fn field(&mut self, key: &str) -> Target<'_> {
        match key {
            "kubernetes.io/os" => Target::Text(&mut self.os),
            _ => Target::Nothing,
        }
    }
}

/// A container of any of the three lists.
#[derive(Default)]
pub(crate) struct Container {
    pub(crate) name: Option<String>,
    pub(crate) image: Option<String>,
    pub(crate) image_pull_policy: Option<String>,
    pub(crate) resources: Resources,
    pub(crate) security_context: SecurityContext,
    pub(crate) ports: Vec<Port>,
    pub(crate) volume_mounts: Vec<Mount>,
    pub(crate) liveness_probe: Handler,
    pub(crate) readiness_probe: Handler,
    pub(crate) startup_probe: Handler,
    pub(crate) lifecycle: Lifecycle,
    /// The path of the list that it is in.
    list: &'static str,
    /// Whether it may be changed: ephemeral containers may not.
    pub(crate) writable: bool,
    /// Whether the configuration spares it.
    pub(crate) exempt: bool,
}

impl Container {
    /// Its path in the pod.
    pub(crate) fn path(&self) -> &str {
        let path = &self.security_context.path;
        path.strip_suffix(CONTEXT).unwrap_or(path)
    }

    /// The path of its security context.
    fn context_path(&self, index: usize) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        let mut path = String::with_capacity(self.list.len() + name.len() + 32);
        path.push_str(self.list);
        if name.is_empty() {
            path::push(&mut path, &index.to_string());
        } else {
            path::push_element(&mut path, "name", name);
        }
        path.push_str(CONTEXT);
        path
    }
}

impl Fields for Container {
    fn field(&mut self, key: &str) -> Target<'_> {
        match key {
            "name" => Target::Text(&mut self.name),
            "image" => Target::Text(&mut self.image),
            "imagePullPolicy" => Target::Text(&mut self.image_pull_policy),
            "resources" => Target::Object(Object::Resources(&mut self.resources)),
            "securityContext" => {
                Target::Object(Object::SecurityContext(&mut self.security_context))
            }
            "ports" => Target::List(List::Ports(&mut self.ports)),
            "volumeMounts" => Target::List(List::Mounts(&mut self.volume_mounts)),
            "livenessProbe" => Target::Object(Object::Handler(&mut self.liveness_probe)),
            "readinessProbe" => Target::Object(Object::Handler(&mut self.readiness_probe)),
            "startupProbe" => Target::Object(Object::Handler(&mut self.startup_probe)),
            "lifecycle" => Target::Object(Object::Lifecycle(&mut self.lifecycle)),
            _ => Target::Nothing,
        }
    }
}

#[derive(Default)]
pub(crate) struct Resources {
    pub(crate) limits: bool,
    pub(crate) requests: bool,
}

impl Fields for Resources {
    fn field(&mut self, key: &str) -> Target<'_> {
        match key {
            "limits" => Target::Presence(&mut self.limits),
            "requests" => Target::Presence(&mut self.requests),
            _ => Target::Nothing,
        }
    }
}

#[derive(Default)]
pub(crate) struct Port {
    pub(crate) host_port: Option<i64>,
}

impl Fields for Port {
    fn field(&mut self, key: &str) -> Target<'_> {
        match key {
            "hostPort" => Target::Integer(&mut self.host_port),
            _ => Target::Nothing,
        }
    }
}

#[derive(Default)]
pub(crate) struct Mount {
    pub(crate) mount_path: Option<String>,
}

impl Fields for Mount {
    fn field(&mut self, key: &str) -> Target<'_> {
        match key {
            "mountPath" => Target::Text(&mut self.mount_path),
            _ => Target::Nothing,
        }
    }
}

/// A probe or a hook.
#[derive(Default)]
pub(crate) struct Handler {
    pub(crate) http_get: Address,
    pub(crate) tcp_socket: Address,
}

impl Fields for Handler {
    fn field(&mut self, key: &str) -> Target<'_> {
        match key {
            "httpGet" => Target::Object(Object::Address(&mut self.http_get)),
            "tcpSocket" => Target::Object(Object::Address(&mut self.tcp_socket)),
            _ => Target::Nothing,
        }
    }
}

#[derive(Default)]
pub(crate) struct Address {
    pub(crate) host: Option<String>,
}

impl Fields for Address {
    fn field(&mut self, key: &str) -> Target<'_> {
        match key {
            "host" => Target::Text(&mut self.host),
            _ => Target::Nothing,
        }
    }
}

#[derive(Default)]
pub(crate) struct Lifecycle {
    pub(crate) post_start: Handler,
    pub(crate) pre_stop: Handler,
}

impl Fields for Lifecycle {
    fn field(&mut self, key: &str) -> Target<'_> {
        match key {
            "postStart" => Target::Object(Object::Handler(&mut self.post_start)),
            "preStop" => Target::Object(Object::Handler(&mut self.pre_stop)),
            _ => Target::Nothing,
        }
    }
}

/// A volume.
#[derive(Default)]
pub(crate) struct Volume {
    pub(crate) name: Option<String>,
    pub(crate) projected: Projected,
    /// Its other sources; one alone in a valid pod. A volume without any becomes an emptyDir.
    pub(crate) sources: Vec<Source>,
}

/// A kind of volume, named by its field.
pub(crate) struct Source {
    pub(crate) field: String,
    pub(crate) present: bool,
}

impl Fields for Volume {
    fn field(&mut self, key: &str) -> Target<'_> {
        match key {
            "name" => Target::Text(&mut self.name),
            "projected" => Target::Object(Object::Projected(&mut self.projected)),
            _ => {
                let source = Source {
                    field: key.to_owned(),
                    present: false,
                };
                self.sources.push(source);
                match self.sources.last_mut() {
                    Some(source) => Target::Presence(&mut source.present),
                    None => Target::Nothing,
                }
            }
        }
    }
}

#[derive(Default)]
pub(crate) struct Projected {
    pub(crate) present: bool,
    pub(crate) sources: Vec<Projection>,
}

impl Fields for Projected {
    fn field(&mut self, key: &str) -> Target<'_> {
        match key {
            "sources" => Target::List(List::Projections(&mut self.sources)),
            _ => Target::Nothing,
        }
    }
}

#[derive(Default)]
pub(crate) struct Projection {
    pub(crate) service_account_token: bool,
}

impl Fields for Projection {
    fn field(&mut self, key: &str) -> Target<'_> {
        match key {
            "serviceAccountToken" => Target::Presence(&mut self.service_account_token),
            _ => Target::Nothing,
        }
    }
}

/// The containers of all three lists.
#[derive(Default)]
struct Containers {
    /// Where those that are being read are, and whether they may be changed.
    list: (&'static str, bool),
    all: Vec<Container>,
}

impl Containers {
    fn of(&mut self, list: &'static str, writable: bool) -> Target<'_> {
        self.list = (list, writable);
        Target::List(List::Containers(self))
    }

    fn add(&mut self) -> &mut Container {
        let (list, writable) = self.list;
        self.all.push_mut(Container {
            list,
            writable,
            ..Container::default()
        })
    }
}

/// Reads the specification, and its containers: those of all three lists, in the order in which they start.
pub(crate) fn read(pod: &Pod, config: &Config) -> Result<(Spec, Vec<Container>), Error> {
    let mut spec = Spec::default();
    if let Some(text) = pod.view_json(SPEC, &fields(config))? {
        json::from_str_seed(&text, Target::Object(Object::Spec(&mut spec))).map_err(|error| {
            Error::Decode {
                path: SPEC.to_owned(),
                message: error.to_string(),
            }
        })?;
    }
    spec.security_context.path.push_str("/spec/securityContext");
    let mut containers = std::mem::take(&mut spec.containers.all);
    let mut list = "";
    let mut index = 0;
    for container in &mut containers {
        if container.list != list {
            list = container.list;
            index = 0;
        }
        container.security_context.path = container.context_path(index);
        index += 1;
    }
    Ok((spec, containers))
}
