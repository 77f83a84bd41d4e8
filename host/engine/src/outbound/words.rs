//! Error texts of others, made safe to show.

use std::io;

/// How much of a text that is not ours an error contains, in characters.
const LONGEST: usize = 200;

/// The text of an I/O error, from the kernel or from Rust: texts of libraries may quote what the server sent.
pub(super) fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code).to_string(),
        None => error.kind().to_string(),
    }
}

/// A text that is not ours, as one short line.
pub(super) fn short(text: &str) -> String {
    let plain = |character: char| {
        if character.is_control() {
            ' '
        } else {
            character
        }
    };
    text.chars().take(LONGEST).map(plain).collect()
}
