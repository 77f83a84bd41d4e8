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
use crate::manifest::{MANIFEST, Sha256};
use crate::text;

const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

const PRIVATE: &str = "holds a private key, which only the signer may have; use the public key";
const NOT_A_KEY: &str = "holds no public key in PEM, which begins with `-----BEGIN PUBLIC KEY-----`; `openssl pkey -in KEY -pubout` and `cosign public-key` write one";
const OTHER_KIND: &str =
    "holds a key of another kind; use ECDSA with P-256, Ed25519, or RSA with at least 2048 bits";

/// Public keys whose owners may sign chains.
#[derive(Clone, Debug, Default)]
pub struct Signers(Vec<PublicKey>);

/// A public key.
#[derive(Clone, Debug)]
pub struct PublicKey {
    algorithm: &'static dyn VerificationAlgorithm,
    key: Vec<u8>,
    /// The SHA-256 digest of the key with its kind, in hexadecimal: how people compare keys.
    pub fingerprint: String,
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl PublicKey {
    /// Reads a key from a PEM file, as openssl and cosign write it.
    ///
    /// # Errors
    ///
    /// If the text is no public key, or one of a kind that is not supported. The message continues a sentence that begins with the file.
    pub fn from_pem(pem: &[u8]) -> Result<Self, &'static str> {
        let text = str::from_utf8(pem).map_err(|_| NOT_A_KEY)?.trim();
        if text.contains("PRIVATE KEY") {
            return Err(PRIVATE);
        }
        let info = SubjectPublicKeyInfoOwned::from_pem(text).map_err(|_| NOT_A_KEY)?;
        let curve = || {
            let parameters = info.algorithm.parameters.as_ref()?;
            parameters.decode_as::<ObjectIdentifier>().ok()
        };
        let algorithm: &dyn VerificationAlgorithm = match info.algorithm.oid {
            EC if curve() == Some(P256) => &signature::ECDSA_P256_SHA256_ASN1,
            ED25519 => &signature::ED25519,
            RSA => &signature::RSA_PKCS1_2048_8192_SHA256,
            _ => return Err(OTHER_KIND),
        };
        let key = info.subject_public_key.as_bytes().ok_or(NOT_A_KEY)?;
        let der = spki::der::Encode::to_der(&info).map_err(|_| NOT_A_KEY)?;
        Ok(Self {
            algorithm,
            key: key.to_vec(),
            fingerprint: sha256(&der),
        })
    }

    fn made(&self, signature: &[u8], message: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(self.algorithm, &self.key);
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
    /// If there is no signature, if none of the keys made it, if the manifest names no digest for a plugin, or another one. The message
    /// continues a sentence that begins with the directory.
    pub fn check(&self, bundle: &Bundle) -> Result<&PublicKey, String> {
        let signature = bundle.signature().ok_or_else(|| {
            format!("the chain is not signed: there is no {SIGNATURE} beside {MANIFEST}; write one with `openssl dgst -sha256 -sign KEY -out {SIGNATURE} {MANIFEST}` or `cosign sign-blob`")
        })?;
        let signature = decoded(signature);
        let signer = self
            .0
            .iter()
            .find(|key| key.made(&signature, bundle.manifest()))
            .ok_or_else(|| {
                let keys = self.named();
                format!("the signature in {SIGNATURE} is not that of {MANIFEST} by {keys}; sign again after every change of {MANIFEST}")
            })?;
        let entries = &bundle.manifest.plugins;
        let unpinned = entries.iter().filter(|entry| entry.sha256.is_none());
        let unpinned: Vec<&str> = unpinned.map(|entry| entry.name.value.0.as_str()).collect();
        if !unpinned.is_empty() {
            let plugins = text::list(&unpinned);
            return Err(format!(
                "{MANIFEST} has no `sha256` for {plugins}, so its signature does not cover their files; add the digests that `podloom chain check` shows, and sign again"
            ));
        }
        for entry in entries {
            let file = bundle.files.get(&entry.file);
            let found = sha256(file.map(|file| &**file).unwrap_or_default());
            if let Some(Sha256(pinned)) = entry.sha256.as_ref().filter(|pinned| pinned.0 != found) {
                let (line, plugin) = (entry.line(), &entry.name.value.0);
                return Err(format!(
                    "{MANIFEST}:{line}: plugin {plugin} names the sha256 {pinned}, but its file has {found}"
                ));
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
