//! Finds the fewest grants with which every pod comes out the same, by trying.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use podloom_mutation::{MutatedPod, PluginRun, RejectedPod, Usage, runs};
use podloom_mutators::{Chain, Plugin, PluginGrants};
use podloom_pod_path::Grants;
use podloom_turns::lock;
use serde_json::Value;

use super::Corpus;
use crate::error::CommandError;
use crate::stamp;

/// What a plugin used on a corpus.
#[derive(Debug, Default)]
pub(super) struct Used {
    pub(super) usage: Usage,
    /// On how many pods it was called.
    pub(super) pods: u64,
}

/// Tries chains with other grants.
pub(super) struct Search<'a> {
    pub(super) chain: &'a Chain,
    pub(super) corpus: &'a Corpus,
    /// By the plugins of the chain, in order.
    pub(super) used: Vec<Used>,
    /// Which plugins have a list `read` of their own in chain.yaml.
    have_read: Vec<bool>,
}

/// One grant that is taken away, or replaced by narrower ones.
struct Edit {
    plugin: usize,
    list: List,
    path: String,
    instead: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Allow,
    Read,
}

impl List {
    fn of(self, grants: &PluginGrants) -> &[String] {
        match self {
            Self::Allow => &grants.allow,
            Self::Read => &grants.read,
        }
    }
}

impl<'a> Search<'a> {
    /// Runs the chain on every pod.
    pub(super) fn begin(
        chain: &'a Chain,
        corpus: &'a Corpus,
        have_read: Vec<bool>,
    ) -> Result<Self, CommandError> {
        let plugins = chain.plugins().iter().map(|_| Used::default());
        let used: Mutex<Vec<Used>> = Mutex::new(plugins.collect());
        corpus.each(|pod, request| {
            let result = chain.mutate_recorded(pod, request.clone());
            for (run, plugin) in runs(&result).iter().zip(lock(&used).iter_mut()) {
                // None if it was skipped.
                if let Some(usage) = &run.usage {
                    plugin.usage.add(usage);
                    plugin.pods += 1;
                }
            }
            true
        })?;
        Ok(Self {
            chain,
            corpus,
            used: used.into_inner().unwrap_or_else(PoisonError::into_inner),
            have_read,
        })
    }

    /// The fewest grants, in the order of the chain.
    pub(super) fn run(&self) -> Result<Vec<PluginGrants>, CommandError> {
        let mut levels: Vec<Level> = self.used.iter().map(|_| Level::Narrow).collect();
        loop {
            let grants = self.propose(&levels);
            let Ok(chain) = self.chain.with_grants(&grants) else {
                // Each was proposed because it loads; together they may only be too many.
                return Ok(self.chain.grants());
            };
            let differing = self.differing(&chain)?;
            if differing.is_empty() {
                return self.fewest(grants, &levels);
            }
            let mut is_widened = false;
            for plugin in differing {
                if let Some(level) = levels.get_mut(plugin) {
                    is_widened |= *level != Level::Keep;
                    *level = level.next();
                }
            }
            // Two equal runs give different results: nothing can be said about this chain.
            if !is_widened {
                return Ok(self.chain.grants());
            }
        }
    }

    fn propose(&self, levels: &[Level]) -> Vec<PluginGrants> {
        let plugins = self.chain.plugins().iter().zip(&self.used);
        let own = self.chain.grants();
        let proposed = plugins.zip(levels).enumerate();
        let proposed = proposed.map(|(number, ((plugin, used), level))| {
            let mut level = *level;
            let has_read = self.have_read.get(number) == Some(&true);
            loop {
                let proposed = propose(plugin, &used.usage, has_read, level);
                let mut grants = own.clone();
                if let Some(own) = grants.get_mut(number) {
                    own.clone_from(&proposed);
                }
                if level == Level::Keep || self.chain.with_grants(&grants).is_ok() {
                    return proposed;
                }
                level = level.next();
            }
        });
        proposed.collect()
    }

