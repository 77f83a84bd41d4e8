//! Compares the grants of two chains, so that a reload can log what plugins may do now and what they may no longer do.

use std::collections::BTreeMap;

use podloom_mutators::Chain;
use podloom_syntax::text;

/// What each plugin of a chain may read and write.
pub(super) type Grants = BTreeMap<String, Granted>;

/// The paths that one plugin may write, and those that it may read besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Granted {
    allow: Vec<String>,
    read: Vec<String>,
}

/// How the grants of one plugin changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change<'g> {
    pub(super) plugin: &'g str,
    pub(super) allow_added: Vec<&'g str>,
    pub(super) allow_removed: Vec<&'g str>,
    pub(super) read_added: Vec<&'g str>,
    pub(super) read_removed: Vec<&'g str>,
}

pub(super) fn of(chain: &Chain) -> Grants {
    let granted = chain.plugins().iter().map(|plugin| {
        let granted = Granted {
            allow: plugin.allow.clone(),
            read: plugin.read.clone(),
        };
        (plugin.name.clone(), granted)
    });
    granted.collect()
}

/// The plugins of both chains whose grants differ.
pub(super) fn changes<'g>(before: &'g Grants, after: &'g Grants) -> Vec<Change<'g>> {
    const NOTHING: &Granted = &Granted {
        allow: Vec::new(),
        read: Vec::new(),
    };
    let gone = before.keys().filter(|plugin| !after.contains_key(*plugin));
    let plugins = after.keys().chain(gone);
    let change = |plugin: &'g String| {
        let of = |grants: &'g Grants| grants.get(plugin).unwrap_or(NOTHING);
        let (old, new) = (of(before), of(after));
        Change {
            plugin,
            allow_added: beyond(&new.allow, &old.allow),
            allow_removed: beyond(&old.allow, &new.allow),
            read_added: beyond(&new.read, &old.read),
            read_removed: beyond(&old.read, &new.read),
        }
    };
    plugins.map(change).filter(Change::is_any).collect()
}

impl Change<'_> {
    fn is_any(&self) -> bool {
        let lists = [
            &self.allow_added,
            &self.allow_removed,
            &self.read_added,
            &self.read_removed,
        ];
        lists.iter().any(|list| !list.is_empty())
    }
}

/// Paths for the log, in one line of bounded length: a plugin may ask for 256 paths of a kilobyte each.
pub(super) fn listed(paths: &[&str]) -> String {
    const SHOWN: usize = 20;
    const SHOWN_BYTES: usize = 200;
    text::joined(paths, SHOWN, ", ", |path| {
        // Escaped, so that no character is invisible or ends the line.
        let path = format!("{path:?}");
        match path.get(..path.floor_char_boundary(SHOWN_BYTES)) {
            Some(start) if start.len() < path.len() => format!("{start}..."),
            _ => path,
        }
    })
}

fn beyond<'g>(paths: &'g [String], others: &[String]) -> Vec<&'g str> {
    let more = paths.iter().filter(|path| !others.contains(path));
    more.map(String::as_str).collect()
}

#[cfg(test)]
mod tests;
