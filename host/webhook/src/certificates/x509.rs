//! Certificates, and the Secret that keeps ours.
//!
//! What is accepted here is what rustls' handshakes accept. It has no accessors for dates and basic constraints.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use podloom_engine::outbound::Pem;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, RootCertStore};
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

use super::Served;

/// The common name of our authorities.
const AUTHORITY: &str = "podloom-webhook-ca";
/// Their whole subject in DER: one relative name, whose only attribute is a common name in UTF-8.
const SUBJECT: &[u8] = b"\x30\x1d\x31\x1b\x30\x19\x06\x03\x55\x04\x03\x0c\x12podloom-webhook-ca";
/// The common name of server certificates. Clients do not look at it.
const SERVER: &str = "podloom-webhook";
/// How far a certificate's start is in the past, for clients whose clocks are behind.
pub(super) const BACKDATED: Duration = Duration::from_secs(3600);
/// How much longer an authority lasts than a server certificate.
const AUTHORITY_LIVES: u32 = 4;
/// The last time that a certificate can hold safely, in seconds since 1970: it is in the year 9000.
const LAST_SECOND: u64 = 221_845_392_000;
/// The largest text that is read, in bytes. Ours have less than 4 KiB.
pub(super) const TEXT_MAX: usize = 64 * 1024;
/// The largest authority of ours, in bytes. Ours have less than 1 KiB; those that are kept must fit in one text.
const AUTHORITY_MAX: usize = 4096;
/// How many certificates of a text are looked at.
const CERTIFICATES_MAX: usize = 64;

/// A certificate that can be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) der: CertificateDer<'static>,
    pub(super) not_before: SystemTime,
    pub(super) not_after: SystemTime,
    /// Whether it is an authority that Podloom made.
    pub(super) is_our_authority: bool,
}