    /// The plugins that are the first ones to do anything else on some pod.
    fn differing(&self, other: &Chain) -> Result<BTreeSet<usize>, CommandError> {
        let differing = Mutex::new(BTreeSet::new());
        self.corpus.each(|pod, request| {
            let result = other.mutate(pod.clone(), request.clone());
            let own = self.chain.mutate(pod, request.clone());
            if let Some(plugin) = first_difference(&own, &result) {
                let mut differing = lock(&differing);
                differing.insert(plugin);
            }
            true
        })?;
        Ok(differing
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes away, one by one, what is no need that a plugin declares and makes no difference, until nothing is left of that.
    fn fewest(
        &self,
        mut grants: Vec<PluginGrants>,
        levels: &[Level],
    ) -> Result<Vec<PluginGrants>, CommandError> {
        loop {
            let edits = self.edits(&grants, levels);
            let chains = edits.into_iter().filter_map(|edit| {
                let chain = self.chain.with_grants(&applied(&grants, [&edit])).ok()?;
                Some((edit, chain))
            });
            let (edits, chains): (Vec<Edit>, Vec<Chain>) = chains.unzip();
            let same = self.same(&chains)?;
            let mut harmless = edits
                .iter()
                .zip(same)
                .filter(|(_, same)| *same)
                .map(|(edit, _)| edit);
            let Some(first) = harmless.next() else {
                return Ok(grants);
            };
            // Mostly they make no difference together either.
            let all = applied(&grants, std::iter::once(first).chain(harmless));
            let together = self.chain.with_grants(&all).ok();
            let all_same = match together {
                Some(chain) => self.same(&[chain])? == [true],
                None => false,
            };
            grants = match all_same {
                true => all,
                false => applied(&grants, [first]),
            };
        }
    }

    /// What could still be less: narrower where a plugin was not narrowed as a whole, and else nothing in place of a grant.
    fn edits(&self, grants: &[PluginGrants], levels: &[Level]) -> Vec<Edit> {
        let mut edits = Vec::new();
        let plugins = self.chain.plugins().iter().zip(&self.used);
        for (number, ((plugin, used), own)) in plugins.zip(grants).enumerate() {
            let declared = &plugin.description;
            let usage = &used.usage;
            for (list, needs, used) in [
                (List::Allow, &declared.writes, &usage.writes),
                (List::Read, &declared.reads, &usage.reads),
            ] {
                for path in list.of(own) {
                    let below = |other: &&str| covers(path, other);
                    let needs: Vec<&str> = needs.iter().map(String::as_str).filter(below).collect();
                    let mut edit = |instead: Vec<String>| {
                        edits.push(Edit {
                            plugin: number,
                            list,
                            path: path.clone(),
                            instead,
                        });
                    };
                    if needs.is_empty() {
                        edit(Vec::new());
                    }
                    let is_narrowed = levels.get(number) == Some(&Level::Narrow) || usage.is_cut;
                    let used = used.keys().map(String::as_str).filter(below);
                    let narrower = narrow(path, used.chain(needs));
                    if !is_narrowed && narrower != [path.as_str()] && !narrower.is_empty() {
                        edit(narrower);
                    }
                }
            }
        }
        edits
    }

    /// For each chain, whether every pod comes out of it the same.
    fn same(&self, chains: &[Chain]) -> Result<Vec<bool>, CommandError> {
        let same: Vec<AtomicBool> = chains.iter().map(|_| AtomicBool::new(true)).collect();
        if same.is_empty() {
            return Ok(Vec::new());
        }
        self.corpus.each(|pod, request| {
            let own = self.chain.mutate(pod.clone(), request.clone());
            for (chain, same) in chains.iter().zip(&same) {
                if same.load(Ordering::Relaxed) {
                    let result = chain.mutate(pod.clone(), request.clone());
                    let differs = first_difference(&own, &result).is_some();
                    same.fetch_and(!differs, Ordering::Relaxed);
                }
            }
            same.iter().any(|same| same.load(Ordering::Relaxed))
        })?;
        Ok(same.into_iter().map(AtomicBool::into_inner).collect())
    }
}

/// The grants after some edits. Of several edits of a path, only the first one is made.
fn applied<'e>(
    grants: &[PluginGrants],
    edits: impl IntoIterator<Item = &'e Edit>,
) -> Vec<PluginGrants> {
    let mut grants = grants.to_vec();
    for edit in edits {
        let Some(own) = grants.get_mut(edit.plugin) else {
            continue;
        };
        let list = match edit.list {
            List::Allow => &mut own.allow,
            List::Read => &mut own.read,
        };
        if let Some(at) = list.iter().position(|path| *path == edit.path) {
            list.splice(at..=at, edit.instead.iter().cloned());
        }
    }
    grants
}

/// The first plugin that does not do the same: another outcome, another write, another note. The chain's digest is left aside.
pub(super) fn first_difference(
    own: &Result<MutatedPod, RejectedPod>,
    other: &Result<MutatedPod, RejectedPod>,
) -> Option<usize> {
    let (own_runs, other_runs) = (runs(own), runs(other));
    let differs = |(own, other): (&PluginRun, &PluginRun)| {
        own.outcome != other.outcome || own.writes != other.writes || own.notes != other.notes
    };
    let first = own_runs.iter().zip(other_runs).position(differs);
    let is_same = match (own, other) {
        (Ok(own), Ok(other)) => unstamped(&own.pod) == unstamped(&other.pod),
        (Err(own), Err(other)) => own.rejection == other.rejection,
        _ => false,
    };
    let last = own_runs.len().min(other_runs.len()).saturating_sub(1);
    first.or_else(|| (!is_same || own_runs.len() != other_runs.len()).then_some(last))
}

/// As text, so that nothing that looks equal is taken for the same. The stamp follows from what the plugins did, and from the digest.
fn unstamped(pod: &Value) -> String {
    stamp::without(pod).to_string()
}

// Which grants a plugin seems to need, by what it used of them.

/// How far a plugin is tightened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// What was not used is dropped, and what is wide is narrowed.
    Narrow,
    /// What was not used is dropped.
    Drop,
    /// It keeps what it has.
    Keep,
}

