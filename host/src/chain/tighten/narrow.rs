//! Narrower paths in place of a wide one.

use std::collections::BTreeMap;

use podloom_pod_path::Grants;

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
pub(super) fn narrow<'p>(grant: &str, used: impl IntoIterator<Item = &'p str>) -> Vec<String> {
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
pub(super) fn distinct(paths: &[String]) -> Vec<String> {
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
