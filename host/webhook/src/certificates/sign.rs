//! Makes authorities and server certificates, and writes PEM.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};

use super::certificate::{AUTHORITY, Certificate, NotACertificate};

/// How far a certificate's start is in the past, for clients whose clocks are behind.
pub(super) const BACKDATED: Duration = Duration::from_secs(3600);
/// How much longer an authority lasts than a server certificate.
const AUTHORITY_LIVES: u32 = 4;
/// The last time that a certificate can hold safely, in seconds since 1970: it is in the year 9000.
const LAST_SECOND: u64 = 221_845_392_000;
/// The common name of server certificates. Clients do not look at it.
const SERVER: &str = "podloom-webhook";

/// A certificate and its private key.
pub(super) struct Pair {
    pub(super) certificate: Certificate,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Clone for Pair {
    fn clone(&self) -> Self {
        Self {
            certificate: self.certificate.clone(),
            key: self.key.clone_key(),
        }
    }
}

/// Why no certificate could be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignError {
    /// The key of the authority is of a type that we cannot sign with, or there are no random numbers.
    #[error("could not make a certificate")]
    Sign(#[from] rcgen::Error),
    /// A certificate that was just made cannot be parsed, which is a bug.
    #[error("made a certificate that cannot be parsed")]
    Made(#[from] NotACertificate),
    /// The host can be in no certificate.
    #[error("a certificate cannot be made for the host {0}")]
    Host(String),
}

/// Makes an authority. It lives four times as long as the server certificates that it signs.
pub(super) fn authority(now: SystemTime, lifetime: Duration) -> Result<Pair, SignError> {
    let key = KeyPair::generate()?;
    let mut params = authority_params();
    set_dates(&mut params, now, lifetime.saturating_mul(AUTHORITY_LIVES));
    let made = params.self_signed(&key)?;
    Ok(Pair {
        certificate: Certificate::parse(made.into())?,
        key: der(&key),
    })
}

/// Makes a server certificate for all these hosts, signed with the key of one of our authorities.
pub(super) fn server(
    authority: &PrivateKeyDer<'_>,
    hosts: &[ServerName<'static>],
    now: SystemTime,
    lifetime: Duration,
) -> Result<Pair, SignError> {
    let issuer = Issuer::new(authority_params(), KeyPair::try_from(authority)?);
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = name(SERVER);
    params.subject_alt_names = hosts.iter().map(alternative).collect::<Result<_, _>>()?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // With it, clients find the one of several authorities with the same name.
    params.use_authority_key_identifier_extension = true;
    set_dates(&mut params, now, lifetime);
    let made = params.signed_by(&key, &issuer)?;
    Ok(Pair {
        certificate: Certificate::parse(made.into())?,
        key: der(&key),
    })
}

/// What all our authorities have in common. A server certificate names its issuer by it.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(AUTHORITY);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn alternative(host: &ServerName<'static>) -> Result<SanType, SignError> {
    match host {
        ServerName::DnsName(name) => Ok(SanType::DnsName(name.as_ref().try_into()?)),
        ServerName::IpAddress(address) => Ok(SanType::IpAddress((*address).into())),
        other => Err(SignError::Host(other.to_str().into_owned())),
    }
}

fn set_dates(params: &mut CertificateParams, now: SystemTime, lifetime: Duration) {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let date = |at: Duration| {
        let seconds = at.as_secs().min(LAST_SECOND);
        date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    params.not_before = date(now.saturating_sub(BACKDATED));
    params.not_after = date(now.saturating_add(lifetime));
}

fn der(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(key.serialize_der()).into()
}

/// Writes certificates as PEM, one after the other.
pub(super) fn certificates_pem<'a>(certificates: impl Iterator<Item = &'a Certificate>) -> String {
    certificates
        .map(|certificate| pem("CERTIFICATE", &certificate.der))
        .collect()
}

/// Writes a key as PEM.
pub(super) fn key_pem(key: &PrivateKeyDer<'_>) -> String {
    let label = match key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    pem(label, key.secret_der())
}

fn pem(label: &str, der: &[u8]) -> String {
    const WIDTH: usize = 64;
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(WIDTH));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

#[cfg(test)]
mod tests;
