//! Words of a plugin on their way into messages, logs and annotations.

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

#[cfg(test)]
mod tests;
