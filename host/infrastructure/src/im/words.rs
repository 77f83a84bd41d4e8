//! The sentences of IM, as they may be shown: short, in one line, without stack traces and secrets.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use podloom_engine::shown::at_most;
use podloom_syntax::text::is_hidden;
use serde::Deserialize;

use super::call::Call;
use super::target::{Owner, Target, escaped};

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

// Hides secrets in texts of IM, which repeats in errors and logs what it was sent, in many forms.

/// What stands for a secret.
const MASK: &str = "***";
/// How long a line of a secret is that is hidden by itself, in bytes.
const LINE_MIN: usize = 4;
/// How long a part of base64 is that is hidden by itself, in bytes: a shorter one is in ordinary words too.
const PART_MIN: usize = 6;

/// The secrets of a call, in all their forms.
pub(super) struct Mask(Vec<String>);

impl Mask {
    /// Returns the mask of all secrets that a call contains.
    pub(super) fn new(target: &Target, call: &Call) -> Self {
        let mut forms: Vec<String> = target.secrets().flat_map(forms).collect();
        if let Owner::Basic { username, password } = &target.owner {
            forms.push(STANDARD.encode(format!("{username}:{}", password.reveal())));
        }
        if let Call::AddOwner { password, .. } = call {
            forms.extend(self::forms(password.reveal()));
        }
        forms.retain(|form| !form.is_empty());
        forms.sort_unstable();
        forms.dedup();
        Self(forms)
    }

    /// Returns the text without the secrets. Those that overlap are hidden as one.
    pub(super) fn hide(&self, text: &str) -> String {
        let found = self.0.iter().flat_map(|form| {
            let found = text.match_indices(form.as_str());
            found.map(|(start, form)| start..start + form.len())
        });
        let mut found: Vec<Range<usize>> = found.collect();
        found.sort_unstable_by_key(|range| range.start);
        let (mut shown, mut end) = (String::with_capacity(text.len()), 0);
        for range in found {
            if range.start >= end {
                shown += text.get(end..range.start).unwrap_or_default();
                shown += MASK;
            }
            end = end.max(range.end);
        }
        shown += text.get(end..).unwrap_or_default();
        shown
    }
}

/// A secret in every form in which it may be repeated.
fn forms(secret: &str) -> Vec<String> {
    // A secret of several lines is shown line by line.
    let lines = secret.lines().map(str::trim);
    let lines = lines.filter(|line| line.len() >= LINE_MIN);
    let mut forms: Vec<String> = lines.map(str::to_owned).collect();
    forms.extend([secret.to_owned(), one_line(secret)]);
    forms.extend(in_quotes(secret));
    forms.extend(in_urls(secret));
    forms.extend(in_pages(secret));
    forms.extend(in_base64(secret));
    forms
}

/// As JSON, Python and our own header write it, and JSON inside of JSON.
fn in_quotes(secret: &str) -> Vec<String> {
    let json = json(secret);
    let ascii = ascii(&json);
    let header = escaped(secret);
    // Python chooses single quotes, and then escapes those, or double ones if there are only single ones in it.
    let python = json.replace("\\\"", "\"");
    vec![
        self::json(&json),
        self::json(&ascii),
        python.replace('\'', "\\'"),
        with_upper_digits(&header),
        with_upper_digits(&ascii),
        python,
        header,
        ascii,
        json,
    ]
}

/// The text between the quotes.
fn json(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let inner = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
}

/// The text with everything else escaped that is not ASCII.
fn ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for char in text.chars() {
        match char.is_ascii() {
            true => ascii.push(char),
            false => ascii += &escaped(char.encode_utf8(&mut [0; 4])),
        }
    }
    ascii
}

/// The digits of escapes in the other case.
fn with_upper_digits(escaped: &str) -> String {
    let mut parts = escaped.split("\\u");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(4).unwrap_or((part, ""));
        text += "\\u";
        text += &digits.to_ascii_uppercase();
        text += rest;
    }
    text
}

/// As in paths, queries and forms.
fn in_urls(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for unescaped in ["", "/"] {
        let upper = percent(secret, unescaped, |byte| format!("%{byte:02X}"));
        let lower = percent(secret, unescaped, |byte| format!("%{byte:02x}"));
        forms.extend([
            upper.replace("%20", "+"),
            lower.replace("%20", "+"),
            upper,
            lower,
        ]);
    }
    forms
}

fn percent(secret: &str, unescaped: &str, escape: impl Fn(u8) -> String) -> String {
    let one = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        byte if unescaped.as_bytes().contains(&byte) => char::from(byte).to_string(),
        byte => escape(byte),
    };
    secret.bytes().map(one).collect()
}

/// As in HTML and XML.
fn in_pages(secret: &str) -> Vec<String> {
    let open = secret
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let quoted = open.replace('"', "&quot;");
    vec![
        quoted.replace('\'', "&#39;"),
        quoted.replace('\'', "&#x27;"),
        quoted,
        open,
    ]
}

/// By itself, and wherever it may be in something that is written in base64 as a whole.
fn in_base64(secret: &str) -> Vec<String> {
    let mut forms = vec![STANDARD.encode(secret), URL_SAFE.encode(secret)];
    for before in 0..3 {
        let shifted = [&b"..."[..before], secret.as_bytes()].concat();
        // Three bytes are four characters; those that have bits of something else are not the secret's.
        let (start, end) = ((before * 8).div_ceil(6), shifted.len() * 8 / 6);
        for encoded in [STANDARD.encode(&shifted), URL_SAFE.encode(&shifted)] {
            forms.extend(
                encoded
                    .get(start..end)
                    .filter(|part| part.len() >= PART_MIN)
                    .map(str::to_owned),
            );
        }
    }
    forms
}

// A text in one line, of characters that are seen.

/// Returns the text with spaces for line ends and everything else that is not seen.
pub(super) fn one_line(text: &str) -> String {
    let words = text.split(|char: char| is_hidden(char) || char.is_whitespace());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}
