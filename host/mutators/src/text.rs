//! Makes text of a plugin or of a manifest safe to print in messages, logs and annotations. All such text goes through here.

use std::error::Error;
use std::iter;

use podloom_syntax::text::{self, is_hidden};

/// How many items of a list are shown.
const SHOWN: usize = 10;
/// How many bytes of each.
const SHOWN_BYTES: usize = 200;
const CUT: &str = "...";

/// One line of at most `max_bytes`: line ends and tabs become spaces, invisible characters are escaped, and a cut is marked by
/// `...`.
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

/// Whether a text is one line without invisible characters.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.chars().any(is_hidden)
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

/// The first items, and how many more there are.
pub(crate) fn joined<S: AsRef<str>>(items: &[S], separator: &str) -> String {
    text::joined(items, SHOWN, separator, |item| {
        one_line(item.as_ref(), SHOWN_BYTES)
    })
}

/// The first of many messages, of which the last one counts those that are left out.
pub(crate) fn first(mut messages: Vec<String>, most: usize) -> Vec<String> {
    let more = messages.len().saturating_sub(most);
    messages.truncate(most);
    if more > 0 {
        messages.push(format!("and {more} more like these"));
    }
    messages
}

/// An error with all that caused it: `cannot open the directory: permission denied`.
pub(crate) fn with_sources(error: &dyn Error) -> String {
    let causes = iter::successors(Some(error), |&error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}

#[cfg(test)]
mod tests;
