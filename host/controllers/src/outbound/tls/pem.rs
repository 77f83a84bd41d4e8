//! Certificates and keys in PEM, with where they came from, so that errors can name it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemFault, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

/// The largest text, in bytes; Mozilla's whole list is a quarter of that.
const LARGEST: usize = 1024 * 1024;

/// Certificates or a key as text. `Debug` shows the name alone.
#[derive(Clone)]
pub struct Pem {
    name: String,
    text: Vec<u8>,
}

/// Why PEM cannot be used. The text itself is not repeated, since it may hold a key.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    /// The file cannot be read.
    #[error("could not read {name}")]
    Read {
        /// Where the text comes from.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is larger than 1 MiB.
    #[error("{name} is larger than {LARGEST} bytes, which no file of certificates is")]
    TooLarge {
        /// Where the text comes from.
        name: String,
    },
    /// There is nothing in it that was looked for.
    #[error(
        "{name} has no {wanted}; it must have a block that begins with -----BEGIN {label}-----"
    )]
    Missing {
        /// Where the text comes from.
        name: String,
        /// What was looked for.
        wanted: &'static str,
        /// How a block of it begins.
        label: &'static str,
    },
    /// A block is cut off or garbled.
    #[error("{wanted} {number} in {name} is broken: {reason}")]
    Broken {
        /// Where the text comes from.
        name: String,
        /// What was looked for.
        wanted: &'static str,
        /// Which of those in the text it is, from 1.
        number: usize,
        /// What is wrong with it.
        reason: String,
    },
}

const CERTIFICATE: (&str, &str) = ("certificate", "CERTIFICATE");
const KEY: (&str, &str) = ("private key", "PRIVATE KEY");

impl Pem {
    /// Reads a file; a larger one than 1 MiB is refused.
    pub fn read(path: &Path) -> Result<Self, PemError> {
        let name = path.display().to_string();
        let mut text = Vec::new();
        let limit = LARGEST as u64 + 1;
        let read = open(path).and_then(|file| file.take(limit).read_to_end(&mut text));
        match read {
            Ok(_) => Self::new(name, text),
            Err(source) => Err(PemError::Read { name, source }),
        }
    }

    /// Takes a text that came from elsewhere, such as a Secret; the name says from where. More than 1 MiB is refused.
    pub fn new(name: String, text: Vec<u8>) -> Result<Self, PemError> {
        if text.len() > LARGEST {
            return Err(PemError::TooLarge { name });
        }
        Ok(Self { name, text })
    }

    /// Returns where the text came from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All certificates, in their order; at least one.
    pub(super) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, PemError> {
        let certificates = CertificateDer::pem_slice_iter(&self.text)
            .enumerate()
            .map(|(index, found)| found.map_err(|error| self.garbled(CERTIFICATE, index, &error)));
        let certificates: Vec<_> = certificates.collect::<Result<_, _>>()?;
        if certificates.is_empty() {
            return Err(self.missing(CERTIFICATE));
        }
        Ok(certificates)
    }

    /// The first private key.
    pub(super) fn key(&self) -> Result<PrivateKeyDer<'static>, PemError> {
        PrivateKeyDer::from_pem_slice(&self.text).map_err(|error| match error {
            PemFault::NoItemsFound => self.missing(KEY),
            error => self.garbled(KEY, 0, &error),
        })
    }

    /// Adds all certificates as authorities. One that is no authority's is an error, since it would count for every name; one that cannot be read is an error: a user put it there for a reason.
    pub(super) fn add_to(&self, store: &mut RootCertStore) -> Result<(), PemError> {
        for (index, certificate) in self.certificates()?.into_iter().enumerate() {
            let broken = |reason: &str| self.broken(CERTIFICATE, index, reason.to_owned());
            let added = store.add(certificate.clone());
            added.map_err(|_| broken("it is no X.509 certificate"))?;
            if is_leaf(&certificate) {
                return Err(broken(
                    "it is not an authority's (its basic constraints do not say CA:TRUE); put the authority that signed it there",
                ));
            }
        }
        Ok(())
    }

    fn missing(&self, (wanted, label): (&'static str, &'static str)) -> PemError {
        PemError::Missing {
            name: self.name.clone(),
            wanted,
            label,
        }
    }

    fn garbled(
        &self,
        wanted: (&'static str, &'static str),
        index: usize,
        error: &PemFault,
    ) -> PemError {
        // The library's own words quote lines, and one could be a key's.
        let reason = match error {
            PemFault::MissingSectionEnd { .. } => "its last line, -----END ...-----, is missing",
            PemFault::IllegalSectionStart { .. } => "its first line does not end with -----",
            PemFault::Base64Decode(_) => "it is not base64",
            _ => "it is not PEM",
        };
        self.broken(wanted, index, reason.to_owned())
    }

    fn broken(
        &self,
        (wanted, _): (&'static str, &'static str),
        index: usize,
        reason: String,
    ) -> PemError {
        PemError::Broken {
            name: self.name.clone(),
            wanted,
            number: index + 1,
            reason,
        }
    }
}

/// Opens a file. A FIFO that nobody writes to would keep us waiting for ever.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is no file"))
    }
}

/// Whether a certificate says that it is no authority's. Those of version 1, which cannot say so, are taken for authorities.
///
/// rustls asks for the basic constraints when it verifies, so it is made to verify the certificate as a server's, at a time when
/// it is valid: an authority's is refused as such.
fn is_leaf(certificate: &CertificateDer<'_>) -> bool {
    let Ok(parsed) = ParsedCertificate::try_from(certificate) else {
        return false;
    };
    let algorithms = ring::default_provider()
        .signature_verification_algorithms
        .all;
    let nobody = RootCertStore::empty();
    let verify =
        |now| verify_server_cert_signed_by_trust_anchor(&parsed, &nobody, &[], now, algorithms);
    let found = match verify(UnixTime::now()) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            verify(not_after)
        }
        Err(Error::InvalidCertificate(CertificateError::NotValidYetContext {
            not_before, ..
        })) => verify(not_before),
        found => found,
    };
    match found {
        Err(Error::InvalidCertificate(CertificateError::Other(other))) => {
            other.to_string() != "CaUsedAsEndEntity"
        }
        _ => true,
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pem").field(&self.name).finish()
    }
}
