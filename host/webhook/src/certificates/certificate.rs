//! A parsed certificate: what it is, until when it is valid, for which hosts, and who signed it.
//!
//! What is accepted here is what rustls' handshakes accept. It has no accessors for dates and basic constraints.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{Error, RootCertStore};
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

/// The common name of our authorities.
pub(super) const AUTHORITY: &str = "podloom-webhook-ca";
/// Their whole subject in DER: one relative name, whose only attribute is a common name in UTF-8.
const SUBJECT: &[u8] = b"\x30\x1d\x31\x1b\x30\x19\x06\x03\x55\x04\x03\x0c\x12podloom-webhook-ca";

/// A certificate that can be parsed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) der: CertificateDer<'static>,
    pub(super) not_before: SystemTime,
    pub(super) not_after: SystemTime,
    /// Whether it is an authority that Podloom made.
    pub(super) is_our_authority: bool,
}

/// The bytes are no X.509 certificate that TLS could use.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("it is not an X.509 certificate")]
pub(super) struct NotACertificate;

impl Certificate {
    pub(super) fn parse(der: CertificateDer<'static>) -> Result<Self, NotACertificate> {
        ParsedCertificate::try_from(&der).map_err(|_| NotACertificate)?;
        let (_, read) = X509Certificate::from_der(&der).map_err(|_| NotACertificate)?;
        let (valid, is_authority) = (read.validity(), read.is_ca());
        Ok(Self {
            not_before: system_time(valid.not_before).ok_or(NotACertificate)?,
            not_after: system_time(valid.not_after).ok_or(NotACertificate)?,
            is_our_authority: is_authority && read.subject().as_raw() == SUBJECT,
            der,
        })
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
        let (Ok(parsed), Some(anchors)) = (
            ParsedCertificate::try_from(&self.der),
            anchors(&authority.der),
        ) else {
            return false;
        };
        let at = self.not_after.duration_since(UNIX_EPOCH);
        at.is_ok_and(|at| verify(&parsed, &anchors, UnixTime::since_unix_epoch(at)).is_ok())
    }

    /// Whether this is its private key.
    pub(super) fn fits(&self, key: &PrivateKeyDer<'_>) -> bool {
        let chain = vec![self.der.clone()];
        CertifiedKey::from_der(chain, key.clone_key(), &ring::default_provider()).is_ok()
    }
}

/// Every certificate in a text, up to a number of blocks. Blocks that cannot be parsed are left out.
pub(super) fn parse_all(pem: &[u8], limit: usize) -> Vec<Certificate> {
    CertificateDer::pem_slice_iter(pem)
        .take(limit)
        .filter_map(|block| Certificate::parse(block.ok()?).ok())
        .collect()
}

fn anchors(der: &CertificateDer<'_>) -> Option<RootCertStore> {
    let mut anchors = RootCertStore::empty();
    anchors.add(der.clone()).ok()?;
    Some(anchors)
}

fn verify(
    certificate: &ParsedCertificate<'_>,
    anchors: &RootCertStore,
    at: UnixTime,
) -> Result<(), Error> {
    let algorithms = ring::default_provider()
        .signature_verification_algorithms
        .all;
    verify_server_cert_signed_by_trust_anchor(certificate, anchors, &[], at, algorithms)
}

/// One before 1970 is that of 1970.
fn system_time(time: ASN1Time) -> Option<SystemTime> {
    let seconds = u64::try_from(time.timestamp()).unwrap_or_default();
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Certificate");
        shown.field("not_after", &self.not_after);
        shown.field("is_our_authority", &self.is_our_authority);
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
