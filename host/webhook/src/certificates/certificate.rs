//! A parsed certificate: what it is, until when it is valid, for which hosts, and who signed it.
//!
//! rustls is the parser, so what is accepted here is what its handshakes accept. It has no accessors for dates and for "is an
//! authority", but the errors of its verification have both: it compares the dates first and looks at the basic constraints next.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, RootCertStore};

/// The common name of our authorities.
pub(super) const AUTHORITY: &str = "podloom-webhook-ca";
/// Their whole subject in DER: one relative name, whose only attribute is a common name in UTF-8.
const SUBJECT: &[u8] = b"\x31\x1b\x30\x19\x06\x03\x55\x04\x03\x0c\x12podloom-webhook-ca";

/// A certificate that can be parsed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) der: CertificateDer<'static>,
    pub(super) not_before: SystemTime,
    pub(super) not_after: SystemTime,
    is_authority: bool,
    /// In DER, without the outer sequence.
    subject: Vec<u8>,
}

/// The bytes are no X.509 certificate that TLS could use.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("it is not an X.509 certificate")]
pub(super) struct NotACertificate;

impl Certificate {
    pub(super) fn parse(der: CertificateDer<'static>) -> Result<Self, NotACertificate> {
        let anchors = anchors(&der).ok_or(NotACertificate)?;
        let anchor = anchors.roots.first().ok_or(NotACertificate)?;
        let subject = anchor.subject.to_vec();
        let parsed = ParsedCertificate::try_from(&der).map_err(|_| NotACertificate)?;
        let end = UnixTime::since_unix_epoch(Duration::MAX);
        let Err(CertificateError::ExpiredContext { not_after, .. }) =
            verify(&parsed, &anchors, end)
        else {
            return Err(NotACertificate);
        };
        let start = UnixTime::since_unix_epoch(Duration::ZERO);
        let not_before = match verify(&parsed, &anchors, start) {
            Err(CertificateError::NotValidYetContext { not_before, .. }) => not_before,
            // Valid since 1970.
            _ => start,
        };
        let is_authority = match verify(&parsed, &anchors, not_after) {
            Err(CertificateError::Other(other)) => other.to_string() == "CaUsedAsEndEntity",
            _ => false,
        };
        Ok(Self {
            not_before: system_time(not_before).ok_or(NotACertificate)?,
            not_after: system_time(not_after).ok_or(NotACertificate)?,
            is_authority,
            subject,
            der,
        })
    }

    /// Whether it is an authority that Podloom made.
    pub(super) fn is_our_authority(&self) -> bool {
        self.is_authority && self.subject == SUBJECT
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
) -> Result<(), CertificateError> {
    let algorithms = ring::default_provider()
        .signature_verification_algorithms
        .all;
    let verified =
        verify_server_cert_signed_by_trust_anchor(certificate, anchors, &[], at, algorithms);
    verified.map_err(|error| match error {
        Error::InvalidCertificate(error) => error,
        _ => CertificateError::BadEncoding,
    })
}

fn system_time(time: UnixTime) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(time.as_secs()))
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Certificate");
        shown.field("not_after", &self.not_after);
        shown.field("is_authority", &self.is_authority);
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
