//! Words of a plugin on their way into messages, logs and annotations.

use std::error::Error;
use std::iter;

/// One line of at most `max_bytes`: control characters become spaces, what was cut off is marked.
pub(crate) fn one_line(text: &str, max_bytes: usize) -> String {
    const CUT: &str = "...";
    let text = text.trim();
    let kept = if text.len() <= max_bytes {
        text
    } else {
        let end = text.floor_char_boundary(max_bytes.saturating_sub(CUT.len()));
        text.get(..end).unwrap_or_default()
    };
    let mut line: String = kept
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    if kept.len() < text.len() {
        line.push_str(CUT);
    }
    line
}

/// Names in a sentence: `a, b and c`.
pub(crate) fn list<S: AsRef<str>>(items: &[S]) -> String {
    match items {
        [] => "nothing".to_owned(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
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
