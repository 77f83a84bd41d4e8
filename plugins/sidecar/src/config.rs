//! What users configure.

use std::collections::BTreeSet;

use podloom_plugin_sdk::json::Object;
use podloom_plugin_sdk::prelude::*;
use podloom_plugin_sdk::schemars::{Schema, SchemaGenerator, json_schema};
use podloom_plugin_sdk::serde_json::{Map, json};
use podloom_plugin_sdk::{LabelSelector, path};

/// What to inject, and into which pods.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Containers to inject, in this order. Default none.
    pub(crate) containers: Vec<Sidecar>,
    /// Volumes to add, as in a pod. Default none.
    #[schemars(schema_with = "named")]
    pub(crate) volumes: Vec<Object>,
    /// Pull secrets to add, as in a pod, where the pod has a list of its own; elsewhere the service account's are used. Default none.
    #[schemars(schema_with = "named")]
    pub(crate) image_pull_secrets: Vec<Object>,
    /// What the pod's own containers get, so that they can talk to the injected ones. Default nothing.
    pub(crate) add_to_containers: Additions,
    /// Whether a pod that no other rule decides about is injected. Default true.
    pub(crate) inject_by_default: bool,
    /// Pods that are not injected unless they ask for it. Default none.
    pub(crate) never_inject: Vec<LabelSelector>,
    /// Pods that are injected unless they or `neverInject` refuse. Default none.
    pub(crate) always_inject: Vec<LabelSelector>,
    /// Namespaces whose pods are never injected. Default kube-system, kube-public and kube-node-lease.
    pub(crate) ignored_namespaces: Vec<String>,
    /// Operating system of the images: pods of another one are not injected. Default linux.
    pub(crate) os: Os,
    /// What to do when the pod has a volume of the same name with another source. Default rename.
    pub(crate) on_volume_conflict: OnVolumeConflict,
    /// What to do when a container of the pod has a port of the same number or name. Default deny. A host port that is taken is always denied.
    pub(crate) on_port_conflict: OnPortConflict,
    /// Whether the annotation `cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes` names the injected emptyDirs, so that they do not keep the cluster autoscaler from removing a node. Default true where the chain grants the annotation.
    pub(crate) safe_to_evict: Option<bool>,
    /// Paths that an earlier configuration injected and this one does not, as the annotation `sidecar.podloom.dev/injected` lists them, or with `*` for any element: they are removed where the annotation names them. Default none.
    pub(crate) retired: Vec<String>,
    /// What is read of a pod before anything is written.
    #[serde(skip)]
    pub(crate) fields: Vec<&'static str>,
    /// The fingerprint of what is injected.
    #[serde(skip)]
    pub(crate) hash: String,
    /// What volumes are called.
    #[serde(skip)]
    pub(crate) volume_names: VolumeNames,
}

/// The names of the volumes of a configuration.
#[derive(Debug, Default)]
pub(crate) struct VolumeNames {
    /// Of the volume that holds a container's token, with the container's name.
    pub(crate) tokens: Vec<(String, String)>,
    /// Of a volume whose own name is taken in a pod, with that name; none if such pods are denied.
    pub(crate) second: Vec<(String, String)>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            containers: Vec::new(),
            volumes: Vec::new(),
            image_pull_secrets: Vec::new(),
            add_to_containers: Additions::default(),
            inject_by_default: true,
            never_inject: Vec::new(),
            always_inject: Vec::new(),
            ignored_namespaces: ["kube-system", "kube-public", "kube-node-lease"]
                .map(str::to_owned)
                .into(),
            os: Os::Linux,
            on_volume_conflict: OnVolumeConflict::Rename,
            on_port_conflict: OnPortConflict::Deny,
            safe_to_evict: None,
            retired: Vec::new(),
            fields: Vec::new(),
            hash: String::new(),
            volume_names: VolumeNames::default(),
        }
    }
}

/// A container to inject.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Sidecar {
    /// The container, as in a pod. Every field of Kubernetes is taken as it is, newer ones too.
    #[schemars(schema_with = "container")]
    pub(crate) container: Object,
    /// How the container runs. Default native.
    #[serde(default)]
    pub(crate) placement: Placement,
    /// Where it stands in its list. Default first for native, last otherwise.
    pub(crate) position: Option<Position>,
    /// What to do when the pod has a container of this name of its own. Default skip.
    #[serde(default)]
    pub(crate) on_conflict: OnConflict,
    /// A service account token for this container alone. Default none.
    pub(crate) token: Option<Token>,
    /// Whether the security context is completed to what the restricted Pod Security Standard asks for. Default true; false leaves it as it is written.
    #[serde(default = "yes")]
    pub(crate) restricted: bool,
    /// The container with what placement and the standard add to it; its mounts still have the configured names of volumes.
    #[serde(skip)]
    pub(crate) completed: Object,
    /// The same as JSON, if it is for every pod: it has no mounts.
    #[serde(skip)]
    pub(crate) json: Option<String>,
}

