//! Signatures of chains.
//!
//! What is signed is `chain.yaml`, which names the digest of each plugin's file. So any tool can sign a chain, and the signature
//! covers all of it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use spki::der::DecodePem;
use spki::{ObjectIdentifier, SubjectPublicKeyInfoOwned};

use crate::bundle::{Bundle, SIGNATURE};
use crate::file::sha256;
use crate::manifest::MANIFEST;
use crate::text;

const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// Why a file is no public key. Each message continues a sentence that begins with the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Somebody mounted too much.
    #[error("holds a private key, which only the signer may have; use the public key")]
    Private,
    /// It cannot be read.
    #[error(
        "holds no public key in PEM, which begins with `-----BEGIN PUBLIC KEY-----`; `openssl pkey -in KEY -pubout` and `cosign public-key` write one"
    )]
    NotAKey,
    /// It is of another kind.
    #[error(
        "holds a key of another kind; use ECDSA with P-256, Ed25519, or RSA with at least 2048 bits"
    )]
    Kind,
}

/// Why the signature of a chain does not count. Each message continues a sentence that begins with the directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is no signature.
    #[error(
        "the chain is not signed: there is no {SIGNATURE} beside {MANIFEST}; write one with `openssl dgst -sha256 -sign KEY -out {SIGNATURE} {MANIFEST}` or `cosign sign-blob`"
    )]
    Missing,
    /// None of the keys made it.
    #[error(
        "the signature in {SIGNATURE} is not that of {MANIFEST} by {keys}; sign again after every change of {MANIFEST}"
    )]
    Wrong {
        /// The trusted keys.
        keys: String,
    },
    /// The signature says nothing about these plugins.
    #[error(
        "{MANIFEST} has no `sha256` for {plugins}, so its signature does not cover their files; add the digests that `podloom chain check` shows, and sign again"
    )]
    NotPinned {
        /// The plugins.
        plugins: String,
    },
    /// A file is another one than when the manifest was signed.
    #[error(
        "{MANIFEST}:{line}: plugin {plugin} names the sha256 {pinned}, but its file has {found}"
    )]
    OtherFile {
        /// The plugin.
        plugin: String,
        /// The line of the manifest that lists it.
        line: u64,
        /// The digest in the manifest.
        pinned: String,
        /// The digest of the file.
        found: String,
    },
}

/// Public keys whose owners may sign chains.
#[derive(Clone, Debug, Default)]
pub struct Signers(Vec<PublicKey>);

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    kind: Kind,
    key: Vec<u8>,
    /// The SHA-256 digest of the key with its kind, in hexadecimal: how people compare keys.
    pub fingerprint: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    P256,
    Ed25519,
    Rsa,
}

impl Kind {
    fn algorithm(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::P256 => &signature::ECDSA_P256_SHA256_ASN1,
            Self::Ed25519 => &signature::ED25519,
            Self::Rsa => &signature::RSA_PKCS1_2048_8192_SHA256,
        }
    }
}

impl PublicKey {
    /// Reads a key from a PEM file, as openssl and cosign write it.
    ///
    /// # Errors
    ///
    /// Fails if the text is no public key, or one of a kind that is not supported.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let text = str::from_utf8(pem).map_err(|_| KeyError::NotAKey)?.trim();
        if text.contains("PRIVATE KEY") {
            return Err(KeyError::Private);
        }
        let info = SubjectPublicKeyInfoOwned::from_pem(text).map_err(|_| KeyError::NotAKey)?;
        let curve = || {
            let parameters = info.algorithm.parameters.as_ref()?;
            parameters.decode_as::<ObjectIdentifier>().ok()
        };
        let kind = match info.algorithm.oid {
            EC if curve() == Some(P256) => Kind::P256,
            ED25519 => Kind::Ed25519,
            RSA => Kind::Rsa,
            _ => return Err(KeyError::Kind),
        };
        let key = info
            .subject_public_key
            .as_bytes()
            .ok_or(KeyError::NotAKey)?;
        let der = spki::der::Encode::to_der(&info).map_err(|_| KeyError::NotAKey)?;
        Ok(Self {
            kind,
            key: key.to_vec(),
            fingerprint: sha256(&der),
        })
    }

    fn made(&self, signature: &[u8], message: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(self.kind.algorithm(), &self.key);
        key.verify(message, signature).is_ok()
    }
}

impl FromIterator<PublicKey> for Signers {
    fn from_iter<T: IntoIterator<Item = PublicKey>>(keys: T) -> Self {
        Self(keys.into_iter().collect())
    }
}

impl Signers {
    /// Checks that one of the keys signed the manifest of a bundle, and that the bundle has the files that the manifest names.
    ///
    /// Returns the key.
    ///
    /// # Errors
    ///
    /// Fails if there is no signature, if none of the keys made it, if the manifest names no digest for a plugin, or another one.
    pub fn check(&self, bundle: &Bundle) -> Result<&PublicKey, SignatureError> {
        let signature = bundle.signature().ok_or(SignatureError::Missing)?;
        let signature = decoded(signature);
        let signer = self
            .0
            .iter()
            .find(|key| key.made(&signature, bundle.manifest()))
            .ok_or_else(|| SignatureError::Wrong { keys: self.named() })?;
        let entries = &bundle.manifest.plugins;
        let unpinned = entries.iter().filter(|entry| entry.sha256.is_none());
        let unpinned: Vec<&str> = unpinned.map(|entry| entry.name.value.0.as_str()).collect();
        if !unpinned.is_empty() {
            return Err(SignatureError::NotPinned {
                plugins: text::list(&unpinned),
            });
        }
        for entry in entries {
            let file = bundle.files.get(&entry.file);
            let found = sha256(file.map(|file| &**file).unwrap_or_default());
            if let Some(pinned) = entry.sha256.as_ref().filter(|pinned| pinned.0 != found) {
                return Err(SignatureError::OtherFile {
                    plugin: entry.name.value.0.clone(),
                    line: entry.line(),
                    pinned: pinned.0.clone(),
                    found,
                });
            }
        }
        Ok(signer)
    }

    fn named(&self) -> String {
        let keys: Vec<&str> = self.0.iter().map(|key| key.fingerprint.as_str()).collect();
        let which = if keys.len() == 1 {
            "the key"
        } else {
            "any of the keys"
        };
        format!("{which} {}", text::list(&keys))
    }
}

/// openssl writes bytes, cosign base64. The bytes of a signature are never all letters.
fn decoded(file: &[u8]) -> Vec<u8> {
    let text = file.trim_ascii();
    BASE64_STANDARD
        .decode(text)
        .unwrap_or_else(|_| file.to_vec())
}

#[cfg(test)]
mod tests;
