//! Whether the order of two plugins matters.

use podloom_pod_path::{Disturbance, Grants, shown};

use super::Chain;
use crate::plugin::Plugin;

impl Chain {
    /// Why two plugins may come out differently in the other order, by their numbers from 0; none if they commute.
    ///
    /// Two plugins commute if on every pod of a cluster both orders give the same bytes but for the stamp, or both reject the pod;
    /// if both would, the first one's reason is given. This is found out from what they may do, not from what they did: neither may
    /// write what the other one may read or write, or what selects pods for it. A chain that exceeds a limit is an exception: its
    /// plugins share the limit on the size of a pod.
    pub fn order_dependence(&self, one: usize, other: usize) -> Option<String> {
        let (one, other) = (self.plugins.get(one)?, self.plugins.get(other)?);
        influence(one, other).or_else(|| influence(other, one))
    }
}

/// How the first of two plugins may make a difference to the other one.
fn influence(writer: &Plugin, other: &Plugin) -> Option<String> {
    let labels = other.matches.labels().map(|key| {
        let key = key.replace('~', "~0").replace('/', "~1");
        format!("/metadata/labels/{key}")
    });
    let labels = Grants::parse(&labels.collect::<Vec<_>>()).unwrap_or_default();
    let label = labels.overlapping(writer.access.writes());
    let disturbance = || writer.access.disturbs(&other.access);
    let (writer, other) = (&writer.name, &other.name);
    if let Some(label) = label {
        let label = shown(label);
        return Some(format!(
            "{writer} may write {label}, by which `match` selects pods for {other}"
        ));
    }
    Some(match disturbance()? {
        Disturbance::Writes(path) => {
            let path = shown(&path);
            format!("{writer} may write {path}, which {other} may read")
        }
        Disturbance::Adds(list) => format!("both may add to the list {}", shown(&list)),
        Disturbance::Creates(parent) => {
            let parent = shown(&parent);
            format!("{writer} may create {parent}, and {other} can see whether it is there")
        }
    })
}
