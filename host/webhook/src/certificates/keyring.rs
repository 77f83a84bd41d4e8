//! The content of the Secret: authorities, the key of the first one, and the server certificate with its key.
//!
//! Each part is read by itself, so that what is left of a damaged Secret can still be used.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use podloom_controllers::outbound::Pem;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::certificate::{Certificate, parse_all};
use super::sign::{Pair, certificates_pem, key_pem};

/// The keys of the Secret's data.
pub(super) const CA_CERTIFICATES: &str = "ca.crt";
pub(super) const CA_KEY: &str = "ca.key";
pub(super) const CERTIFICATE: &str = "tls.crt";
pub(super) const KEY: &str = "tls.key";

/// The largest field that is read, in bytes. Ours have less than 4 KiB.
const FIELD_MAX: usize = 64 * 1024;
/// How many certificates of ca.crt are looked at.
pub(super) const AUTHORITIES_READ: usize = 16;

/// The data of a Secret.
pub(super) type Fields = BTreeMap<String, ByteString>;

/// What a Secret contains, as far as it is usable. Dates are not checked.
pub(super) struct Keyring {
    /// Our authorities in ca.crt; the first one signs.
    pub(super) authorities: Vec<Certificate>,
    /// The key of the first authority, or why it cannot be used.
    pub(super) signing: Result<PrivateKeyDer<'static>, String>,
    /// The server certificate, or why it cannot be used.
    pub(super) serving: Result<Serving, String>,
    /// Whether ca.crt is exactly the text that we would write.
    pub(super) is_tidy: bool,
}

/// A server certificate with its key, which fits, and the authority that signed it.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) pair: Pair,
    pub(super) authority: Certificate,
}

impl Keyring {
    pub(super) fn read(fields: &Fields) -> Self {
        let text = fields
            .get(CA_CERTIFICATES)
            .map_or(&[] as &[u8], |text| &text.0);
        // A text that is too large is cut in the middle of a block, which is then left out.
        let readable = text.get(..FIELD_MAX).unwrap_or(text);
        let mut authorities: Vec<Certificate> = Vec::new();
        for found in parse_all(readable, AUTHORITIES_READ) {
            if found.is_our_authority && !authorities.contains(&found) {
                authorities.push(found);
            }
        }
        Self {
            signing: signing(fields, authorities.first()),
            serving: serving(fields, &authorities),
            is_tidy: text == certificates_pem(authorities.iter()).as_bytes(),
            authorities,
        }
    }
}

/// The four fields of the Secret for a keyring.
pub(super) fn fields(
    authorities: &[Certificate],
    signing: &PrivateKeyDer<'_>,
    serving: &Pair,
) -> Fields {
    let leaf = certificates_pem(std::iter::once(&serving.certificate));
    let fields = [
        (CA_CERTIFICATES, certificates_pem(authorities.iter())),
        (CA_KEY, key_pem(signing)),
        (CERTIFICATE, leaf),
        (KEY, key_pem(&serving.key)),
    ];
    let encoded = fields.map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes())));
    encoded.into()
}

fn signing(
    fields: &Fields,
    authority: Option<&Certificate>,
) -> Result<PrivateKeyDer<'static>, String> {
    let authority =
        authority.ok_or_else(|| format!("{CA_CERTIFICATES} has no authority that podloom made"))?;
    let key = key(fields, CA_KEY)?;
    if authority.fits(&key) {
        Ok(key)
    } else {
        Err(format!(
            "{CA_KEY} is not the key of the first certificate in {CA_CERTIFICATES}"
        ))
    }
}

fn serving(fields: &Fields, authorities: &[Certificate]) -> Result<Serving, String> {
    let chain = field(fields, CERTIFICATE)?.certificates();
    let chain = chain.map_err(|error| error.to_string())?;
    let leaf = chain.into_iter().next().map(CertificateDer::into_owned);
    let leaf = leaf.ok_or_else(|| format!("{CERTIFICATE} is empty"))?;
    let certificate =
        Certificate::parse(leaf).map_err(|error| format!("{CERTIFICATE}: {error}"))?;
    let key = key(fields, KEY)?;
    if !certificate.fits(&key) {
        return Err(format!("{KEY} is not the key of {CERTIFICATE}"));
    }
    let authority = authorities
        .iter()
        .find(|authority| certificate.is_signed_by(authority))
        .ok_or_else(|| format!("no authority in {CA_CERTIFICATES} signed {CERTIFICATE}"))?;
    Ok(Serving {
        authority: authority.clone(),
        pair: Pair { certificate, key },
    })
}

fn key(fields: &Fields, name: &'static str) -> Result<PrivateKeyDer<'static>, String> {
    field(fields, name)?
        .key()
        .map_err(|error| error.to_string())
}

fn field(fields: &Fields, name: &'static str) -> Result<Pem, String> {
    let text = fields
        .get(name)
        .filter(|text| !text.0.is_empty())
        .ok_or_else(|| format!("{name} is missing"))?;
    if text.0.len() > FIELD_MAX {
        return Err(format!("{name} is larger than {FIELD_MAX} bytes"));
    }
    Pem::new(name.to_owned(), text.0.clone()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
