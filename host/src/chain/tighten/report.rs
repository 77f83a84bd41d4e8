//! What became of each grant, for people.

use std::fmt::Write;

use podloom_mutators::{Chain, Plugin, PluginGrants};
use podloom_pod_path::shown;

use super::Corpus;
use super::search::{Used, UsedByPlugin, covers, is_above};
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
