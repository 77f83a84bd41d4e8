//! What is done to a pod, and where plugins may write then.

use std::sync::Arc;

/// What is done to a pod.
///
/// ```
/// use podloom_pod_path::Operation;
///
/// assert!(Operation::Create.places(&[]).is_none());
/// let debugger = ["/spec/ephemeralContainers/[name=debugger]".to_owned()];
/// assert_eq!(*Operation::EphemeralContainers.places(&debugger).unwrap(), debugger);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// It is created.
    #[default]
    Create,
    /// Its images change, or one of the few other fields that may.
    Update,
    /// Its resources change, by the subresource `resize`.
    Resize,
    /// It gets further containers, by the subresource `ephemeralcontainers`, as with `kubectl debug`.
    EphemeralContainers,
    /// It becomes the pod of a session. It may have run for a while.
    Claim,
}

/// Where plugins may write in an update. Not labels: nobody knows then which of them a controller needs.
const UPDATE: [&str; 5] = [
    "/metadata/annotations",
    "/spec/activeDeadlineSeconds",
    "/spec/containers/*/image",
    "/spec/initContainers/*/image",
    "/spec/tolerations",
];
/// In a claim also labels: no controller finds the pod of a session by them, but for those of the host, which no plugin may write.
const CLAIM: [&str; 2] = ["/metadata/annotations", "/metadata/labels"];
const RESIZE: [&str; 2] = [
    "/spec/containers/*/resources",
    "/spec/initContainers/*/resources",
];

impl Operation {
    /// Returns the paths at or below which plugins may write, given what the operation changes: where the API server lets it change
    /// something. A `*` stands for any segment. None if that is everywhere.
    #[must_use]
    pub fn places(self, changes: &[String]) -> Option<Arc<[String]>> {
        match self {
            Self::Create => None,
            Self::Update => Some(UPDATE.map(str::to_owned).into()),
            Self::Resize => Some(RESIZE.map(str::to_owned).into()),
            Self::EphemeralContainers => Some(changes.into()),
            Self::Claim => Some(CLAIM.map(str::to_owned).into()),
        }
    }
}
