//! Finds which plugins made a change.

use podloom_mutation::PluginRun;
use podloom_pod_path::{ChangeKind, PodChange};

/// Which plugins made a change.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Writers {
    /// Whose plugins they are.
    pub(crate) chain: Whose,
    /// In the order of the chain; usually one.
    pub(crate) plugins: Vec<String>,
}

/// One of the two chains.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Whose {
    /// The old one: its plugins do not write this any more.
    Old,
    /// The new one: its plugins write this.
    New,
}

/// How the path of a write lies to the path of a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Lies {
    /// The write is there, or above: it decides about all of it.
    Over,
    /// The write is this many segments below.
    Below(usize),
}

impl Writers {
    /// The plugins of the new chain that wrote there last; if none did, those of the old chain.
    pub(crate) fn of(change: &PodChange<'_>, old: &[PluginRun], new: &[PluginRun]) -> Self {
        let plugins = writers(change, new, Whose::New);
        if !plugins.is_empty() {
            return Self {
                chain: Whose::New,
                plugins,
            };
        }
        Self {
            chain: Whose::Old,
            plugins: writers(change, old, Whose::Old),
        }
    }
}

fn writers(change: &PodChange<'_>, runs: &[PluginRun], whose: Whose) -> Vec<String> {
    let mut plugins: Vec<String> = Vec::new();
    for run in runs {
        for write in &run.writes {
            match lies(&write.path, &change.path) {
                // Whatever was written before is gone.
                Some(Lies::Over) => plugins = vec![run.plugin.clone()],
                Some(Lies::Below(depth))
                    if counts(change.kind, depth, whose) && !plugins.contains(&run.plugin) =>
                {
                    plugins.push(run.plugin.clone());
                }
                _ => {}
            }
        }
    }
    plugins
}

/// Whether a write below the path of a change can have made it.
fn counts(kind: ChangeKind, depth: usize, whose: Whose) -> bool {
    match kind {
        ChangeKind::Added | ChangeKind::Changed => true,
        // A new value in it does not take it away.
        ChangeKind::Removed => whose == Whose::Old,
        // Only elements that come and go change the order.
        ChangeKind::Reordered => depth == 1,
    }
}

/// How a write lies to a change; none if they have nothing to do with each other.
fn lies(write: &str, change: &str) -> Option<Lies> {
    let (mut writes, mut changes) = (segments(write), segments(change));
    loop {
        match (writes.next(), changes.next()) {
            (None, _) => return Some(Lies::Over),
            (Some(_), None) => return Some(Lies::Below(1 + writes.count())),
            (Some(left), Some(right)) if is_alike(left, right) => {}
            _ => return None,
        }
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').skip(1)
}

/// Whether two segments can mean the same. An element may have got its name after it was written by its index, and an index
/// stands for the element that was appended.
fn is_alike(write: &str, change: &str) -> bool {
    let is_index = |segment: &str| segment.bytes().all(|byte| byte.is_ascii_digit());
    let is_place = |segment: &str| segment == "-" || segment.starts_with('[');
    write == change || is_index(write) && is_place(change) || is_place(write) && is_index(change)
}
