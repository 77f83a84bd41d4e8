//! Which unreadable objects were reported: each list request shows them all again.

use std::collections::HashMap;
use std::sync::Mutex;

use kube::core::ObjectMeta;
use podloom_turns::lock;

/// How many objects are remembered. With more, some are reported again.
const MOST: usize = 1000;

/// The resourceVersion of each object when it was reported, by UID.
#[derive(Default)]
pub(super) struct Reported(Mutex<HashMap<String, String>>);

impl Reported {
    /// Whether an object was not reported as it is now; from now on it was.
    pub(super) fn is_new(&self, object: &ObjectMeta) -> bool {
        let uid = object.uid.clone().unwrap_or_default();
        let version = object.resource_version.clone().unwrap_or_default();
        let mut versions = lock(&self.0);
        if versions.len() >= MOST && !versions.contains_key(&uid) {
            versions.clear();
        }
        versions.insert(uid, version.clone()) != Some(version)
    }
}
