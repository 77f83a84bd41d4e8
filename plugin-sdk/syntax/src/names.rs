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
const BAD_PORT: &str = "is no port name: 1 to 15 lower case letters, digits and `-`, at least one of them a letter, \
    without `-` at an end or twice in a row";
const BAD_ENV_NAME: &str =
    "is no name of an environment variable: printable ASCII characters without `=`";
const BAD_CONFIG_KEY: &str = "is no key of a ConfigMap or Secret: 1 to 253 letters, digits, `-`, `_` and `.`, \
    not `.` and without `..` at the start";
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
    let is_letter = |byte: u8| byte.is_ascii_alphabetic();
    if key.is_ascii() {
        return qualified(key, is_letter);
    }
    // The API server checks the key in lower case, which makes ASCII letters of these two.
    qualified(
        &key.replace('\u{212A}', "k").replace('\u{130}', "i"),
        is_letter,
    )
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

/// Checks the name of a port: of a container's, or one that a probe refers to.
///
/// # Errors
///
/// What is wrong with it, as the end of a sentence.
pub fn port_name(name: &str) -> Result<(), &'static str> {
    let is_valid = name.len() <= 15
        && is_part(name, |byte| byte.is_ascii_lowercase())
        && name.bytes().any(|byte| byte.is_ascii_lowercase())
        && !name.contains("--");
    is_valid.then_some(()).ok_or(BAD_PORT)
}

/// Checks the name of an environment variable, as Kubernetes has accepted it since 1.32.
///
/// # Errors
///
/// What is wrong with it, as the end of a sentence.
pub fn env_name(name: &str) -> Result<(), &'static str> {
    let is_inner = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
    let is_valid = !name.is_empty() && name.bytes().all(is_inner);
    is_valid.then_some(()).ok_or(BAD_ENV_NAME)
}

/// Checks a key in a ConfigMap or Secret.
///
/// # Errors
///
/// What is wrong with it, as the end of a sentence.
pub fn config_key(key: &str) -> Result<(), &'static str> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_valid = (1..=253).contains(&key.len())
        && key.bytes().all(is_inner)
        && key != "."
        && !key.starts_with("..");
    is_valid.then_some(()).ok_or(BAD_CONFIG_KEY)
}

/// Checks a name with an optional prefix; `is_letter` says which letters the prefix may have.
fn qualified(key: &str, is_letter: fn(u8) -> bool) -> Result<(), &'static str> {
    if key.contains("~1") {
        return Err("has `~1`, which stands for `/` in paths alone: write `/`");
    }
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
