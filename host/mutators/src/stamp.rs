//! The two annotations that record which chain a pod passed, and what each plugin wrote: paths, and never values.
//!
//! Each pod that passes a chain is stamped, even if the chain is empty or no plugin matched: a pod without a stamp has not passed a
//! chain. If a pod passes the same chain again (a reinvoked webhook, a template that was rendered before), its stamp covers all
//! passes, and the counts of writes add up. A stamp is a record, not a proof, since everyone who can write pods can write it. So a
//! plugin that is skipped now is not listed, whatever an earlier stamp says, and the stamp of another chain is replaced.

use std::collections::BTreeSet;

use podloom_mutation::{PluginOutcome, PluginRun};
use podloom_pod_path::Patch;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The annotation that lists the plugins that ran, as JSON.
pub const MUTATIONS: &str = "podloom.dev/mutations";
/// The annotation with the chain's digest.
pub const CHAIN: &str = "podloom.dev/chain";

/// How many bytes of paths the stamp of one pod has at most: a pod has room for 256 KiB of annotations, which are for everybody.
const STAMP_BYTES: usize = 4096;
/// What a path takes beside its text: quotes and a comma.
const AROUND: usize = 3;

/// One plugin in the annotation [`MUTATIONS`].
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct MutationEntry {
    /// The plugin's name in the chain.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The digest of its file.
    pub sha256: String,
    /// How many writes it made in all passes through this chain.
    pub writes: usize,
    /// The paths that it wrote, sorted, without those below another one of them. Elements of lists are named by their merge keys, as
    /// in [`Write::path`](podloom_pod_path::Write::path).
    #[serde(default)]
    pub paths: Vec<String>,
    /// Whether paths are missing: those of a pod may take 4 KiB.
    #[serde(default)]
    pub cut: bool,
    /// The ChainException under which the plugin let the pod pass.
    #[serde(default)]
    pub exception: Option<String>,
}

/// A [`MutationEntry`] to be written.
#[derive(Serialize)]
struct StampEntry<'a> {
    name: &'a str,
    version: &'a str,
    sha256: &'a str,
    writes: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paths: Vec<&'a str>,
    #[serde(skip_serializing_if = "is_false")]
    cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception: Option<&'a str>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Drops managedFields, and reads the stamp of an earlier pass through the same chain.
pub(crate) fn open(pod: &mut Value, digest: &str) -> Result<Vec<MutationEntry>, &'static str> {
    let pod = pod.as_object_mut().ok_or("it is not an object")?;
    let metadata = pod.get_mut("metadata");
    let Some(metadata) = metadata.filter(|metadata| !metadata.is_null()) else {
        return Ok(Vec::new());
    };
    let metadata = metadata.as_object_mut();
    let metadata = metadata.ok_or("its metadata is not an object")?;
    metadata.remove("managedFields");
    let annotations = metadata.get("annotations");
    let Some(annotations) = annotations.filter(|annotations| !annotations.is_null()) else {
        return Ok(Vec::new());
    };
    let annotations = annotations.as_object();
    let annotations = annotations.ok_or("its annotations are not an object")?;
    let same_chain = annotations.get(CHAIN).and_then(Value::as_str) == Some(digest);
    let entries = annotations
        .get(MUTATIONS)
        .and_then(Value::as_str)
        .filter(|_| same_chain);
    // Anyone may have written this, so what does not parse counts as absent.
    Ok(entries
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default())
}

/// Stamps the pod, and adds to the patch what that changed.
pub(crate) fn close(
    pod: &mut Value,
    digest: &str,
    before: &[MutationEntry],
    runs: &[PluginRun],
    mut patch: Option<&mut Patch>,
) -> Result<(), &'static str> {
    let mut room = STAMP_BYTES;
    let entries = runs.iter().filter_map(|run| entry(run, before, &mut room));
    let entries: Vec<StampEntry<'_>> = entries.collect();
    let text = serde_json::to_string(&entries).map_err(|_| "its stamp cannot be written")?;
    let pod = pod.as_object_mut().ok_or("it is not an object")?;
    let metadata = object((pod, "metadata"), "/metadata", &mut patch);
    let metadata = metadata.ok_or("its metadata is not an object")?;
    let annotations = (metadata, "annotations");
    let annotations = object(annotations, "/metadata/annotations", &mut patch);
    let annotations = annotations.ok_or("its annotations are not an object")?;
    for (key, text) in [(MUTATIONS, text), (CHAIN, digest.to_owned())] {
        let value = Value::String(text);
        if annotations.get(key) == Some(&value) {
            continue;
        }
        if let Some(patch) = &mut patch {
            let path = format!("/metadata/annotations/{}", key.replace('/', "~1"));
            patch.add(&path, &value);
        }
        annotations.insert(key.to_owned(), value);
    }
    Ok(())
}

