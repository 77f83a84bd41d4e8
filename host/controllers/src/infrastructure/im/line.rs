//! A text in one line, of characters that are seen.

/// Returns the text with spaces for line ends and everything else that is not seen.
pub(super) fn one_line(text: &str) -> String {
    let is_seen = |char: &char| !char.is_control() && !is_hidden(*char);
    let visible: String = text
        .chars()
        .map(|char| match is_seen(&char) {
            true => char,
            false => ' ',
        })
        .collect();
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Characters that are not seen, or turn the direction of what follows.
fn is_hidden(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
