//! How texts from outside are shown in messages: of bounded length, and without characters that nobody sees.
//!
//! Here because every room that quotes what Kubernetes, a plugin or a tenant wrote may use this crate.

use std::borrow::Cow;

/// Cuts a text after so many characters, and marks the cut.
///
/// ```
/// use podloom_syntax::text::cut;
///
/// assert_eq!(cut("Browser", 4, "..."), "Brow...");
/// assert_eq!(cut("Browser", 7, "..."), "Browser");
/// ```
pub fn cut<'t>(text: &'t str, characters: usize, mark: &str) -> Cow<'t, str> {
    match text.char_indices().nth(characters) {
        Some((end, _)) => Cow::Owned(format!("{}{mark}", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// Joins the first items as they are shown, and counts the others.
///
/// ```
/// use podloom_syntax::text::joined;
///
/// assert_eq!(joined(["a", "b", "c"], 2, ", ", str::to_uppercase), "A, B and 1 more");
/// ```
pub fn joined<T>(
    items: impl IntoIterator<Item = T>,
    most: usize,
    separator: &str,
    shown: impl Fn(T) -> String,
) -> String {
    let mut items = items.into_iter();
    let first: Vec<String> = items.by_ref().take(most).map(shown).collect();
    let first = first.join(separator);
    match items.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Returns whether a text matches a pattern, in which `*` stands for any characters.
///
/// Each part between stars is taken where it first occurs, which leaves the most for the parts after it, so nothing is tried twice.
///
/// ```
/// use podloom_syntax::text::matches;
///
/// assert!(matches("team-*-dev", "team-a-dev"));
/// assert!(!matches("team-*-dev", "team-dev"));
/// ```
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((prefix, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(prefix) else {
        return false;
    };
    let (parts, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in parts.split('*') {
        match text.split_once(part) {
            Some((_, after)) => text = after,
            None => return false,
        }
    }
    text.ends_with(suffix)
}

/// Returns whether a character is not seen: a control character, a line or paragraph separator, a mark that changes the direction of
/// text, or another that only programs interpret.
pub fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