/// A certificate and its private key.
pub(super) struct Pair {
    pub(super) certificate: Certificate,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Certificate {
    /// None if the bytes are no X.509 certificate that TLS could use.
    pub(super) fn parse(der: CertificateDer<'static>) -> Option<Self> {
        ParsedCertificate::try_from(&der).ok()?;
        let (_, read) = X509Certificate::from_der(&der).ok()?;
        let valid = read.validity();
        let parsed = Self {
            not_before: system_time(valid.not_before)?,
            not_after: system_time(valid.not_after)?,
            is_our_authority: read.is_ca() && read.subject().as_raw() == SUBJECT,
            der,
        };
        // Clients read fewer forms of dates than x509-parser. They read them when they verify.
        let verified = verify(&parsed, &RootCertStore::empty(), parsed.not_after);
        let is_readable = !matches!(
            verified,
            Err(Error::InvalidCertificate(CertificateError::BadEncoding))
        );
        is_readable.then_some(parsed)
    }

    pub(super) fn is_valid_at(&self, now: SystemTime) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    /// Whether clients that ask for this host accept it.
    pub(super) fn is_for(&self, host: &ServerName<'_>) -> bool {
        let parsed = ParsedCertificate::try_from(&self.der);
        parsed.is_ok_and(|parsed| verify_server_name(&parsed, host).is_ok())
    }

    /// Whether it is a server's certificate that this authority signed, whenever both are valid.
    pub(super) fn is_signed_by(&self, authority: &Self) -> bool {
        let mut anchors = RootCertStore::empty();
        anchors.add(authority.der.clone()).is_ok() && verify(self, &anchors, self.not_after).is_ok()
    }

    /// With its private key; an error if that is another one's.
    pub(super) fn with(&self, key: &PrivateKeyDer<'_>) -> Result<CertifiedKey, Error> {
        let chain = vec![self.der.clone()];
        CertifiedKey::from_der(chain, key.clone_key(), &ring::default_provider())
    }
}

/// What a client that trusts some authorities says about a server's certificate.
fn verify(server: &Certificate, anchors: &RootCertStore, at: SystemTime) -> Result<(), Error> {
    let parsed = ParsedCertificate::try_from(&server.der)?;
    let at = UnixTime::since_unix_epoch(at.duration_since(UNIX_EPOCH).unwrap_or_default());
    let algorithms = ring::default_provider().signature_verification_algorithms;
    verify_server_cert_signed_by_trust_anchor(&parsed, anchors, &[], at, algorithms.all)
}

/// One before 1970 is that of 1970.
fn system_time(time: ASN1Time) -> Option<SystemTime> {
    let seconds = u64::try_from(time.timestamp()).unwrap_or_default();
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Our authorities in a text, each once. What is something else, or behind the limits, is left out.
pub(super) fn our_authorities(pem: &[u8]) -> Vec<Certificate> {
    // A text that is too large is cut in the middle of a block, which is then left out.
    let readable = pem.get(..TEXT_MAX).unwrap_or(pem);
    let mut found: Vec<Certificate> = Vec::new();
    for block in CertificateDer::pem_slice_iter(readable).take(CERTIFICATES_MAX) {
        if let Some(certificate) = block.ok().and_then(Certificate::parse)
            && certificate.is_our_authority
            && certificate.der.len() <= AUTHORITY_MAX
            && !found.contains(&certificate)
        {
            found.push(certificate);
        }
    }
    found
}

/// Makes an authority. It lives four times as long as the server certificates that it signs.
pub(super) fn authority(now: SystemTime, lifetime: Duration) -> Result<Pair, String> {
    let made = || -> Result<_, rcgen::Error> {
        let key = KeyPair::generate()?;
        let params = authority_params(now, lifetime.saturating_mul(AUTHORITY_LIVES));
        Ok((params.self_signed(&key)?, key))
    };
    pair(made())
}

/// Makes a server certificate for all these hosts, signed with the key of one of our authorities.
pub(super) fn server(
    authority: &PrivateKeyDer<'_>,
    hosts: &[ServerName<'static>],
    now: SystemTime,
    lifetime: Duration,
) -> Result<Pair, String> {
    let made = || -> Result<_, rcgen::Error> {
        let signer = KeyPair::try_from(authority)?;
        let issuer = Issuer::new(authority_params(now, lifetime), signer);
        let key = KeyPair::generate()?;
        let mut params = params(SERVER, now, lifetime);
        for host in hosts {
            params.subject_alt_names.push(match host {
                ServerName::IpAddress(address) => SanType::IpAddress((*address).into()),
                name => SanType::DnsName((&*name.to_str()).try_into()?),
            });
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // With it, clients find the one of several authorities with the same name.
        params.use_authority_key_identifier_extension = true;
        Ok((params.signed_by(&key, &issuer)?, key))
    };
    pair(made())
}

/// Fails if the key of the authority is of a type that we cannot sign with, or if there are no random numbers.
fn pair(made: Result<(rcgen::Certificate, KeyPair), rcgen::Error>) -> Result<Pair, String> {
    let read = made.ok().and_then(|(certificate, key)| {
        Some(Pair {
            certificate: Certificate::parse(certificate.into())?,
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        })
    });
    read.ok_or_else(|| "could not make a certificate".to_owned())
}

/// What all our authorities have in common. A server certificate names its issuer by it.
fn authority_params(now: SystemTime, lifetime: Duration) -> CertificateParams {
    let mut params = params(AUTHORITY, now, lifetime);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn params(name: &str, now: SystemTime, lifetime: Duration) -> CertificateParams {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let date = |at: Duration| {
        let seconds = at.as_secs().min(LAST_SECOND);
        date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date(now.saturating_sub(BACKDATED));
    params.not_after = date(now.saturating_add(lifetime));
    params
}

/// Writes certificates as PEM, one after the other.
pub(super) fn certificates_pem<'a>(all: impl IntoIterator<Item = &'a Certificate>) -> String {
    let written = all.into_iter().map(|one| pem("CERTIFICATE", &one.der));
    written.collect()
}

/// Writes a key of ours as PEM.
pub(super) fn key_pem(key: &PrivateKeyDer<'_>) -> String {
    pem("PRIVATE KEY", key.secret_der())
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines = lines.collect::<Vec<_>>().join("\n");
    format!("-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n")
}

// The Secret: authorities, the key of the first one, and the server certificate with its key. Each part is read by itself, so that
// what is left of a damaged Secret can still be used.

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
type Fields = BTreeMap<String, ByteString>;

/// A Secret that we may write, as far as it is usable. Dates are not checked. It has no `Debug`, since that would show its keys.
pub(super) struct OurSecret {
    /// As it was read, with everything that is not ours; none if it does not exist.
    pub(super) stored: Option<Secret>,
    /// Our authorities in ca.crt; the first one signs.
    pub(super) authorities: Vec<Certificate>,
    /// The key of the first authority, or why it cannot be used.
    pub(super) signing: Result<PrivateKeyDer<'static>, String>,
    /// The server certificate, or why it cannot be used.
    pub(super) serving: Result<Served, String>,
    /// Whether ca.crt is exactly the text that we would write, and the label is there.
    pub(super) is_tidy: bool,
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
        let (label, value) = MANAGED_BY;
        let found = secret.metadata.labels.as_ref();
        let is_labelled =
            found.is_some_and(|labels| labels.get(label).is_some_and(|it| it == value));
        let fields = secret.data.as_ref().unwrap_or(&nothing);
        if !is_labelled && fields.values().any(|value| !value.0.is_empty()) {
            return Err(format!(
                "it has data but not the label {label}: {value}, so another program may own it; delete it, or choose another name"
            ));
        }
        let text = fields.get(CA_CERTIFICATES);
        let text = text.map_or(&[][..], |text| &text.0);
        let authorities = our_authorities(text);
        Ok(Self {
            signing: signing(fields, &authorities),
            serving: serving(fields, &authorities),
            is_tidy: is_labelled && text == certificates_pem(&authorities).as_bytes(),
            authorities,
            stored,
        })
    }

    /// Whether it was never written.
    pub(super) fn is_empty(&self) -> bool {
        let fields = self.stored.as_ref().and_then(|stored| stored.data.as_ref());
        let mut fields = fields.into_iter().flatten();
        let ours = [CA_CERTIFICATES, CA_KEY, CERTIFICATE, KEY];
        !fields.any(|(name, value)| ours.contains(&&**name) && !value.0.is_empty())
    }
}

/// The Secret with these authorities, the first one's key if it is new, and a new server certificate if there is one.
pub(super) fn next_secret(
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

fn signing(fields: &Fields, all: &[Certificate]) -> Result<PrivateKeyDer<'static>, String> {
    let first = all.first();
    let first =
        first.ok_or_else(|| format!("{CA_CERTIFICATES} has no authority that podloom made"))?;
    let key = key(fields, CA_KEY)?;
    match first.with(&key) {
        Ok(_) => Ok(key),
        Err(_) => Err(format!(
            "{CA_KEY} is not the key of the first certificate in {CA_CERTIFICATES}"
        )),
    }
}

/// The server certificate with its key, which fits, and the authority that signed it.
fn serving(fields: &Fields, authorities: &[Certificate]) -> Result<Served, String> {
    let chain = field(fields, CERTIFICATE)?.certificates();
    let leaf = chain.map_err(|error| error.to_string())?.into_iter().next();
    let certificate = leaf
        .and_then(Certificate::parse)
        .ok_or_else(|| format!("{CERTIFICATE}: it is not an X.509 certificate"))?;
    let key = certificate
        .with(&key(fields, KEY)?)
        .map_err(|_| format!("{KEY} is not the key of {CERTIFICATE}"))?;
    let mut authorities = authorities.iter();
    let authority = authorities
        .find(|authority| certificate.is_signed_by(authority))
        .ok_or_else(|| format!("no authority in {CA_CERTIFICATES} signed {CERTIFICATE}"))?;
    Ok(Served {
        key: Arc::new(key),
        authority: Some(authority.clone()),
        certificate,
    })
}

fn key(fields: &Fields, name: &'static str) -> Result<PrivateKeyDer<'static>, String> {
    let key = field(fields, name)?.key();
    key.map_err(|error| error.to_string())
}

fn field(fields: &Fields, name: &'static str) -> Result<Pem, String> {
    let text = fields.get(name).map_or(&[][..], |text| &text.0);
    if text.is_empty() {
        return Err(format!("{name} is missing"));
    }
    if text.len() > TEXT_MAX {
        return Err(format!("{name} is larger than {TEXT_MAX} bytes"));
    }
    Pem::new(name.to_owned(), text.to_owned()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
