//! Volumes that may be lost, for the cluster autoscaler.
//!
//! It removes no node with a pod that has an emptyDir, since the data would be lost, unless this annotation of the pod names the volume.

use std::collections::BTreeSet;

use crate::{Error, Pod};

const KEY: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";

/// The path of the annotation, to be granted.
pub const PATH: &str =
    "/metadata/annotations/cluster-autoscaler.kubernetes.io~1safe-to-evict-local-volumes";

/// Names volumes in the annotation, after those that it names already, and takes others out.
///
/// ```
/// use podloom_plugin_sdk::prelude::*;
/// use podloom_plugin_sdk::evictable;
///
/// # fn inject(pod: &Pod) -> Result<(), Rejection> {
/// pod.volume("scratch").set(&podloom_plugin_sdk::serde_json::json!({"emptyDir": {}}))?;
/// evictable::mark(pod, &["scratch".to_owned()], &[])?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Error::Forbidden`] if [`PATH`] is not granted.
pub fn mark(pod: &Pod, added: &[String], removed: &[String]) -> Result<(), Error> {
    let annotation = pod.annotations().get(KEY)?.unwrap_or_default();
    let named = annotation.split(',').map(|name| name.trim_matches(' '));
    // Looked up, not searched for: a pod may have thousands of them. Extended, not collected: that would sort, which is much code.
    let (mut gone, mut known) = (BTreeSet::new(), BTreeSet::new());
    gone.extend(removed.iter().cloned());
    let is_kept = |name: &&str| !name.is_empty() && !gone.contains(*name);
    let mut names: Vec<&str> = named.filter(is_kept).collect();
    known.extend(names.iter().map(|&name| name.to_owned()));
    for name in added {
        if known.insert(name.clone()) {
            names.push(name);
        }
    }
    match names.join(",") {
        names if names.is_empty() && annotation.is_empty() => Ok(()),
        names if names.is_empty() => pod.annotations().remove(KEY).map(drop),
        names if names == annotation => Ok(()),
        names => pod.annotations().set(KEY, &names),
    }
}
