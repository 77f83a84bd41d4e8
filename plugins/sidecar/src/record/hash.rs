//! A fingerprint of what is injected.

use podloom_plugin_sdk::json::Object;

use crate::config::{Config, Position};

/// A fingerprint of what is injected, not of the rules that say where.
///
/// Where it changes, every pod is updated that has something injected: so no part changes its place here, and no enum its order.
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
    format!("{:016x}", hash.0)
}

/// A short fingerprint of a text, for a name that is cut.
pub(crate) fn of_text(text: &str) -> String {
    let mut hash = Fnv::new();
    hash.text(text);
    let hash = hash.0 ^ (hash.0 >> 32);
    format!("{:08x}", hash & 0xffff_ffff)
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
    fn text(&mut self, text: &str) {
        let (words, rest) = text.as_bytes().as_chunks();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        rest.iter().for_each(|byte| self.byte(*byte));
        self.byte(0xff);
    }

    fn object(&mut self, object: &Object) {
        for (key, value) in object.fields() {
            self.text(key);
            self.text(&value.to_json());
        }
        self.byte(b'}');
    }
}