const fn yes() -> bool {
    true
}

impl Sidecar {
    pub(crate) fn name(&self) -> &str {
        self.container.text("name")
    }

    /// The list that it is injected into.
    pub(crate) fn list(&self) -> List {
        match self.placement {
            Placement::Native | Placement::Init => List::InitContainers,
            Placement::Classic => List::Containers,
        }
    }

    /// Its path in a pod.
    pub(crate) fn path(&self) -> String {
        self.list().element(self.name())
    }

    /// Whether it matters where it stands: not for one beside the pod's own, unless that is configured.
    pub(crate) fn has_a_place(&self) -> bool {
        self.placement != Placement::Classic || self.position.is_some()
    }

    pub(crate) fn position(&self) -> &Position {
        self.position
            .as_ref()
            .unwrap_or(self.placement.default_position())
    }
}

/// How an injected container runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Placement {
    /// An init container that keeps running: started before the pod's containers, stopped after them, and no obstacle to a Job's end.
    #[default]
    Native,
    /// A container beside the pod's own, for nodes older than Kubernetes 1.29.
    Classic,
    /// An init container that ends.
    Init,
}

impl Placement {
    pub(crate) fn default_position(self) -> &'static Position {
        match self {
            Self::Native => &Position::First,
            Self::Init | Self::Classic => &Position::Last,
        }
    }
}

/// Where a container stands among those of its list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Position {
    /// Before all others.
    First,
    /// After all others.
    Last,
    /// Right before the container of this name.
    Before(String),
    /// Right after the container of this name.
    After(String),
}

/// What to do with a container of the pod's own that has the name of an injected one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OnConflict {
    /// Leave it, and inject nothing in its place.
    #[default]
    Skip,
    /// Give it the fields that it lacks.
    Merge,
    /// Put the injected container in its place.
    Replace,
    /// Refuse the pod.
    Deny,
}

/// What to do when a volume's name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OnVolumeConflict {
    /// Give the injected volume and its mounts the suffix `-podloom`.
    Rename,
    /// Refuse the pod.
    Deny,
}

/// What to do when a port is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OnPortConflict {
    /// Refuse the pod.
    Deny,
    /// Inject the container and note it.
    Note,
}

/// The operating system that images are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Os {
    /// Linux.
    Linux,
    /// Windows.
    Windows,
}

impl Os {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Windows => "windows",
        }
    }
}

/// A token of the pod's service account in a volume of its own, read-only, as the file `token`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Token {
    /// Directory of the file `token` in the container.
    pub(crate) mount_path: String,
    /// Whom the token is for. The kubelet asks for one that nobody else accepts.
    pub(crate) audience: String,
    /// Seconds until the token expires; the kubelet renews it. At least 600. Default 3600.
    #[serde(default = "hour")]
    pub(crate) expiration_seconds: u32,
}

const fn hour() -> u32 {
    3600
}

/// What containers of the pod get. What they have already always wins.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Additions {
    /// Names of the containers that get them. Default all of the pod's own `containers`.
    pub(crate) names: Vec<String>,
    /// Environment variables, as in a container. They come after those of the container, so that `$(VAR)` in its own keeps its meaning. Default none.
    #[schemars(schema_with = "named")]
    pub(crate) env: Vec<Object>,
    /// Mounts of the pod's or the configured volumes, as in a container. Default none.
    #[schemars(schema_with = "mounts")]
    pub(crate) volume_mounts: Vec<Object>,
}

/// The schema of an object of a pod with these texts: only what the plugin relies on.
fn with(texts: &[&str]) -> Schema {
    let text = json!({ "type": "string", "minLength": 1 });
    let properties = texts.iter().map(|name| ((*name).to_owned(), text.clone()));
    let properties: Map<String, _> = properties.collect();
    json_schema!({ "type": "object", "required": texts, "properties": properties })
}

fn container(_: &mut SchemaGenerator) -> Schema {
    with(&["name", "image"])
}

fn named(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": with(&["name"]) })
}

fn mounts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": with(&["name", "mountPath"]) })
}

/// One of the pod's lists of containers, which share one name space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Containers,
    InitContainers,
    EphemeralContainers,
}

