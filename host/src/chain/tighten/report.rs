//! What became of each grant, for people.

use std::fmt::Write;

use podloom_mutation::Usage;
use podloom_mutators::{Chain, Plugin, PluginGrants};
use podloom_pod_path::shown;

use super::Corpus;
use super::search::{Used, UsedByPlugin, covers, distinct, is_above, narrow};
use crate::error;
use crate::explain::count;
use crate::output::{ADDED, CHANGED, QUIET, REMOVED, TITLE, paint};

/// What became of a chain's grants.
pub(super) struct Report<'a> {
    pub(super) chain: &'a Chain,
    pub(super) corpus: &'a Corpus,
    pub(super) used: &'a Used,
    /// In the order of the chain.
    pub(super) grants: &'a [PluginGrants],
}

/// What becomes of one grant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate<'a> {
    Kept,
    Narrowed(Vec<&'a str>),
    Dropped,
}

/// A list of grants before and after.
struct List<'a> {
    name: &'static str,
    before: &'a [String],
    after: &'a [String],
    declared: &'a [String],
    used: &'a UsedByPlugin,
}

impl Report<'_> {
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut unused = Vec::new();
        let mut only_declared = Vec::new();
        let plugins = self.chain.plugins().iter().zip(&self.used.plugins);
        for ((plugin, used), grants) in plugins.zip(self.grants) {
            let called = count(usize::try_from(used.pods).unwrap_or(usize::MAX), "pod");
            let title = format!("{} {}", plugin.name, plugin.description.version);
            let _infallible = writeln!(
                text,
                "{}  {}",
                paint(TITLE, &title),
                paint(
                    QUIET,
                    &format!("called for {called} of {}", self.corpus.len())
                )
            );
            for list in lists(plugin, used, grants) {
                list.describe(&mut text);
                unused.extend(list.unused().map(|path| row(plugin, list.name, path)));
                only_declared.extend(
                    list.only_declared()
                        .map(|path| row(plugin, list.name, path)),
                );
            }
        }
        section(&mut text, "granted and never used", &unused);
        section(
            &mut text,
            "declared by the plugin and never used; its configuration may ask for less",
            &only_declared,
        );
        let pods = count(self.corpus.len(), "pod");
        let comes = if self.corpus.len() == 1 {
            "comes"
        } else {
            "come"
        };
        let _infallible = writeln!(text, "{pods} {comes} out the same with these grants");
        text
    }
}

fn lists<'a>(
    plugin: &'a Plugin,
    used: &'a UsedByPlugin,
    grants: &'a PluginGrants,
) -> [List<'a>; 2] {
    let description = &plugin.description;
    [
        List {
            name: "allow",
            before: &plugin.allow,
            after: &grants.allow,
            declared: &description.writes,
            used,
        },
        List {
            name: "read",
            before: &plugin.read,
            after: &grants.read,
            declared: &description.reads,
            used,
        },
    ]
}

impl<'a> List<'a> {
    fn describe(&self, text: &mut String) {
        for path in self.before {
            let uses = self.uses(path);
            let is_declared = self.declared.iter().any(|need| covers(path, need));
            let used = match (uses, self.name) {
                (0, "allow") => "never written".to_owned(),
                (0, _) => "never read".to_owned(),
                (uses, "allow") => count(usize::try_from(uses).unwrap_or(usize::MAX), "write"),
                (uses, _) => count(usize::try_from(uses).unwrap_or(usize::MAX), "read"),
            };
            let declared = if is_declared {
                ", declared by the plugin"
            } else {
                ""
            };
            let (word, instead) = match self.fate(path) {
                Fate::Kept => ("kept".to_owned(), String::new()),
                Fate::Narrowed(paths) => {
                    let paths: Vec<String> = paths.into_iter().map(path_text).collect();
                    (
                        paint(CHANGED, "narrowed"),
                        format!(", now {}", paths.join(" and ")),
                    )
                }
                Fate::Dropped => (paint(REMOVED, "dropped"), String::new()),
            };
            let path = path_text(path);
            let _infallible = writeln!(
                text,
                "   {:<5}  {word} {path}: {used}{declared}{instead}",
                self.name
            );
        }
        for path in self.added() {
            let uses = count(
                usize::try_from(self.uses(path)).unwrap_or(usize::MAX),
                "read",
            );
            let _infallible = writeln!(
                text,
                "   {:<5}  {} {}: {uses}, so far by `allow`",
                self.name,
                paint(ADDED, "added"),
                path_text(path)
            );
        }
    }

