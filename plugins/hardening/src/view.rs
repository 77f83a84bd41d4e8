//! What the plugin looks at in a pod; everything else is skipped as it is read, and stays as it is.
//!
//! A field that is `null` is absent, as it is for the API server.

mod fields;
mod read;
mod security_context;
mod volume;

use std::borrow::Cow;

use podloom_plugin_sdk::{Error, Pod, json, path};

pub(crate) use self::fields::fields;
use self::read::{Fields, List, Object, Target};
pub(crate) use self::security_context::{Options, SecurityContext};
pub(crate) use self::volume::Volume;
use crate::config::Config;

/// What follows a container's path in that of its security context.
const CONTEXT: &str = "/securityContext";

/// All that is looked at.
#[derive(Default)]
pub(crate) struct View<'p> {
    pub(crate) spec: Spec<'p>,
    /// The containers of all three lists, in the order in which they start.
    pub(crate) containers: Vec<Container<'p>>,
    pub(crate) metadata: Metadata<'p>,
}

impl<'p> Fields<'p> for View<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "metadata" => Target::Object(Object::Metadata(&mut self.metadata)),
            "spec" => Target::Object(Object::Spec(&mut self.spec)),
            _ => Target::Nothing,
        }
    }
}

#[derive(Default)]
pub(crate) struct Metadata<'p> {
    pub(crate) annotations: Keys<'p>,
}

impl<'p> Fields<'p> for Metadata<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "annotations" => Target::Object(Object::Keys(&mut self.annotations)),
            _ => Target::Nothing,
        }
    }
}

/// The keys of a map, whose values do not matter.
#[derive(Default)]
pub(crate) struct Keys<'p>(pub(crate) Vec<Cow<'p, str>>);

impl<'p> Fields<'p> for Keys<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        self.0.push(key);
        Target::Nothing
    }
}

/// The pod's specification.
#[derive(Default)]
pub(crate) struct Spec<'p> {
    pub(crate) host_network: Option<bool>,
    pub(crate) host_pid: Option<bool>,
    pub(crate) host_ipc: Option<bool>,
    pub(crate) host_users: Option<bool>,
    pub(crate) os: Named<'p>,
    pub(crate) node_selector: NodeSelector<'p>,
    pub(crate) service_account_name: Option<Cow<'p, str>>,
    pub(crate) service_account: Option<Cow<'p, str>>,
    pub(crate) automount_service_account_token: Option<bool>,
    pub(crate) enable_service_links: Option<bool>,
    pub(crate) resources: bool,
    pub(crate) security_context: SecurityContext<'p>,
    pub(crate) volumes: Vec<Volume<'p>>,
    containers: Containers<'p>,
}

impl<'p> Fields<'p> for Spec<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
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
pub(crate) struct Named<'p> {
    pub(crate) name: Option<Cow<'p, str>>,
}

impl<'p> Fields<'p> for Named<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "name" => Target::Text(&mut self.name),
            _ => Target::Nothing,
        }
    }
}

#[derive(Default)]
pub(crate) struct NodeSelector<'p> {
    pub(crate) os: Option<Cow<'p, str>>,
}

impl<'p> Fields<'p> for NodeSelector<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "kubernetes.io/os" => Target::Text(&mut self.os),
            _ => Target::Nothing,
        }
    }
}

/// A container of any of the three lists.
#[derive(Default)]
pub(crate) struct Container<'p> {
    pub(crate) name: Option<Cow<'p, str>>,
    pub(crate) image: Option<Cow<'p, str>>,
    pub(crate) image_pull_policy: Option<Cow<'p, str>>,
    pub(crate) resources: Resources,
    pub(crate) security_context: SecurityContext<'p>,
    pub(crate) ports: Vec<Port>,
    pub(crate) volume_mounts: Vec<Mount<'p>>,
    pub(crate) liveness_probe: Handler<'p>,
    pub(crate) readiness_probe: Handler<'p>,
    pub(crate) startup_probe: Handler<'p>,
    pub(crate) lifecycle: Lifecycle<'p>,
    /// The path of the list that it is in.
    list: &'static str,
    /// Whether it may be changed: ephemeral containers may not.
    pub(crate) writable: bool,
    /// Whether the configuration spares it.
    pub(crate) exempt: bool,
}