impl List {
    pub(crate) const ALL: [Self; 3] = [
        Self::Containers,
        Self::InitContainers,
        Self::EphemeralContainers,
    ];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Containers => "/spec/containers",
            Self::InitContainers => "/spec/initContainers",
            Self::EphemeralContainers => "/spec/ephemeralContainers",
        }
    }

    /// The list's name in a pod's spec.
    pub(crate) fn name(self) -> &'static str {
        self.path().trim_start_matches("/spec/")
    }

    /// The path of the container of this name.
    pub(crate) fn element(self, name: &str) -> String {
        path::element(self.path(), "name", name)
    }

    /// The list in which the element of this path is a container.
    pub(crate) fn of(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|list| {
            path.strip_prefix(list.path())
                .and_then(|rest| rest.strip_prefix("/[name="))
                // Nothing follows the element, and no name has a slash.
                .is_some_and(|rest| !rest.contains('/'))
        })
    }
}

pub(crate) const PULL_SECRETS: &str = "/spec/imagePullSecrets";

/// The key of the annotation in which the plugin records what it injected, and its path.
pub(crate) const KEY: &str = "sidecar.podloom.dev/injected";
pub(crate) const INJECTED: &str = "/metadata/annotations/sidecar.podloom.dev~1injected";

/// Names the container that `kubectl exec` means.
pub(crate) const DEFAULT_CONTAINER: &str =
    "/metadata/annotations/kubectl.kubernetes.io~1default-container";

/// Names of volumes are DNS labels.
const NAME_LENGTH: usize = 63;

impl VolumeNames {
    pub(crate) fn of(config: &Config) -> Self {
        let configured = config.volumes.iter().map(|volume| volume.text("name"));
        let mut taken = BTreeSet::new();
        taken.extend(configured.map(str::to_owned));
        let with_token = config.containers.iter();
        let with_token = with_token.filter(|sidecar| sidecar.token.is_some());
        let mut names = Self::default();
        for sidecar in with_token {
            let name = free(sidecar.name(), "-token", &mut taken);
            names.tokens.push((sidecar.name().to_owned(), name));
        }
        if config.on_volume_conflict == OnVolumeConflict::Rename {
            let first: Vec<String> = names.all(config).map(str::to_owned).collect();
            for name in first {
                let second = free(&name, "-podloom", &mut taken);
                names.second.push((name, second));
            }
        }
        names
    }

    /// All names that volumes may get in a pod.
    pub(crate) fn all<'n>(&'n self, config: &'n Config) -> impl Iterator<Item = &'n str> {
        let configured = config.volumes.iter().map(|volume| volume.text("name"));
        let others = self.tokens.iter().chain(&self.second);
        configured.chain(others.map(|(_, name)| name.as_str()))
    }

    /// The name of the volume that holds a container's token.
    pub(crate) fn token(&self, container: &str) -> &str {
        of(&self.tokens, container)
    }

    /// The name of an injected volume whose own name is taken.
    pub(crate) fn second(&self, name: &str) -> &str {
        of(&self.second, name)
    }
}

fn of<'n>(names: &'n [(String, String)], key: &str) -> &'n str {
    let found = names.iter().find(|(known, _)| known == key);
    found.map_or("", |(_, name)| name)
}

/// The path of the volume of this name.
pub(crate) fn volume_path(name: &str) -> String {
    path::element("/spec/volumes", "name", name)
}

/// A name with a suffix, cut if it would be too long. If another one has that name already, it gets a fingerprint of the whole name.
fn free(name: &str, suffix: &str, taken: &mut BTreeSet<String>) -> String {
    let short = suffixed(name, suffix);
    let free = match taken.contains(&short) {
        false => short,
        true => suffixed(name, &format!("-{}{suffix}", fingerprint(name))),
    };
    taken.insert(free.clone());
    free
}

fn suffixed(name: &str, suffix: &str) -> String {
    let end = name.len().min(NAME_LENGTH - suffix.len());
    format!("{}{suffix}", name.get(..end).unwrap_or(name))
}

/// A short fingerprint of a text, for a name that is cut.
fn fingerprint(text: &str) -> String {
    let hash = fold(START, text);
    format!("{:08x}", (hash ^ (hash >> 32)) & 0xffff_ffff)
}

pub(crate) const START: u64 = 0xcbf2_9ce4_8422_2325;

/// Adds a text to a hash, in the manner of FNV-1a: not against forgery, only to see a change.
// Called at many places, and to be there once.
#[inline(never)]
pub(crate) fn fold(hash: u64, text: &str) -> u64 {
    // Eight bytes at once: what falls out at the upper end of the product is turned in again.
    let turn = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    let (words, rest) = text.as_bytes().as_chunks();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    // An end that no text contains keeps neighbours apart.
    let bytes = rest.iter().chain(&[0xff]).map(|byte| u64::from(*byte));
    words.chain(bytes).fold(hash, turn)
}
