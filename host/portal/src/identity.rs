//! The identity of a tunnel: the key that relays reserve its hostname for.
//!
//! A relay reserves a hostname for its newest key, for days after the tunnel is gone. So the key is kept in a Secret, and a tunnel that
//! loses it is locked out of its own hostname. Nothing here shows key material: not in errors, and not with `Debug`.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use podloom_api::names::portal::{IDENTITY_KEY, annotation};
use podloom_api::{IdentityPolicy, PortalExposeObject};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::deployment::{annotation_of, has_labels};
use super::naming;

/// A secp256k1 key is greater than zero and less than this, the order of the curve.
const CURVE_ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
    0xba, 0xae, 0xdc, 0xe6, 0xaf, 0x48, 0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41,
];
/// What is hashed before a key to make its token secret.
const TOKEN_SALT: &[u8] = b"portal.gosuda.org/token-secret\0";

const NAME: &str = "name";
const PRIVATE_KEY: &str = "private_key";
const TOKEN_SECRET: &str = "token_secret";

/// The identity of a tunnel, as the tunnel client reads it.
///
/// Its bytes are not overwritten in memory after use: they go through JSON and requests, which would keep copies all the same.
#[derive(Clone, PartialEq)]
pub(crate) struct Identity {
    name: String,
    private_key: [u8; 32],
    token_secret: String,
    /// What users wrote besides, such as the address that belongs to the key.
    others: Map<String, Value>,
}

impl fmt::Debug for Identity {
    /// Shows the name alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why a Secret has no usable identity, or gets none. The display is a sentence about the Secret's entry, without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IdentityProblem {
    /// The Secret has no such entry.
    #[error("{IDENTITY_KEY} is missing")]
    Missing,
    /// It is no JSON object.
    #[error("{IDENTITY_KEY} is no JSON object")]
    NoObject,
    /// A field is missing, or is no text.
    #[error("{IDENTITY_KEY} needs a text in the field {0}")]
    NoText(&'static str),
    /// The key is no key.
    #[error("{PRIVATE_KEY} in {IDENTITY_KEY} is no secp256k1 key, which has 64 hex digits")]
    NoKey,
    /// No key can be made.
    #[error("the operating system gives no random numbers")]
    NoRandomness,
}

impl Identity {
    /// Makes a new identity. The key comes from the operating system's random numbers.
    pub(crate) fn generate(name: &str) -> Result<Self, IdentityProblem> {
        let random = rustls::crypto::ring::default_provider().secure_random;
        Self::from_random(name, |bytes| {
            random
                .fill(bytes)
                .map_err(|_| IdentityProblem::NoRandomness)
        })
    }

    fn from_random(
        name: &str,
        mut fill: impl FnMut(&mut [u8]) -> Result<(), IdentityProblem>,
    ) -> Result<Self, IdentityProblem> {
        let mut private_key = [0; 32];
        // One number in 2^128 is no key.
        while !is_key(&private_key) {
            fill(&mut private_key)?;
        }
        let mut token_secret = [0; 32];
        fill(&mut token_secret)?;
        Ok(Self {
            name: name.to_owned(),
            private_key,
            token_secret: URL_SAFE_NO_PAD.encode(token_secret),
            others: Map::new(),
        })
    }

    /// Reads an identity that we, the tunnel client or a user wrote.
    ///
    /// The token secret may be missing: it is then made from the key, so that it is the same each time.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, IdentityProblem> {
        let mut others: Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|_| IdentityProblem::NoObject)?;
        let mut text = |field| match others.remove(field) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.trim().to_owned()),
            Some(_) => Err(IdentityProblem::NoText(field)),
        };
        let name = text(NAME)?;
        let private_key = match text(PRIVATE_KEY)? {
            key if key.is_empty() => return Err(IdentityProblem::NoText(PRIVATE_KEY)),
            key => read_key(&key).ok_or(IdentityProblem::NoKey)?,
        };
        let token_secret = match text(TOKEN_SECRET)? {
            secret if secret.is_empty() => derived_token_secret(&private_key),
            secret => secret,
        };
        Ok(Self {
            name,
            private_key,
            token_secret,
            others,
        })
    }

    /// Returns the identity for an application of another name; the key stays.
    #[must_use]
    pub(crate) fn named(self, app: &str) -> Self {
        Self {
            name: app.to_owned(),
            ..self
        }
    }

    /// Returns the canonical JSON of the identity: what the Secret should contain.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut fields = self.others.clone();
        fields.insert(NAME.to_owned(), self.name.as_str().into());
        fields.insert(
            PRIVATE_KEY.to_owned(),
            naming::hex(&self.private_key).into(),
        );
        fields.insert(TOKEN_SECRET.to_owned(), self.token_secret.as_str().into());
        Value::Object(fields).to_string().into_bytes()
    }
}

/// Returns the hash of an identity in a Secret, which a pod template has, so that a new identity rolls the Deployment.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    naming::sha256(bytes)
}

/// Returns a new Secret with the identity of a PortalExpose.
///
/// Only with the policy Delete it has an owner, so that garbage collection deletes it. That owner is no controller: the Secret is not
/// rendered from the spec, and users may have made it.
pub(crate) fn secret(expose: &PortalExposeObject, identity: &Identity) -> Secret {
    let metadata = &expose.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let identity_for = (annotation::IDENTITY_FOR.to_owned(), name.to_owned());
    Secret {
        metadata: ObjectMeta {
            name: Some(naming::secret_name(name)),
            namespace: metadata.namespace.clone(),
            labels: Some(naming::labels(name)),
            annotations: Some(BTreeMap::from([identity_for])),
            owner_references: owner(expose).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(
            IDENTITY_KEY.to_owned(),
            ByteString(identity.to_json()),
        )])),
        ..Secret::default()
    }
}

/// Returns the owner that the Secret should have; none if it stays when the PortalExpose is deleted.
pub(crate) fn owner(expose: &PortalExposeObject) -> Option<OwnerReference> {
    match expose.spec.identity_policy {
        IdentityPolicy::Retain => None,
        IdentityPolicy::Delete => naming::owner(&expose.metadata),
    }
}

/// Returns whether a Secret has the identity of the PortalExpose of this name: by its labels, and by its annotation if it has one.
pub(crate) fn is_ours(secret: &ObjectMeta, expose_name: &str) -> bool {
    let meant = annotation_of(secret, annotation::IDENTITY_FOR);
    has_labels(secret, expose_name) && meant.is_none_or(|name| name == expose_name)
}

/// A key in hex, with or without the prefix that the tunnel client allows.
fn read_key(text: &str) -> Option<[u8; 32]> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let digits = digits.unwrap_or(text).as_bytes();
    let mut key = [0; 32];
    if digits.len() != 2 * key.len() {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        for digit in pair {
            let value = char::from(*digit).to_digit(16)?;
            *byte = *byte << 4 | u8::try_from(value).ok()?;
        }
    }
    Some(key).filter(is_key)
}

fn is_key(bytes: &[u8; 32]) -> bool {
    // Numbers with the highest byte first compare as their bytes do.
    *bytes != [0; 32] && *bytes < CURVE_ORDER
}

/// The token secret of an identity that has none. Nobody can compute it without the key.
fn derived_token_secret(private_key: &[u8; 32]) -> String {
    let hash = Sha256::new().chain_update(TOKEN_SALT);
    URL_SAFE_NO_PAD.encode(hash.chain_update(private_key).finalize())
}

#[cfg(test)]
mod tests;