impl Container<'_> {
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

impl<'p> Fields<'p> for Container<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
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

impl<'p> Fields<'p> for Resources {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
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

impl<'p> Fields<'p> for Port {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "hostPort" => Target::Integer(&mut self.host_port),
            _ => Target::Nothing,
        }
    }
}

#[derive(Default)]
pub(crate) struct Mount<'p> {
    pub(crate) mount_path: Option<Cow<'p, str>>,
}

impl<'p> Fields<'p> for Mount<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "mountPath" => Target::Text(&mut self.mount_path),
            _ => Target::Nothing,
        }
    }
}

/// A probe or a hook.
#[derive(Default)]
pub(crate) struct Handler<'p> {
    pub(crate) http_get: Address<'p>,
    pub(crate) tcp_socket: Address<'p>,
}

impl<'p> Fields<'p> for Handler<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "httpGet" => Target::Object(Object::Address(&mut self.http_get)),
            "tcpSocket" => Target::Object(Object::Address(&mut self.tcp_socket)),
            _ => Target::Nothing,
        }
    }
}

#[derive(Default)]
pub(crate) struct Address<'p> {
    pub(crate) host: Option<Cow<'p, str>>,
}

impl<'p> Fields<'p> for Address<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "host" => Target::Text(&mut self.host),
            _ => Target::Nothing,
        }
    }
}

#[derive(Default)]
pub(crate) struct Lifecycle<'p> {
    pub(crate) post_start: Handler<'p>,
    pub(crate) pre_stop: Handler<'p>,
}

impl<'p> Fields<'p> for Lifecycle<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "postStart" => Target::Object(Object::Handler(&mut self.post_start)),
            "preStop" => Target::Object(Object::Handler(&mut self.pre_stop)),
            _ => Target::Nothing,
        }
    }
}

/// The containers of all three lists.
#[derive(Default)]
struct Containers<'p> {
    /// Where those that are being read are, and whether they may be changed.
    list: (&'static str, bool),
    all: Vec<Container<'p>>,
}

impl<'p> Containers<'p> {
    fn of(&mut self, list: &'static str, writable: bool) -> Target<'_, 'p> {
        self.list = (list, writable);
        Target::List(List::Containers(self))
    }

    fn add(&mut self) -> &mut Container<'p> {
        let (list, writable) = self.list;
        self.all.push_mut(Container {
            list,
            writable,
            ..Container::default()
        })
    }
}

/// Asks for what matters with this configuration, in one call.
pub(crate) fn text(pod: &Pod, config: &Config) -> Result<String, Error> {
    Ok(pod.view_json("", &config.fields)?.unwrap_or_default())
}

/// Reads that text, of which the view borrows what needs no unescaping.
pub(crate) fn read(text: &str) -> Result<View<'_>, Error> {
    let mut view = View::default();
    if !text.is_empty() {
        json::from_str_seed(text, Target::Object(Object::View(&mut view))).map_err(wrong)?;
    }
    let spec = &mut view.spec;
    spec.security_context.path.push_str("/spec/securityContext");
    view.containers = std::mem::take(&mut spec.containers.all);
    let mut list = "";
    let mut index = 0;
    for container in &mut view.containers {
        if container.list != list {
            list = container.list;
            index = 0;
        }
        container.security_context.path = container.context_path(index);
        index += 1;
    }
    Ok(view)
}

/// The reader names the place without its first slash.
fn wrong(error: json::Error) -> Error {
    let message = error.to_string();
    let (path, message) = match message.strip_prefix("spec/") {
        Some(message) => ("/spec", message),
        None => ("", message.as_str()),
    };
    Error::Decode {
        path: path.to_owned(),
        message: message.to_owned(),
    }
}
