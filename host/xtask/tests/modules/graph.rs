//! Circles among siblings.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::source::{Crate, Dependency};

/// Which sibling depends on which: from, to, and an example of a path.
type Siblings<'c> = BTreeMap<&'c str, BTreeMap<String, String>>;

/// The shortest circle among the children of each module, as text.
pub(crate) fn circles(modules: &Crate) -> Vec<String> {
    let dependencies = modules.dependencies();
    let parents: BTreeSet<&[String]> = dependencies
        .iter()
        .filter_map(|Dependency { from, to, .. }| {
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            // Not if one of the two is a submodule of the other.
            (common < from.len() && common < to.len()).then(|| &from[..common])
        })
        .collect();
    let shortest = parents.into_iter().filter_map(|parent| {
        let siblings = siblings(parent, &dependencies);
        let circles = siblings.keys().filter_map(|start| circle(start, &siblings));
        circles
            .min_by_key(Vec::len)
            .map(|circle| describe(parent, &circle, &siblings))
    });
    shortest.collect()
}

/// The dependencies between the children of a module; each submodule counts as its parent.
fn siblings<'c>(parent: &[String], dependencies: &'c [Dependency<'_>]) -> Siblings<'c> {
    let mut siblings = Siblings::new();
    for Dependency { from, to, path } in dependencies {
        let (Some(below), Some(named)) = (from.strip_prefix(parent), to.strip_prefix(parent))
        else {
            continue;
        };
        if let (Some(one), Some(other)) = (below.first(), named.first())
            && one != other
        {
            let submodule = if below.len() > 1 {
                format!(" in {}", from.join("::"))
            } else {
                String::new()
            };
            siblings
                .entry(one)
                .or_default()
                .entry(other.clone())
                .or_insert_with(|| format!("{path}{submodule}"));
        }
    }
    siblings
}

/// The shortest way from a module back to itself.
fn circle(start: &str, siblings: &Siblings<'_>) -> Option<Vec<String>> {
    let mut ways = VecDeque::from([vec![start.to_owned()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in siblings.get(way.last()?.as_str())?.keys() {
            let longer = [way.as_slice(), std::slice::from_ref(next)].concat();
            if next == start {
                return Some(longer);
            }
            if siblings.contains_key(next.as_str()) && seen.insert(next.clone()) {
                ways.push_back(longer);
            }
        }
    }
    None
}

fn describe(parent: &[String], circle: &[String], siblings: &Siblings<'_>) -> String {
    let name = |child: &String| [parent, std::slice::from_ref(child)].concat().join("::");
    let steps = circle.windows(2).map(|pair| {
        let example = siblings
            .get(pair[0].as_str())
            .and_then(|named| named.get(&pair[1]));
        let example = example.map(String::as_str).unwrap_or_default();
        format!("{} ({example}) -> ", name(&pair[0]))
    });
    steps.collect::<String>() + &circle.last().map(name).unwrap_or_default()
}