impl Level {
    const fn next(self) -> Self {
        match self {
            Self::Narrow => Self::Drop,
            Self::Drop | Self::Keep => Self::Keep,
        }
    }
}

/// The grants of a plugin at a level. Without a list `read` of its own, a plugin may read what it declares: that is never less.
fn propose(plugin: &Plugin, usage: &Usage, has_read: bool, level: Level) -> PluginGrants {
    let level = if usage.is_cut {
        level.max(Level::Drop)
    } else {
        level
    };
    if level == Level::Keep {
        return PluginGrants {
            allow: plugin.allow.clone(),
            read: plugin.read.clone(),
        };
    }
    let writes: Vec<&str> = usage.writes.keys().map(String::as_str).collect();
    let declared = &plugin.description.writes;
    let allow = kept(&plugin.allow, &writes, declared, level);
    // What may be written may be read; and who may write below `*` may see the positions of the list.
    let is_readable = |path: &&str| {
        let is_granted = plugin.read.iter().any(|grant| covers(grant, path));
        let through = |grant: &String| covers(grant, path) || !is_granted && is_above(path, grant);
        allow.iter().any(through)
    };
    let reads = usage.reads.keys().map(String::as_str);
    let reads: Vec<&str> = reads.filter(|path| !is_readable(path)).collect();
    let own = match has_read {
        true => kept(&plugin.read, &reads, &plugin.description.reads, level),
        false => plugin.read.clone(),
    };
    let read = with_lost(own, plugin, &reads, level);
    PluginGrants { allow, read }
}

/// Adds what could be read only because it could be written, with a grant that is kept no longer.
fn with_lost(own: Vec<String>, plugin: &Plugin, reads: &[&str], level: Level) -> Vec<String> {
    let mut read = own;
    for grant in &plugin.allow {
        let is_granted = |path: &&&str| read.iter().any(|grant| covers(grant, path));
        let lost: Vec<&str> = reads
            .iter()
            .filter(|path| !is_granted(path))
            .copied()
            .collect();
        let through: Vec<&str> = lost
            .iter()
            .copied()
            .filter(|path| covers(grant, path))
            .collect();
        if lost.iter().any(|path| is_above(path, grant)) {
            read.push(grant.clone());
        } else if through.is_empty() {
            continue;
        } else if level == Level::Narrow {
            read.extend(narrow(grant, through));
        } else {
            read.push(grant.clone());
        }
        read = distinct(&read);
    }
    read
}

/// The grants that were used or that the plugin declares, at a level.
fn kept(grants: &[String], used: &[&str], declared: &[String], level: Level) -> Vec<String> {
    let is_covered = |path: &&&str| grants.iter().any(|grant| covers(grant, path));
    let seen: Vec<&&str> = used.iter().filter(|path| !is_covered(path)).collect();
    let mut all = Vec::new();
    for grant in grants {
        let below = |path: &&str| covers(grant, path);
        let needed = declared.iter().map(String::as_str).filter(below);
        let needed: Vec<&str> = used.iter().copied().filter(below).chain(needed).collect();
        match level {
            _ if seen.iter().any(|path| is_above(path, grant)) => all.push(grant.clone()),
            _ if needed.is_empty() => {}
            Level::Narrow => all.extend(narrow(grant, needed)),
            Level::Drop | Level::Keep => all.push(grant.clone()),
        }
    }
    distinct(&all)
}

