//! The Secret: authorities, the key of the first one, and the server certificate with its key.
//!
//! Each part is read by itself, so that what is left of a damaged Secret can still be used.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use podloom_controllers::outbound::Pem;
use rustls::pki_types::PrivateKeyDer;

use super::x509::{Certificate, Pair, TEXT_MAX, our_authorities};
use super::x509::{certificates_pem, key_pem};

/// Marks a Secret as ours.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "podloom");
/// The types of Secrets that can hold our keys.
const TYPES: [&str; 2] = ["Opaque", "kubernetes.io/tls"];

/// The keys of the Secret's data.
const CA_CERTIFICATES: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// The data of a Secret.
pub(super) type Fields = BTreeMap<String, ByteString>;

/// A Secret that we may write, as far as it is usable. Dates are not checked. It has no `Debug`, since that would show its keys.
pub(super) struct OurSecret {
    /// As it was read, with everything that is not ours; none if it does not exist.
    pub(super) stored: Option<Secret>,
    /// Our authorities in ca.crt; the first one signs.
    pub(super) authorities: Vec<Certificate>,
    /// The key of the first authority, or why it cannot be used.
    pub(super) signing: Result<PrivateKeyDer<'static>, String>,
    /// The server certificate, or why it cannot be used.
    pub(super) serving: Result<Serving, String>,
    /// Whether ca.crt is exactly the text that we would write, and the label is there.
    pub(super) is_tidy: bool,
}

/// A server certificate with its key, which fits, and the authority that signed it.
pub(super) struct Serving {
    pub(super) pair: Pair,
    pub(super) authority: Certificate,
}

impl OurSecret {
    /// Reads what is stored. An error says why it is not ours, so that it is neither used nor changed.
    ///
    /// A Secret with our label is ours, whatever is in it. One without it may be another program's that got the same name, perhaps
    /// cert-manager's: its key would be lost if we wrote, and the two programs would overwrite each other for ever. An empty one is
    /// taken: somebody created it so that we need no right to create Secrets.
    pub(super) fn read(stored: Option<Secret>) -> Result<Self, String> {
        let (missing, nothing) = (Secret::default(), Fields::new());
        let secret = stored.as_ref().unwrap_or(&missing);
        let kind = secret.type_.as_deref().unwrap_or("Opaque");
        if !TYPES.contains(&kind) {
            return Err(format!(
                "its type is {kind}; delete it, or choose another name"
            ));
        }
        let ((label, value), labels) = (MANAGED_BY, secret.metadata.labels.as_ref());
        let found = labels.and_then(|labels| labels.get(label));
        let is_labelled = found.is_some_and(|found| found == value);
        let fields = secret.data.as_ref().unwrap_or(&nothing);
        if !is_labelled && fields.values().any(|value| !value.0.is_empty()) {
            return Err(format!(
                "it has data but not the label {label}: {value}, so another program may own it; delete it, or choose another name"
            ));
        }
        let text = fields
            .get(CA_CERTIFICATES)
            .map_or(&[] as &[u8], |text| &text.0);
        let authorities = our_authorities(text);
        Ok(Self {
            signing: signing(fields, authorities.first()),
            serving: serving(fields, &authorities),
            is_tidy: is_labelled && text == certificates_pem(&authorities).as_bytes(),
            authorities,
            stored,
        })
    }

    /// Whether it was never written.
    pub(super) fn is_empty(&self) -> bool {
        let fields = self.stored.as_ref().and_then(|stored| stored.data.as_ref());
        let ours = [CA_CERTIFICATES, CA_KEY, CERTIFICATE, KEY];
        let is_empty = |name: &str| {
            fields
                .and_then(|fields| fields.get(name)?.0.first())
                .is_none()
        };
        ours.into_iter().all(is_empty)
    }
}

/// Writes the authorities, the first one's key if it is new, and a new server certificate if there is one.
pub(super) fn written(
    stored: Option<&Secret>,
    authorities: &[Certificate],
    signing: Option<&PrivateKeyDer<'_>>,
    serving: Option<&Pair>,
) -> Secret {
    let mut secret = stored.cloned().unwrap_or_default();
    let labels = secret.metadata.labels.get_or_insert_default();
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    secret.type_.get_or_insert_with(|| TYPES[0].to_owned());
    let fields = secret.data.get_or_insert_default();
    let mut put = |name: &str, text: String| {
        fields.insert(name.to_owned(), ByteString(text.into_bytes()));
    };
    put(CA_CERTIFICATES, certificates_pem(authorities));
    if let Some(key) = signing {
        put(CA_KEY, key_pem(key));
    }
    if let Some(pair) = serving {
        put(CERTIFICATE, certificates_pem([&pair.certificate]));
        put(KEY, key_pem(&pair.key));
    }
    secret
}

fn signing(
    fields: &Fields,
    authority: Option<&Certificate>,
) -> Result<PrivateKeyDer<'static>, String> {
    let authority =
        authority.ok_or_else(|| format!("{CA_CERTIFICATES} has no authority that podloom made"))?;
    let key = key(fields, CA_KEY)?;
    authority.with(&key).map_err(|_| {
        format!("{CA_KEY} is not the key of the first certificate in {CA_CERTIFICATES}")
    })?;
    Ok(key)
}

fn serving(fields: &Fields, authorities: &[Certificate]) -> Result<Serving, String> {
    let chain = field(fields, CERTIFICATE)?.certificates();
    let leaf = chain.map_err(|error| error.to_string())?.into_iter().next();
    let certificate = leaf
        .and_then(Certificate::parse)
        .ok_or_else(|| format!("{CERTIFICATE}: it is not an X.509 certificate"))?;
    let key = key(fields, KEY)?;
    if certificate.with(&key).is_err() {
        return Err(format!("{KEY} is not the key of {CERTIFICATE}"));
    }
    let mut authorities = authorities.iter();
    let authority = authorities
        .find(|authority| certificate.is_signed_by(authority))
        .ok_or_else(|| format!("no authority in {CA_CERTIFICATES} signed {CERTIFICATE}"))?;
    Ok(Serving {
        authority: authority.clone(),
        pair: Pair { certificate, key },
    })
}

fn key(fields: &Fields, name: &'static str) -> Result<PrivateKeyDer<'static>, String> {
    let key = field(fields, name)?.key();
    key.map_err(|error| error.to_string())
}

fn field(fields: &Fields, name: &'static str) -> Result<Pem, String> {
    match fields.get(name) {
        Some(text) if text.0.len() > TEXT_MAX => {
            Err(format!("{name} is larger than {TEXT_MAX} bytes"))
        }
        Some(text) if !text.0.is_empty() => {
            Pem::new(name.to_owned(), text.0.clone()).map_err(|error| error.to_string())
        }
        _ => Err(format!("{name} is missing")),
    }
}

#[cfg(test)]
mod tests;
