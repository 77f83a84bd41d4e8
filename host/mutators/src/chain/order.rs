//! Whether the order of two plugins matters.

use std::fmt;

use podloom_pod_path::{Disturbance, Grants, shown};

use super::Chain;
use crate::plugin::Plugin;

/// Why two plugins may come out differently in the other order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderDependence {
    /// The plugin that makes a difference.
    pub writer: String,
    /// The plugin to which it makes one.
    pub other: String,
    /// How.
    pub by: Influence,
}

/// How a plugin may make a difference to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Influence {
    /// By what both are granted.
    Grants(Disturbance),
    /// It may write this label, by which the `match` of the other one selects pods.
    Match(String),
}

impl fmt::Display for OrderDependence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writer, other, by } = self;
        match by {
            Influence::Grants(Disturbance::Writes(path)) => {
                let path = shown(path);
                write!(f, "{writer} may write {path}, which {other} may read")
            }
            Influence::Grants(Disturbance::Adds(list)) => {
                write!(f, "both may add to the list {}", shown(list))
            }
            Influence::Grants(Disturbance::Creates(parent)) => write!(
                f,
                "{writer} may create {}, and {other} can see whether it is there",
                shown(parent)
            ),
            Influence::Match(label) => write!(
                f,
                "{writer} may write {}, by which `match` selects pods for {other}",
                shown(label)
            ),
        }
    }
}

impl Chain {
    /// Why two plugins may come out differently in the other order, by their numbers from 0; none if they commute.
    ///
    /// Two plugins commute if on every pod of a cluster both orders give the same bytes but for the stamp, or both reject the pod;
    /// if both would, the first one's reason is given. This is found out from what they may do, not from what they did: neither may
    /// write what the other one may read or write, or what selects pods for it. A chain that exceeds a limit is an exception: its
    /// plugins share the limit on the size of a pod.
    pub fn order_dependence(&self, one: usize, other: usize) -> Option<OrderDependence> {
        let (one, other) = (self.plugins.get(one)?, self.plugins.get(other)?);
        let of = |writer: &Plugin, other: &Plugin| {
            let by = influence(writer, other)?;
            Some(OrderDependence {
                writer: writer.name.clone(),
                other: other.name.clone(),
                by,
            })
        };
        of(one, other).or_else(|| of(other, one))
    }
}

fn influence(writer: &Plugin, other: &Plugin) -> Option<Influence> {
    let labels = other.matches.labels().map(|key| {
        let key = key.replace('~', "~0").replace('/', "~1");
        format!("/metadata/labels/{key}")
    });
    let labels = Grants::parse(&labels.collect::<Vec<_>>()).unwrap_or_default();
    if let Some(label) = labels.overlapping(writer.access.writes()) {
        return Some(Influence::Match(label.to_owned()));
    }
    writer.access.disturbs(&other.access).map(Influence::Grants)
}
