//! The state of a container, in little memory.

use k8s_openapi::api::core::v1;
use serde::{Deserialize, Serialize};

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
