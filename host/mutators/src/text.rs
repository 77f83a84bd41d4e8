//! Words of a plugin, or of the manifest of its bundle, on their way into messages, logs and annotations: whatever of them is
//! printed goes through here.

use std::error::Error;
use std::iter;

/// How many of a list are named.
const SHOWN: usize = 10;
/// How much of each.
const SHOWN_BYTES: usize = 200;
const CUT: &str = "...";

/// One line of at most `max_bytes`: line ends and tabs become spaces, what nobody sees is escaped, and what was cut off is
/// marked.
pub(crate) fn one_line(text: &str, max_bytes: usize) -> String {
    let mut line = String::new();
    for char in text.trim().chars() {
        match char {
            '\t' | '\n' | '\r' => line.push(' '),
            char if is_hidden(char) => line.extend(char.escape_unicode()),
            char => line.push(char),
        }
        if line.len() > max_bytes {
            line.truncate(line.floor_char_boundary(max_bytes.saturating_sub(CUT.len())));
            line.push_str(CUT);
            break;
        }
    }
    line
}

/// Whether a text says no more than what is seen of it, in one line.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.chars().any(is_hidden)
}

/// Characters without a shape of their own: controls, line and paragraph separators, those that turn the direction of what
/// follows, and others that only mean something to a program.
fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Names in a sentence: `a, b and c`, or `a, b and 8 more`.
pub(crate) fn list<S: AsRef<str>>(items: &[S]) -> String {
    match items {
        [] => "nothing".to_owned(),
        [one] => one_line(one.as_ref(), SHOWN_BYTES),
        [first @ .., last] if items.len() <= SHOWN => {
            let last = one_line(last.as_ref(), SHOWN_BYTES);
            format!("{} and {last}", joined(first, ", "))
        }
        _ => joined(items, ", "),
    }
}

/// The first of many texts, and how many more there are.
pub(crate) fn joined<S: AsRef<str>>(items: &[S], separator: &str) -> String {
    let shown: Vec<String> = items
        .iter()
        .take(SHOWN)
        .map(|item| one_line(item.as_ref(), SHOWN_BYTES))
        .collect();
    let shown = shown.join(separator);
    match items.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// An error with all that caused it: `cannot open the directory: permission denied`.
pub(crate) fn with_sources(error: &dyn Error) -> String {
    let causes = iter::successors(Some(error), |&error| error.source());
    let told: Vec<String> = causes.map(ToString::to_string).collect();
    told.join(": ")
}

#[cfg(test)]
mod tests;