/// The object in a field of a parent, which is created if it is not there.
fn object<'a>(
    (parent, key): (&'a mut Map<String, Value>, &str),
    path: &str,
    patch: &mut Option<&mut Patch>,
) -> Option<&'a mut Map<String, Value>> {
    let child = parent.entry(key).or_insert(Value::Null);
    if child.is_null() {
        *child = Value::Object(Map::new());
        if let Some(patch) = patch {
            patch.add(path, child);
        }
    }
    child.as_object_mut()
}

/// The stamp's entry for a run. A plugin whose failure was ignored is listed only if the earlier stamp lists it. Whoever creates
/// pods can write that stamp, so the counts are for people only, and nothing depends on them.
fn entry<'a>(
    run: &'a PluginRun,
    before: &'a [MutationEntry],
    room: &mut usize,
) -> Option<StampEntry<'a>> {
    let is_it = |entry: &&MutationEntry| {
        entry.name == run.plugin && entry.version == run.version && entry.sha256 == run.sha256
    };
    let earlier = before.iter().find(is_it);
    let earlier_writes = earlier.map(|entry| entry.writes);
    let writes = match run.outcome {
        PluginOutcome::Mutated | PluginOutcome::Unchanged => {
            let earlier = earlier_writes.unwrap_or_default();
            run.writes.len().saturating_add(earlier)
        }
        PluginOutcome::Ignored(_) => earlier_writes?,
        PluginOutcome::Excepted { .. } => earlier_writes.unwrap_or_default(),
        // A pod that was rejected is not stamped.
        PluginOutcome::Skipped(_) | PluginOutcome::Denied(_) | PluginOutcome::Failed(_) => {
            return None;
        }
    };
    let (paths, cut) = paths(run, earlier, room);
    Some(StampEntry {
        name: &run.plugin,
        version: &run.version,
        sha256: &run.sha256,
        writes,
        paths,
        cut,
        exception: match &run.outcome {
            PluginOutcome::Excepted { by, .. } => Some(by),
            _ => None,
        },
    })
}

/// The paths that a plugin wrote now and in earlier passes, sorted, as many as there is room for, and whether some were left out. What
/// lies below another one of them is not listed.
fn paths<'a>(
    run: &'a PluginRun,
    earlier: Option<&'a MutationEntry>,
    room: &mut usize,
) -> (Vec<&'a str>, bool) {
    let before = earlier.into_iter().flat_map(|entry| &entry.paths);
    let now = run.writes.iter().map(|write| &write.path);
    let all: BTreeSet<&str> = before.chain(now).map(String::as_str).collect();
    let mut is_cut = earlier.is_some_and(|entry| entry.cut);
    let mut paths = Vec::new();
    for path in all.iter().filter(|path| !is_below_another(path, &all)) {
        let Some(left) = room.checked_sub(path.len() + AROUND) else {
            // No later plugin gets the rest: its list would say more than it can.
            (*room, is_cut) = (0, true);
            break;
        };
        *room = left;
        paths.push(*path);
    }
    (paths, is_cut)
}

/// Whether one of its ancestors is in the set. A slash in a key or a selector is written `~1`, so each slash ends an ancestor.
fn is_below_another(path: &str, all: &BTreeSet<&str>) -> bool {
    let mut slashes = path.match_indices('/');
    slashes.any(|(end, _)| end > 0 && path.get(..end).is_some_and(|above| all.contains(above)))
}

#[cfg(test)]
mod tests;
