//! What a user may have meant, and short lists of what there is.

use std::fmt::Display;

/// How many names a list shows; the rest is counted, since a message has to fit a status.
const SHOWN: usize = 12;

/// Returns the name that the asked one may be a slip of: one begins with the other, or few letters differ.
pub(super) fn closest<'a>(
    asked: &str,
    known: impl IntoIterator<Item = &'a String>,
) -> Option<String> {
    let asked = asked.to_lowercase();
    known
        .into_iter()
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let begins =
                !asked.is_empty() && (lower.starts_with(&asked) || asked.starts_with(&lower));
            let slips = if begins { 0 } else { distance(&asked, &lower) };
            (slips <= asked.chars().count() / 3).then_some((slips, name))
        })
        .min()
        .map(|(_, name)| name.clone())
}

/// Lists names with commas.
pub(super) fn list(names: impl IntoIterator<Item = impl Display>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Levenshtein's distance: how many letters are added, left out or exchanged.
fn distance(a: &str, b: &str) -> usize {
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
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
