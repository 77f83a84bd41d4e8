//! What earlier runs injected: the annotation that says which parts of a pod are ours.

use podloom_plugin_sdk::{Error, Pod, json};

use crate::config::{Config, Position};
use crate::json::{Object, quote, strings};
use crate::text::note;
use crate::view::View;

/// The annotation's key.
const KEY: &str = "sidecar.podloom.dev/injected";
pub(crate) const INJECTED: &str = "/metadata/annotations/sidecar.podloom.dev~1injected";

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the annotation says.
///
/// A container that is ours is left as it is while version and hash are the same: later plugins, webhooks and API defaults may
/// have changed it, and that is no drift.
#[derive(Debug, Default)]
pub(crate) struct Record<'c> {
    /// Whether it was injected by this version with this configuration.
    pub(crate) is_current: bool,
    /// Paths of what was injected, in order.
    pub(crate) paths: Vec<String>,
    /// The annotation as it is, if it is there.
    text: Option<String>,
    hash: &'c str,
}

impl<'c> Record<'c> {
    pub(crate) fn read(config: &'c Config, view: &View) -> Self {
        let hash = config.prepared.hash.as_str();
        let Some(text) = view.annotations.get(KEY) else {
            return Self {
                hash,
                ..Self::default()
            };
        };
        let annotation: String = json::from_str(text).unwrap_or_default();
        let fields = Object::parse(&annotation).unwrap_or_default();
        let paths = fields.get("paths").and_then(strings);
        if paths.is_none() {
            note(&[
                "the annotation sidecar.podloom.dev/injected is not one of ours, so nothing in the pod counts as injected",
            ]);
        }
        Self {
            is_current: fields.string("hash") == hash && fields.string("version") == VERSION,
            paths: paths.unwrap_or_default(),
            text: Some(annotation),
            hash,
        }
    }

    #[inline(never)]
    pub(crate) fn has(&self, path: &str) -> bool {
        self.paths.iter().any(|known| known == path)
    }

    /// What is ours inside the element of this path, though the element is not.
    pub(crate) fn inside(&self, path: &str) -> impl Iterator<Item = &String> {
        self.paths.iter().filter(move |known| {
            known
                .strip_prefix(path)
                .is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// Writes what is ours now.
    pub(crate) fn write(&self, pod: &Pod, paths: &[String]) -> Result<(), Error> {
        if paths.is_empty() {
            if self.text.is_some() {
                pod.remove(INJECTED)?;
            }
            return Ok(());
        }
        let mut list = String::new();
        for path in paths {
            list.push_str(if list.is_empty() { "" } else { "," });
            list.push_str(&quote(path));
        }
        let text = [
            "{\"version\":\"",
            VERSION,
            "\",\"hash\":\"",
            self.hash,
            "\",\"paths\":[",
            &list,
            "]}",
        ]
        .concat();
        if self.text.as_deref() == Some(&text) {
            return Ok(());
        }
        pod.set_json(INJECTED, &quote(&text))
    }
}

/// A fingerprint of what is injected, not of the rules that say where.
pub(crate) fn hash(config: &Config) -> String {
    let mut hash = Fnv::new();
    hash.byte(config.os as u8);
    for sidecar in &config.containers {
        hash.object(&sidecar.container);
        hash.byte(sidecar.placement as u8);
        hash.byte(u8::from(sidecar.restricted));
        match &sidecar.position {
            None => hash.byte(0),
            Some(Position::First) => hash.byte(1),
            Some(Position::Last) => hash.byte(2),
            Some(Position::Before(name)) => hash.text(name),
            Some(Position::After(name)) => {
                hash.byte(3);
                hash.text(name);
            }
        }
        if let Some(token) = &sidecar.token {
            hash.text(&token.mount_path);
            hash.text(&token.audience);
            for byte in token.expiration_seconds.to_le_bytes() {
                hash.byte(byte);
            }
        }
    }
    let additions = &config.add_to_containers;
    for objects in [
        &config.volumes,
        &config.image_pull_secrets,
        &additions.env,
        &additions.volume_mounts,
    ] {
        hash.byte(b'[');
        objects.iter().for_each(|object| hash.object(object));
    }
    additions.names.iter().for_each(|name| hash.text(name));
    hash.hex()
}

/// In the manner of FNV-1a, with 64 bits: not against forgery, only to see a change.
struct Fnv(u64);

impl Fnv {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn byte(&mut self, byte: u8) {
        self.word(u64::from(byte));
    }

    /// Eight bytes at once: what falls out at the upper end of the product is turned in again.
    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word)
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(23);
    }

    /// A text and an end that no text contains, so that neighbours are kept apart.
    #[inline(never)]
    fn text(&mut self, text: &str) {
        let (words, rest) = text.as_bytes().as_chunks();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        rest.iter().for_each(|byte| self.byte(*byte));
        self.byte(0xff);
    }

    #[inline(never)]
    fn object(&mut self, object: &Object) {
        for (key, value) in object.fields() {
            self.text(key);
            self.text(value);
        }
        self.byte(b'}');
    }

    fn hex(&self) -> String {
        let mut text = String::with_capacity(16);
        for byte in self.0.to_be_bytes() {
            for digit in [byte >> 4, byte & 15] {
                let start = if digit < 10 { b'0' } else { b'a' - 10 };
                text.push(char::from(start + digit));
            }
        }
        text
    }
}
