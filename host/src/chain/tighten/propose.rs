//! Which grants a plugin seems to need, by what it used of them.

use podloom_mutation::Usage;
use podloom_mutators::{Plugin, PluginGrants};

use super::narrow::{covers, distinct, is_above, narrow};

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
