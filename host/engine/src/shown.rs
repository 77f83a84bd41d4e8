//! Words of tenants in messages: short, and in one line.

use std::fmt::{self, Debug, Display};

use podloom_syntax::text::{self, cut};

/// How many names a list shows; the rest is counted, since a message has to fit a status.
const SHOWN: usize = 12;

/// How many names a short list shows.
const FEW: usize = 4;

/// How much of a name is shown, in characters.
const NAME_SHOWN: usize = 64;

/// How many digits of a digest are shown.
const DIGEST_SHOWN: usize = 12;

/// What shows that a word was cut.
const CUT: &str = "…";

/// How much of a sentence is shown, in characters.
const SENTENCE_SHOWN: usize = 512;

/// A word of a tenant as messages show it, not too long: `{}` in one line, `{:?}` in quotes too.
pub struct Shown<'a>(&'a str);

/// Every name, key and path that a message repeats goes through here, or through one of the lists.
pub fn shown(word: &str) -> Shown<'_> {
    Shown(word)
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&cut(self.0, NAME_SHOWN, CUT)))
    }
}

impl Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(&cut(self.0, NAME_SHOWN, CUT), f)
    }
}

/// Returns the start of a digest, which is enough to tell it from others.
pub fn short_digest(digest: &str) -> &str {
    digest.get(..DIGEST_SHOWN).unwrap_or(digest)
}

/// Lists names with commas.
pub fn list(names: impl IntoIterator<Item = impl Display>) -> String {
    joined(names, ", ", NAME_SHOWN)
}

/// Lists a few names with commas, for texts of one line.
pub fn few(names: impl IntoIterator<Item = impl Display>) -> String {
    first(FEW, names, ", ", NAME_SHOWN)
}

/// Lists names with "and".
pub fn both(names: impl IntoIterator<Item = impl Display>) -> String {
    joined(names, " and ", NAME_SHOWN)
}

/// Lists sentences with semicolons.
pub fn sentences(sentences: impl IntoIterator<Item = impl Display>) -> String {
    joined(sentences, "; ", SENTENCE_SHOWN)
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

/// Lists a dozen items, each cut to this length.
pub fn joined(
    items: impl IntoIterator<Item = impl Display>,
    separator: &str,
    length: usize,
) -> String {
    first(SHOWN, items, separator, length)
}

/// Cuts a message after so many bytes, between two characters, for a status or a log.
pub fn at_most(bytes: usize, mut message: String) -> String {
    message.truncate(message.floor_char_boundary(bytes));
    message
}

fn first(
    most: usize,
    items: impl IntoIterator<Item = impl Display>,
    separator: &str,
    length: usize,
) -> String {
    text::joined(items, most, separator, |item| {
        one_line(&cut(&item.to_string(), length, CUT))
    })
}

#[cfg(test)]
mod tests;
