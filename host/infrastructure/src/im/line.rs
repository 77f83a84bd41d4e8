//! A text in one line, of characters that are seen.

use podloom_syntax::text::is_hidden;

/// Returns the text with spaces for line ends and everything else that is not seen.
pub(super) fn one_line(text: &str) -> String {
    let words = text.split(|char: char| is_hidden(char) || char.is_whitespace());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}
