//! References to images, as container runtimes read them.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

/// The registry of images that name none.
const DEFAULT_REGISTRY: &str = "docker.io";
/// What the default registry was called once; runtimes still accept it.
const LEGACY_REGISTRY: &str = "index.docker.io";
/// Where the default registry has images of a single word.
const OFFICIAL: &str = "library/";
const DEFAULT_TAG: &str = "latest";

/// A reference to an image, complete: `nginx` is `docker.io/library/nginx:latest`.
///
/// ```
/// use podloom_syntax::ImageRef;
///
/// let mut image: ImageRef = "nginx:1.29".parse()?;
/// assert_eq!(image.registry, "docker.io");
/// assert_eq!(image.repository, "library/nginx");
/// assert_eq!(image.tag.as_deref(), Some("1.29"));
///
/// image.registry = "mirror.example.com".to_owned();
/// assert_eq!(image.to_string(), "mirror.example.com/library/nginx:1.29");
/// # Ok::<(), podloom_syntax::image::InvalidImage>(())
/// ```
///
/// Two references are equal if their four parts are, however short they were written. Hosts are kept as they are written, as
/// runtimes do: compare `registry` without regard to case where it matters, such as in a list of what is forbidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRef {
    /// The host of the registry, with its port if it names one: `docker.io`, `registry.example.com:5000`.
    pub registry: String,
    /// The path in the registry: `library/nginx`.
    pub repository: String,
    /// The tag; `latest` if the text has neither tag nor digest, `None` if it has a digest alone.
    pub tag: Option<String>,
    /// The digest, with its algorithm: `sha256:...`. If there is one, runtimes ignore the tag.
    pub digest: Option<String>,
}

/// A text that names no image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidImage;

impl fmt::Display for InvalidImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is no image: write REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST, the repository in lower case")
    }
}

impl std::error::Error for InvalidImage {}

impl FromStr for ImageRef {
    type Err = InvalidImage;

    fn from_str(text: &str) -> Result<Self, InvalidImage> {
        let (name, digest) = split_once_optional(text, '@');
        let (registry, rest) = split_registry(name);
        let (path, tag) = split_once_optional(rest, ':');
        let is_official = registry == DEFAULT_REGISTRY && !path.contains('/');
        let repository = format!("{}{path}", if is_official { OFFICIAL } else { "" });
        let is_valid = is_registry(registry)
            && is_repository(&repository)
            // Runtimes take it for the identifier of an image.
            && !(text.len() == 64 && text.bytes().all(is_hex))
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest);
        if !is_valid {
            return Err(InvalidImage);
        }
        let default_tag = digest.is_none().then_some(DEFAULT_TAG);
        Ok(Self {
            registry: registry.to_owned(),
            repository,
            tag: tag.or(default_tag).map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.registry)?;
        f.write_str("/")?;
        f.write_str(&self.repository)?;
        for (separator, part) in [(":", &self.tag), ("@", &self.digest)] {
            if let Some(part) = part {
                f.write_str(separator)?;
                f.write_str(part)?;
            }
        }
        Ok(())
    }
}

fn split_once_optional(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

/// Splits a name into its registry and what follows it. The first word is a registry if it cannot be part of a path.
fn split_registry(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some((LEGACY_REGISTRY, rest)) => (DEFAULT_REGISTRY, rest),
        Some((first, rest))
            if first == "localhost"
                || first.contains(['.', ':'])
                || first.contains(char::is_uppercase) =>
        {
            (first, rest)
        }
        _ => (DEFAULT_REGISTRY, name),
    }
}

fn is_registry(text: &str) -> bool {
    let in_brackets = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (is_valid, port) = match in_brackets {
        Some((address, port)) => (is_address(address), port),
        None => {
            let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            (is_host(host), port)
        }
    };
    let is_digits = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    is_valid && (port.is_empty() || port.strip_prefix(':').is_some_and(is_digits))
}

/// Whether this may be an IPv6 address.
fn is_address(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_hexdigit() || byte == b':';
    !text.is_empty() && text.bytes().all(is_inner)
}

fn is_host(host: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    host.split('.').all(|part| {
        !part.is_empty()
            && part.bytes().all(is_inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    })
}

fn is_repository(path: &str) -> bool {
    path.len() <= 255 && path.split('/').all(is_component)
}

/// Whether this is words of lower case letters and digits, between them one `.`, one or two `_`, or any number of `-`.
fn is_component(text: &str) -> bool {
    let mut separator = String::new();
    let mut ends_with_word = false;
    for character in text.chars() {
        ends_with_word = character.is_ascii_lowercase() || character.is_ascii_digit();
        if !ends_with_word {
            separator.push(character);
            continue;
        }
        let is_separator = matches!(separator.as_str(), "" | "." | "_" | "__")
            || separator.bytes().all(|byte| byte == b'-');
        if !is_separator {
            return false;
        }
        separator.clear();
    }
    ends_with_word && !text.starts_with(['.', '_', '-'])
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_inner = |byte: u8| is_word(byte) || matches!(byte, b'.' | b'-');
    tag.len() <= 128 && tag.bytes().next().is_some_and(is_word) && tag.bytes().all(is_inner)
}

fn is_digest(digest: &str) -> bool {
    let (hex, length) = match digest.split_once(':') {
        Some(("sha256", hex)) => (hex, 64),
        Some(("sha384", hex)) => (hex, 96),
        Some(("sha512", hex)) => (hex, 128),
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(is_hex)
}

/// Digests are written in lower case.
fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}
