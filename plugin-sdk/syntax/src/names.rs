//! Names, and the keys and values of labels and annotations, as the API server accepts them.
//!
//! Each function returns what is wrong as the end of a sentence that begins with the text, so that the caller says whose it is:
//!
//! ```
//! use podloom_syntax::names;
//!
//! let key = "team/";
//! let error = names::label_key(key).map_err(|problem| format!("label {key} {problem}"));
//! let expected = "label team/ has a name that is not 1 to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
//! assert_eq!(error, Err(expected.to_owned()));
//! ```

#[cfg(test)]
mod tests;

const BAD_PREFIX: &str =
    "has a prefix that is no DNS subdomain (lower case letters, digits, `-` and `.`, at most 253)";
const BAD_NAME: &str = "has a name that is not 1 to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
const BAD_VALUE: &str =
    "is not at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
const BAD_LABEL: &str =
    "is not 1 to 63 lower case letters, digits and `-`, with a letter or digit at both ends";
const BAD_SUBDOMAIN: &str = "is not at most 253 lower case letters, digits, `-` and `.`, \
    with a letter or digit at both ends of each part";

/// Checks the key of a label: `team` or `example.com/team`.
///
/// # Errors
///
/// What is wrong with it, as the end of a sentence.
pub fn label_key(key: &str) -> Result<(), &'static str> {
    qualified(key, |byte| byte.is_ascii_lowercase())
}

/// Checks the key of an annotation. Unlike a label's, its prefix may have capitals.
///
/// # Errors
///
/// What is wrong with it, as the end of a sentence.
pub fn annotation_key(key: &str) -> Result<(), &'static str> {
    qualified(key, |byte| byte.is_ascii_alphabetic())
}

/// Checks the value of a label. It may be empty. The value of an annotation may be anything.
///
/// # Errors
///
/// What is wrong with it, as the end of a sentence.
pub fn label_value(value: &str) -> Result<(), &'static str> {
    let is_valid = value.is_empty() || is_word(value);
    is_valid.then_some(()).ok_or(BAD_VALUE)
}

/// Checks a DNS label: the name of a container, a volume or a namespace. (Before Kubernetes 1.36, a Service's must also begin with a letter.)
///
/// # Errors
///
/// What is wrong with it, as the end of a sentence.
pub fn dns_label(name: &str) -> Result<(), &'static str> {
    let is_valid = name.len() <= 63 && is_part(name, |byte| byte.is_ascii_lowercase());
    is_valid.then_some(()).ok_or(BAD_LABEL)
}

/// Checks a DNS subdomain: the name of a pod and of most other objects.
///
/// # Errors
///
/// What is wrong with it, as the end of a sentence.
pub fn dns_subdomain(name: &str) -> Result<(), &'static str> {
    let is_valid = is_subdomain(name, |byte| byte.is_ascii_lowercase());
    is_valid.then_some(()).ok_or(BAD_SUBDOMAIN)
}

/// Checks a name with an optional prefix; `is_letter` says which letters the prefix may have.
fn qualified(key: &str, is_letter: fn(u8) -> bool) -> Result<(), &'static str> {
    let name = match key.split_once('/') {
        Some((prefix, _)) if !is_subdomain(prefix, is_letter) => return Err(BAD_PREFIX),
        Some((_, name)) => name,
        None => key,
    };
    is_word(name).then_some(()).ok_or(BAD_NAME)
}

fn is_word(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.len() <= 63 && text.bytes().all(is_inner) && has_alphanumeric_ends(text)
}

fn is_subdomain(text: &str, is_letter: fn(u8) -> bool) -> bool {
    text.len() <= 253 && text.split('.').all(|part| is_part(part, is_letter))
}

/// Whether a text may stand between the dots of a subdomain. Its length is limited only by the whole.
fn is_part(text: &str, is_letter: fn(u8) -> bool) -> bool {
    let is_inner = |byte: u8| is_letter(byte) || byte.is_ascii_digit() || byte == b'-';
    text.bytes().all(is_inner) && has_alphanumeric_ends(text)
}

/// Whether a text is not empty and has a letter or digit at both ends.
fn has_alphanumeric_ends(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    is_end(text.as_bytes().first()) && is_end(text.as_bytes().last())
}
