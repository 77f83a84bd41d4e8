//! Hides secrets in texts of IM, which repeats in errors and logs what it was sent, in many forms.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::call::Call;
use super::header::escaped;
use super::line::one_line;
use super::target::{Owner, Target};

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
