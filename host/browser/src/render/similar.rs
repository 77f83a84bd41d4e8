//! What a user may have meant, and short lists of what there is.

use std::collections::{BTreeMap, BTreeSet};

use podloom_engine::shown::joined;

pub(crate) use podloom_engine::shown::list;
pub(super) use podloom_engine::shown::{both, few, sentences, shown};

/// Names longer than this, in characters, have no distance: it costs the product of the lengths.
const DISTANCE_MAX: usize = 64;

/// How many names are compared with the asked one.
const COMPARED: usize = 1024;

/// Returns the name that the asked one may be a slip of: one begins with the other, or few letters differ.
pub(super) fn closest<'a>(
    asked: &str,
    known: impl IntoIterator<Item = &'a String>,
) -> Option<String> {
    let asked = asked.to_lowercase();
    let most = asked.chars().count() / 3;
    known
        .into_iter()
        .take(COMPARED)
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let begins =
                !asked.is_empty() && (lower.starts_with(&asked) || asked.starts_with(&lower));
            let slips = if begins { 0 } else { distance(&asked, &lower)? };
            (slips <= most).then_some((slips, name))
        })
        .min()
        .map(|(_, name)| name.clone())
}

/// Lists browsers with their versions.
pub(super) fn browsers(known: &BTreeMap<String, BTreeSet<String>>) -> String {
    let browsers = known
        .iter()
        .map(|(browser, versions)| format!("{} ({})", shown(browser), list(versions)));
    joined(browsers, ", ", usize::MAX)
}

/// Levenshtein's distance: how many letters are added, left out or exchanged. None for long names.
fn distance(a: &str, b: &str) -> Option<usize> {
    let is_long = |name: &str| name.chars().nth(DISTANCE_MAX).is_some();
    if is_long(a) || is_long(b) {
        return None;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        for (to, above) in b.iter().zip(row.windows(2)) {
            let [diagonal, above] = above else { continue };
            let left = next.last().copied().unwrap_or_default();
            let exchange = diagonal + usize::from(from != *to);
            next.push(exchange.min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied()
}

/// Returns a name in lower case, for comparison.
pub(super) fn without_case(name: &str) -> String {
    name.chars().flat_map(char::to_lowercase).collect()
}

/// Returns whether two names are equal, ignoring case.
pub(super) fn same_but_case(a: &str, b: &str) -> bool {
    a.chars()
        .flat_map(char::to_lowercase)
        .eq(b.chars().flat_map(char::to_lowercase))
}

#[cfg(test)]
mod tests;
