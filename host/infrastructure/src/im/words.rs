//! The sentences of IM, as they may be shown: short, in one line, without stack traces and secrets.

use podloom_engine::shown::at_most;
use serde::Deserialize;

use super::line::one_line;
use super::mask::Mask;

/// The longest message, in bytes.
const MESSAGE_MAX: usize = 512;
/// How much of a text is looked at, in bytes.
const LOOKED_AT: usize = 64 * 1024;
/// Where Python's stack traces begin.
const TRACE: &str = "Traceback (most recent call last)";
/// How a line of a stack trace begins, and what follows the name of the file.
const FRAME: (&str, &str) = ("File ", ", line ");

/// An error as IM writes it, if it answers in JSON.
#[derive(Deserialize)]
struct Error {
    #[serde(alias = "detail", alias = "error")]
    message: String,
}

/// Returns the beginning of an error's text; nothing if that is no text but a page.
pub(super) fn error(mask: &Mask, body: &[u8]) -> String {
    let text = match serde_json::from_slice::<Error>(body) {
        Ok(Error { message }) => message,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    if is_page(text.as_bytes()) {
        return String::new();
    }
    let end = text.floor_char_boundary(LOOKED_AT);
    at_most(MESSAGE_MAX, line(mask, text.get(..end).unwrap_or_default()))
}

/// Returns the end of a log, without stack traces.
pub(super) fn end_of_log(mask: &Mask, log: &str) -> String {
    let start = log.floor_char_boundary(log.len().saturating_sub(LOOKED_AT));
    let line = line(mask, log.get(start..).unwrap_or_default());
    let start = line.ceil_char_boundary(line.len().saturating_sub(MESSAGE_MAX));
    line.get(start..)
        .unwrap_or_default()
        .trim_start()
        .to_owned()
}

/// Returns whether it is a page for people, as proxies and portals answer.
pub(super) fn is_page(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"<")
}

/// A text in one line, without secrets and stack traces.
///
/// It is masked before anything is cut: half a secret is not found any more. And it is masked again, since a secret may only be whole
/// once line ends have become spaces.
fn line(mask: &Mask, text: &str) -> String {
    let text = mask.hide(text);
    let text = text.split(TRACE).next().unwrap_or_default();
    mask.hide(&one_line(&without_frames(text)))
}

/// Leaves out the lines of stack traces. IM's parser of templates puts one after each of its errors.
fn without_frames(text: &str) -> String {
    let (begin, after_name) = FRAME;
    let mut kept = Vec::new();
    // How far the last line of a trace is indented; its code is on the next line, and further.
    let mut frame = None;
    for line in text.lines() {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        if words.starts_with(begin) && words.contains(after_name) {
            frame = Some(indent);
        } else if frame.is_none_or(|frame| indent <= frame) {
            frame = None;
            kept.push(line);
        }
    }
    kept.join("\n")
}
