//! What became of each grant, for people.

use std::fmt::Write;

use podloom_mutators::{Plugin, PluginGrants};
use podloom_pod_path::shown;

use super::search::{Search, Used, covers, is_above};
use crate::error;
use crate::explain::count;
use crate::output::{ADDED, CHANGED, QUIET, REMOVED, TITLE, paint};

/// A list of grants before and after.
struct List<'a> {
    name: &'static str,
    before: &'a [String],
    after: &'a [String],
    declared: &'a [String],
    used: &'a Used,
}

/// What became of a chain's grants, which are in the order of the chain.
pub(super) fn text(search: &Search<'_>, grants: &[PluginGrants]) -> String {
    let (mut text, pods) = (String::new(), search.corpus.len());
    let (mut unused, mut only_declared) = (Vec::new(), Vec::new());
    let plugins = search.chain.plugins().iter().zip(&search.used);
    for ((plugin, used), grants) in plugins.zip(grants) {
        let title = format!("{} {}", plugin.name, plugin.description.version);
        let called = format!("called for {} of {pods}", count(used.pods, "pod"));
        let _infallible = writeln!(text, "{}  {}", paint(TITLE, &title), paint(QUIET, &called));
        for list in lists(plugin, used, grants) {
            list.describe(&mut text);
            let row = |path| format!("   {}  {} {}", plugin.name, list.name, path_text(path));
            unused.extend(list.unused().map(row));
            only_declared.extend(list.only_declared().map(row));
        }
    }
    section(&mut text, "granted and never used", &unused);
    section(
        &mut text,
        "declared by the plugin and never used; its configuration may ask for less",
        &only_declared,
    );
    let comes = if pods == 1 { "comes" } else { "come" };
    let pods = count(pods, "pod");
    let _infallible = writeln!(text, "{pods} {comes} out the same with these grants");
    text
}

fn lists<'a>(plugin: &'a Plugin, used: &'a Used, grants: &'a PluginGrants) -> [List<'a>; 2] {
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
                (uses, "allow") => count(uses, "write"),
                (uses, _) => count(uses, "read"),
            };
            let declared = if is_declared {
                ", declared by the plugin"
            } else {
                ""
            };
            let now = self.instead(path);
            let (word, instead) = match now.as_slice() {
                [] => (paint(REMOVED, "dropped"), String::new()),
                [one] if *one == path => ("kept".to_owned(), String::new()),
                several => {
                    let paths: Vec<String> = several.iter().map(|it| path_text(it)).collect();
                    let now = format!(", now {}", paths.join(" and "));
                    (paint(CHANGED, "narrowed"), now)
                }
            };
            let path = path_text(path);
            let _infallible = writeln!(
                text,
                "   {:<5}  {word} {path}: {used}{declared}{instead}",
                self.name
            );
        }
        for path in self.added() {
            let uses = count(self.uses(path), "read");
            let _infallible = writeln!(
                text,
                "   {:<5}  {} {}: {uses}, so far by `allow`",
                self.name,
                paint(ADDED, "added"),
                path_text(path)
            );
        }
    }

    /// What stands in the place of a grant: itself, narrower ones or nothing.
    fn instead(&self, path: &str) -> Vec<&'a str> {
        if let Some(kept) = self.after.iter().find(|kept| *kept == path) {
            return vec![kept];
        }
        // What another entry kept is not what became of this one.
        let is_of_another = |new: &&String| self.before.iter().any(|other| other == *new);
        let below = self.after.iter().filter(|new| covers(path, new));
        let own = below.filter(|new| !is_of_another(new));
        own.map(String::as_str).collect()
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
