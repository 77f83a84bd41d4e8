//! What a user may have meant, and short lists of what there is.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug, Display};

/// How many names a list shows; the rest is counted, since a message has to fit a status.
const SHOWN: usize = 12;

/// How many names a short list shows.
const FEW: usize = 4;

/// How much of a name is shown, in characters.
const NAME_SHOWN: usize = 64;

/// How much of a sentence is shown, in characters.
const SENTENCE_SHOWN: usize = 512;

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

/// Lists names with commas.
pub(in crate::browser) fn list(names: impl IntoIterator<Item = impl Display>) -> String {
    joined(names, ", ", NAME_SHOWN)
}

/// Lists a few names with commas, for texts of one line.
pub(super) fn few(names: impl IntoIterator<Item = impl Display>) -> String {
    first(FEW, names, ", ", NAME_SHOWN)
}

/// Lists browsers with their versions.
pub(super) fn browsers(known: &BTreeMap<String, BTreeSet<String>>) -> String {
    let browsers = known
        .iter()
        .map(|(browser, versions)| format!("{} ({})", shown(browser), list(versions)));
    joined(browsers, ", ", usize::MAX)
}

/// Lists names with "and".
pub(super) fn both(names: impl IntoIterator<Item = impl Display>) -> String {
    joined(names, " and ", NAME_SHOWN)
}

/// Lists sentences with semicolons.
pub(super) fn sentences(sentences: impl IntoIterator<Item = impl Display>) -> String {
    joined(sentences, "; ", SENTENCE_SHOWN)
}

/// A word of a tenant as messages show it, not too long: `{}` in one line, `{:?}` in quotes too.
pub(in crate::browser) struct Shown<'a>(&'a str);

/// Every name, key and path that a message repeats goes through here, or through one of the lists.
pub(in crate::browser) fn shown(word: &str) -> Shown<'_> {
    Shown(word)
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&cut(self.0, NAME_SHOWN)))
    }
}

impl Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(&cut(self.0, NAME_SHOWN), f)
    }
}

/// Escapes line ends and all that is not seen or turns the direction of what follows; what is escaped already stays as it is.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '"' | '\'' | '\\' => line.push(char),
            char => line.extend(char.escape_debug()),
        }
    }
    line
}

fn joined(items: impl IntoIterator<Item = impl Display>, separator: &str, length: usize) -> String {
    first(SHOWN, items, separator, length)
}

fn first(
    most: usize,
    items: impl IntoIterator<Item = impl Display>,
    separator: &str,
    length: usize,
) -> String {
    let mut items = items.into_iter();
    let shown: Vec<String> = items
        .by_ref()
        .take(most)
        .map(|item| one_line(&cut(&item.to_string(), length)))
        .collect();
    match items.count() {
        0 => shown.join(separator),
        more => format!("{} and {more} more", shown.join(separator)),
    }
}

fn cut(text: &str, length: usize) -> Cow<'_, str> {
    match text.char_indices().nth(length) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
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