    fn fate(&self, path: &str) -> Fate<'a> {
        if self.after.iter().any(|kept| kept == path) {
            return Fate::Kept;
        }
        let others = self.before.iter().filter(|other| *other != path);
        let others: Vec<&String> = others.collect();
        let below = self.after.iter().filter(|new| covers(path, new));
        // What another entry kept is not what became of this one.
        let own = below.filter(|new| !others.contains(new));
        let own: Vec<&str> = own.map(String::as_str).collect();
        match own.is_empty() {
            true => Fate::Dropped,
            false => Fate::Narrowed(own),
        }
    }

    fn added(&self) -> impl Iterator<Item = &'a str> {
        let is_new = |path: &&String| !self.before.iter().any(|before| covers(before, path));
        self.after.iter().filter(is_new).map(String::as_str)
    }

    /// How often it was used: what it covers, and what was only seen because of it.
    fn uses(&self, grant: &str) -> u64 {
        let uses = match self.name {
            "allow" => &self.used.usage.writes,
            _ => &self.used.usage.reads,
        };
        let is_own = |path: &str| {
            let is_covered = || self.before.iter().any(|grant| covers(grant, path));
            covers(grant, path) || is_above(path, grant) && !is_covered()
        };
        let own = uses.iter().filter(|(path, _)| is_own(path));
        own.map(|(_, count)| count).sum()
    }

    /// What was granted, used for nothing, and is no need of the plugin.
    fn unused(&self) -> impl Iterator<Item = &'a str> {
        let is_unused = |path: &&String| {
            let mut reads = self.used.usage.reads.keys();
            let is_read = self.name == "allow" && reads.any(|read| covers(path, read));
            let is_declared = self.declared.iter().any(|need| covers(path, need));
            self.uses(path) == 0 && !is_read && !is_declared
        };
        self.before.iter().filter(is_unused).map(String::as_str)
    }

    fn only_declared(&self) -> impl Iterator<Item = &'a str> {
        let is_unused = |need: &&String| self.uses(need) == 0;
        self.declared.iter().filter(is_unused).map(String::as_str)
    }
}

fn row(plugin: &Plugin, list: &str, path: &str) -> String {
    format!("   {}  {list} {}", plugin.name, path_text(path))
}

fn section(text: &mut String, title: &str, rows: &[String]) {
    if !rows.is_empty() {
        let _infallible = writeln!(text, "{}", paint(TITLE, title));
        for row in rows {
            let _infallible = writeln!(text, "{row}");
        }
    }
}

fn path_text(path: &str) -> String {
    error::shown(shown(path))
}

// Which grants a plugin seems to need, by what it used of them.

/// How far a plugin is tightened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// What was not used is dropped, and what is wide is narrowed.
    Narrow,
    /// What was not used is dropped.
    Drop,
    /// It keeps what it has.
    Keep,
}

impl Level {
    pub(super) const fn next(self) -> Self {
        match self {
            Self::Narrow => Self::Drop,
            Self::Drop | Self::Keep => Self::Keep,
        }
    }
}

/// The grants of a plugin at a level. Without a list `read` of its own, a plugin may read what it declares: that is never less.
pub(super) fn propose(
    plugin: &Plugin,
    usage: &Usage,
    has_read: bool,
    level: Level,
) -> PluginGrants {
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
