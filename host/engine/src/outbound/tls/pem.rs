//! Certificates and keys in PEM, with their source, so that errors can name it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::{Error as PemFault, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

/// The largest text, in bytes; Mozilla's whole list is a quarter of that.
const TEXT_MAX: usize = 1024 * 1024;

/// Certificates or a key as text. `Debug` shows the name only.
#[derive(Clone, PartialEq, Eq)]
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
        /// Where the text is from.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// It is larger than 1 MiB.
    #[error("{name} is larger than {TEXT_MAX} bytes, which no file of certificates is")]
    TooLarge {
        /// Where the text is from.
        name: String,
    },
    /// It contains no block of the type that was looked for.
    #[error(
        "{name} has no {wanted}; it must have a block that begins with -----BEGIN {label}-----"
    )]
    Missing {
        /// Where the text is from.
        name: String,
        /// What was looked for.
        wanted: &'static str,
        /// The label of such a block.
        label: &'static str,
    },
    /// A block is truncated or invalid.
    #[error("{wanted} {number} in {name} is broken: {reason}")]
    Broken {
        /// Where the text is from.
        name: String,
        /// What was looked for.
        wanted: &'static str,
        /// Its number in the text, from 1.
        number: usize,
        /// What is wrong with it.
        reason: String,
    },
}

const CERTIFICATE: (&str, &str) = ("certificate", "CERTIFICATE");
const KEY: (&str, &str) = ("private key", "PRIVATE KEY");

impl Pem {
    /// Reads a file of at most 1 MiB.
    pub fn read(path: &Path) -> Result<Self, PemError> {
        let name = path.display().to_string();
        let mut text = Vec::new();
        let limit = TEXT_MAX as u64 + 1;
        let read = open(path).and_then(|file| file.take(limit).read_to_end(&mut text));
        match read {
            Ok(_) => Self::new(name, text),
            Err(source) => Err(PemError::Read { name, source }),
        }
    }

    /// Returns the PEM of a text of at most 1 MiB that is not from a file but, say, from a Secret; the name says where it is from.
    pub fn new(name: String, text: Vec<u8>) -> Result<Self, PemError> {
        if text.len() > TEXT_MAX {
            return Err(PemError::TooLarge { name });
        }
        Ok(Self { name, text })
    }

    /// Returns where the text is from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns all certificates, in their order; at least one.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, PemError> {
        let certificates = CertificateDer::pem_slice_iter(&self.text)
            .enumerate()
            .map(|(index, found)| found.map_err(|error| self.garbled(CERTIFICATE, index, &error)));
        let certificates: Vec<_> = certificates.collect::<Result<_, _>>()?;
        if certificates.is_empty() {
            return Err(self.missing(CERTIFICATE));
        }
        Ok(certificates)
    }

    /// Returns the first private key.
    pub fn key(&self) -> Result<PrivateKeyDer<'static>, PemError> {
        PrivateKeyDer::from_pem_slice(&self.text).map_err(|error| match error {
            PemFault::NoItemsFound => self.missing(KEY),
            error => self.garbled(KEY, 0, &error),
        })
    }

    /// Adds all certificates as authorities. A certificate that is not an authority's is an error, since it would be trusted for every
    /// name. One that cannot be parsed is an error too: a user put it there for a reason.
    pub(super) fn add_to(&self, store: &mut RootCertStore) -> Result<(), PemError> {
        match self.add_authorities_to(store)? {
            None => Ok(()),
            Some(leaf) => Err(self.broken(
                CERTIFICATE,
                leaf,
                "it is not an authority's (its basic constraints do not say CA:TRUE); put the authority that signed it there".to_owned(),
            )),
        }
    }

    /// Adds the certificates of authorities, and returns the index of the first other one. One that cannot be parsed is an error.
    pub(super) fn add_authorities_to(
        &self,
        store: &mut RootCertStore,
    ) -> Result<Option<usize>, PemError> {
        let mut leaf = None;
        for (index, certificate) in self.certificates()?.into_iter().enumerate() {
            let reason = "it is not an X.509 certificate";
            let broken = |_| self.broken(CERTIFICATE, index, reason.to_owned());
            if is_authority(&certificate) {
                store.add(certificate).map_err(broken)?;
            } else {
                RootCertStore::empty().add(certificate).map_err(broken)?;
                leaf = leaf.or(Some(index));
            }
        }
        Ok(leaf)
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
        // The library's texts quote lines, and one could be a key's.
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

/// Opens a file. Opening a FIFO without a writer would block for ever.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// Whether a certificate is an authority's by its basic constraints. Those of version 1, which have none, count as authorities.
pub(super) fn is_authority(certificate: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(certificate)
        .is_ok_and(|(_, read)| read.is_ca() || read.version() == X509Version::V1)
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pem").field(&self.name).finish()
    }
}
