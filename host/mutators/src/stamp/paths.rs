//! Which paths a plugin wrote, as its entry of the stamp lists them.

use std::collections::BTreeSet;

use podloom_mutation::PluginRun;

use super::MutationEntry;

/// How many bytes of paths the stamp of one pod has at most: a pod has room for 256 KiB of annotations, which are for everybody.
const STAMP_BYTES: usize = 4096;
/// What a path takes beside its text: quotes and a comma.
const AROUND: usize = 3;

/// What is left for the paths of a pod's plugins, in the order of the chain.
pub(super) struct Room(usize);

/// The paths of one plugin.
pub(super) struct Written<'a> {
    pub(super) paths: Vec<&'a str>,
    /// Whether there was no room for all.
    pub(super) is_cut: bool,
}

impl Room {
    pub(super) fn of_a_pod() -> Self {
        Self(STAMP_BYTES)
    }

    /// The paths that a plugin wrote now and in earlier passes, sorted. What lies below another one of them is not listed.
    pub(super) fn take<'a>(
        &mut self,
        run: &'a PluginRun,
        earlier: Option<&'a MutationEntry>,
    ) -> Written<'a> {
        let before = earlier.into_iter().flat_map(|entry| &entry.paths);
        let now = run.writes.iter().map(|write| &write.path);
        let all: BTreeSet<&str> = before.chain(now).map(String::as_str).collect();
        let mut is_cut = earlier.is_some_and(|entry| entry.cut);
        let mut paths = Vec::new();
        for path in all.iter().filter(|path| !is_below_another(path, &all)) {
            let Some(left) = self.0.checked_sub(path.len() + AROUND) else {
                // No later plugin gets the rest: its list would say more than it can.
                (self.0, is_cut) = (0, true);
                break;
            };
            self.0 = left;
            paths.push(*path);
        }
        Written { paths, is_cut }
    }
}

/// Whether one of its ancestors is in the set. A slash in a key or a selector is written `~1`, so each slash ends an ancestor.
fn is_below_another(path: &str, all: &BTreeSet<&str>) -> bool {
    let mut slashes = path.match_indices('/');
    slashes.any(|(end, _)| end > 0 && path.get(..end).is_some_and(|above| all.contains(above)))
}
