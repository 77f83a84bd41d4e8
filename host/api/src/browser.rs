//! Browser: one browser session, run by one pod.
#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats the struct inside a function"
)]
#![expect(clippy::duplicated_attributes, reason = "columns are of equal types")]

mod mutations;

use std::sync::Arc;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::mutations::{Mutations, PluginMutation};
use crate::schema;

/// A Browser whose API group is known at run time.
pub type BrowserObject = kube::core::Object<BrowserSpec, BrowserStatus>;

/// Which browser a session needs.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "selenosis.io",
    version = "v1",
    kind = "Browser",
    plural = "browsers",
    shortname = "brw",
    category = "selenosis",
    namespaced,
    status = "BrowserStatus",
    derive = "PartialEq",
    doc = "One browser session, run by one pod.",
    printcolumn(name = "Browser", type_ = "string", json_path = ".spec.browserName"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.browserVersion"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "PodIP", type_ = "string", json_path = ".status.podIP"),
    printcolumn(name = "StartTime", type_ = "date", json_path = ".status.startTime"),
    printcolumn(
        name = "Pod",
        type_ = "string",
        json_path = ".status.podName",
        priority = 1
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.reason",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct BrowserSpec {
    /// Name the browser to run, such as `chrome`, as a BrowserConfig of this namespace defines it.
    /// Cannot be changed: a session's pod is created only once.
    #[schemars(length(min = 1, max = schema::NAME_MAX))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("browserName cannot be changed: create another Browser"))]
    pub browser_name: String,

    /// Name the version to run, such as `139.0`, as a BrowserConfig of this namespace defines it for the browser.
    /// Cannot be changed: a session's pod is created only once.
    #[schemars(length(min = 1, max = schema::NAME_MAX))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("browserVersion cannot be changed: create another Browser"))]
    pub browser_version: String,
}

/// The state of the session, published by the operator.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BrowserStatus {
    /// The pod's IP address, once it has one.
    #[serde(rename = "podIP", default, skip_serializing_if = "Option::is_none")]
    pub pod_ip: Option<String>,

    /// The UID of the session's pod. A session never gets a second pod.
    #[serde(rename = "podUID", default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,

    /// The name of the session's pod, if it is not the Browser's own: that of a warm pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,

    /// The phase of the session: Pending, Running, Succeeded, Failed or Unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,

    /// Why the session is over, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Why the session is over, as one word such as `Evicted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// When the node's kubelet accepted the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub start_time: Option<Time>,

    /// The state of the pod's containers, init containers excepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::atomic_list)]
    pub container_statuses: Option<Vec<ContainerStatus>>,

    /// Conditions of the session: ConfigResolved, PodCreated, Ready and, if the pod is evicted or preempted or its node is lost,
    /// DisruptionTarget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::conditions)]
    pub conditions: Option<Vec<Condition>>,

    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// What the plugin chain did to the pod.
    #[serde(
        default,
        with = "mutations::interned",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<Mutations>")]
    pub mutations: Option<Arc<Mutations>>,
}

/// The phase of the session: Pending, Running, Succeeded, Failed or Unknown.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The pod does not exist yet, or is not running yet.
    Pending,
    /// The pod is running.
    Running,
    /// The session succeeded.
    Succeeded,
    /// The session failed; the message says why.
    Failed,
    /// The pod's node does not answer.
    Unknown,
}

written!(Phase: Pending, Running, Succeeded, Failed, Unknown);

/// The state of one container of the pod.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatus {
    /// The container's name.
    pub name: String,

    /// Whether the container is waiting, running or terminated, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<v1::ContainerState>", transform = schema::core)]
    pub state: Option<ContainerState>,

    /// The container's image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,

    /// How many times the container was restarted.
    #[serde(default)]
    pub restart_count: i32,

    /// The ports that the container exposes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::atomic_list)]
    pub ports: Option<Vec<ExposedPort>>,
}

/// A port that a container exposes.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct ExposedPort {
    /// The port's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// The port on the pod's address.
    #[schemars(transform = schema::port)]
    pub container_port: i32,

    /// TCP, UDP or SCTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,

    /// The port on the node's address, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_port: Option<i32>,
}

// The state of a container, in little memory.

/// Whether a container waits, runs or has terminated, and why. It is read and written as Kubernetes' own type, which has room for
/// all three at once: ten times as much, in each of thousands of cached objects.
///
/// ```
/// use podloom_api::ContainerState;
///
/// let state: ContainerState = serde_json::from_str(r#"{"waiting": {"reason": "ErrImagePull"}}"#)?;
/// let ContainerState::Waiting(waiting) = &state else {
///     panic!("it waits");
/// };
/// assert_eq!(waiting.reason.as_deref(), Some("ErrImagePull"));
/// assert_eq!(serde_json::to_string(&state)?, r#"{"waiting":{"reason":"ErrImagePull"}}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "v1::ContainerState", into = "v1::ContainerState")]
pub enum ContainerState {
    /// It is running.
    Running(v1::ContainerStateRunning),
    /// It has not started yet.
    Waiting(Box<v1::ContainerStateWaiting>),
    /// It has terminated.
    Terminated(Box<v1::ContainerStateTerminated>),
    /// The kubelet has not reported a state.
    Unsaid,
}

impl From<v1::ContainerState> for ContainerState {
    fn from(state: v1::ContainerState) -> Self {
        match state {
            v1::ContainerState {
                terminated: Some(terminated),
                ..
            } => Self::Terminated(Box::new(terminated)),
            v1::ContainerState {
                running: Some(running),
                ..
            } => Self::Running(running),
            v1::ContainerState {
                waiting: Some(waiting),
                ..
            } => Self::Waiting(Box::new(waiting)),
            v1::ContainerState { .. } => Self::Unsaid,
        }
    }
}

impl From<ContainerState> for v1::ContainerState {
    fn from(state: ContainerState) -> Self {
        let mut whole = Self::default();
        match state {
            ContainerState::Running(running) => whole.running = Some(running),
            ContainerState::Waiting(waiting) => whole.waiting = Some(*waiting),
            ContainerState::Terminated(terminated) => whole.terminated = Some(*terminated),
            ContainerState::Unsaid => {}
        }
        whole
    }
}

#[cfg(test)]
mod tests;
