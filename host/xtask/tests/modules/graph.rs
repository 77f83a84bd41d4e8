//! Circles among siblings.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::source::{Crate, Place};

/// What siblings name of each other: from, to, and an example.
type Siblings<'c> = BTreeMap<&'c str, BTreeMap<String, String>>;

/// The shortest circle among the children of each module, in words.
pub(crate) fn circles(modules: &Crate) -> Vec<String> {
    let names = modules.names();
    let parents: BTreeSet<&[String]> = names
        .iter()
        .filter_map(|(from, to, _)| {
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            // One of the two lies below the other.
            (common < from.len() && common < to.len()).then(|| &from[..common])
        })
        .collect();
    let shortest = parents.into_iter().filter_map(|parent| {
        let siblings = siblings(parent, &names);
        let circles = siblings.keys().filter_map(|start| circle(start, &siblings));
        circles
            .min_by_key(Vec::len)
            .map(|circle| told(parent, &circle, &siblings))
    });
    shortest.collect()
}

fn siblings<'c>(parent: &[String], names: &'c [(&Place, Place, String)]) -> Siblings<'c> {
    let mut siblings = Siblings::new();
    for (from, to, path) in names {
        let (Some(below), Some(named)) = (from.strip_prefix(parent), to.strip_prefix(parent))
        else {
            continue;
        };
        if let (Some(one), Some(other)) = (below.first(), named.first())
            && one != other
        {
            let place = if below.len() > 1 {
                format!(" in {}", from.join("::"))
            } else {
                String::new()
            };
            siblings
                .entry(one)
                .or_default()
                .entry(other.clone())
                .or_insert_with(|| format!("{path}{place}"));
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

fn told(parent: &[String], circle: &[String], siblings: &Siblings<'_>) -> String {
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
