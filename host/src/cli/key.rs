//! Options that name the file of a public key.

use podloom_mutators::PublicKey;

/// Reads a public key, for an option that names its file.
pub(super) fn public_key(path: &str) -> Result<PublicKey, String> {
    let pem = std::fs::read(path).map_err(|error| error.to_string())?;
    PublicKey::from_pem(&pem).map_err(|error| format!("the file {error}"))
}