// Narrower paths in place of a wide one.

/// A path is split into at most so many fields or names of elements; with more of them, it stays as it is, or gets a `*`.
const HANDFUL: usize = 5;

/// Whether one path covers another one.
pub(super) fn covers(wide: &str, narrow: &str) -> bool {
    match (Grants::parse(&[wide]), Grants::parse(&[narrow])) {
        (Ok(wide), Ok(narrow)) => wide.covers(&narrow).is_ok(),
        _ => false,
    }
}

/// Whether a path leads to another one that it does not cover: something was seen through a grant further down.
pub(super) fn is_above(path: &str, grant: &str) -> bool {
    let is_longer = grant.matches('/').count() > path.matches('/').count();
    is_longer && (covers(path, grant) || covers(&prefix(grant, path), path))
}

/// The grant, cut to as many segments as the path has.
fn prefix(grant: &str, path: &str) -> String {
    let segments = path.split('/').count();
    grant
        .split('/')
        .take(segments)
        .collect::<Vec<_>>()
        .join("/")
}

/// The smallest paths below the grant that cover all that was used of it, as long as there are few of them.
fn narrow<'p>(grant: &str, used: impl IntoIterator<Item = &'p str>) -> Vec<String> {
    let unchanged = || vec![grant.to_owned()];
    let mut root = Node::default();
    let depth = grant.matches('/').count();
    for path in used {
        if path.matches('/').count() < depth {
            return unchanged();
        }
        root.add(path);
    }
    let mut paths = Vec::new();
    root.paths("", depth, &mut paths);
    let wide = Grants::parse(&[grant]);
    let is_valid = match (wide, Grants::parse_writes(&paths)) {
        (Ok(wide), Ok(paths)) => wide.covers(&paths).is_ok(),
        // What is only read may be what is never written.
        (Ok(wide), Err(_)) => Grants::parse(&paths).is_ok_and(|paths| wide.covers(&paths).is_ok()),
        _ => false,
    };
    if is_valid { paths } else { unchanged() }
}

/// The paths without those that others cover.
fn distinct(paths: &[String]) -> Vec<String> {
    let is_needed = |at: usize, path: &String| {
        !paths.iter().enumerate().any(|(other, wide)| {
            let comes_first = other < at || !covers(path, wide);
            other != at && comes_first && covers(wide, path)
        })
    };
    let needed = paths
        .iter()
        .enumerate()
        .filter(|(at, path)| is_needed(*at, path));
    needed.map(|(_, path)| path.clone()).collect()
}

/// A field or an element that was used, or that leads to one.
#[derive(Clone, Debug, Default)]
struct Node {
    is_used: bool,
    /// By segments.
    below: BTreeMap<String, Self>,
}

impl Node {
    fn add(&mut self, path: &str) {
        let segments = path.split('/').skip(1);
        let node = segments.fold(self, |node, segment| {
            node.below.entry(segment.to_owned()).or_default()
        });
        node.is_used = true;
    }

    fn merge(&mut self, other: Self) {
        self.is_used |= other.is_used;
        for (segment, node) in other.below {
            self.below.entry(segment).or_default().merge(node);
        }
    }

    /// Adds the paths from here, none of them with fewer segments.
    fn paths(mut self, path: &str, fewest: usize, paths: &mut Vec<String>) {
        let is_list = self
            .below
            .keys()
            .any(|segment| segment.starts_with(['[', '*']));
        let many = self.below.len() > HANDFUL;
        if fewest == 0 && (self.is_used || self.below.is_empty() || many && !is_list) {
            paths.push(path.to_owned());
            return;
        }
        if is_list && (many || self.below.contains_key("*")) {
            let mut any = Self::default();
            for node in std::mem::take(&mut self.below).into_values() {
                any.merge(node);
            }
            self.below.insert("*".to_owned(), any);
        }
        for (segment, node) in self.below {
            node.paths(
                &format!("{path}/{segment}"),
                fewest.saturating_sub(1),
                paths,
            );
        }
    }
}

#[cfg(test)]
mod tests;
