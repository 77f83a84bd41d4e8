//! What others say, made fit to be shown.

use std::io;

/// How much of a text that is not ours a failure holds, in characters.
const LONGEST: usize = 200;

/// What an I/O error says, in the kernel's words or Rust's: what libraries wrap in such errors may quote the other end.
pub(super) fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code).to_string(),
        None => error.kind().to_string(),
    }
}

/// A text of somebody else's, as one short line.
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
