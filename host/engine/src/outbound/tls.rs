//! Which authorities are trusted, and our client certificate.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    Resumption, WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor, verify_server_name,
};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::{Error as PemFault, PemObject};
use rustls::pki_types::{CertificateDer, DnsName, IpAddr, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};
use rustls_native_certs::CertificateResult;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use super::words::words;

/// The environment variables that name another certificate store.
const STORE_VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Which authorities are trusted.
#[derive(Clone, Debug)]
pub enum Roots<'a> {
    /// Those of the machine's certificate store, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`. A machine without a store, such as a
    /// container with one binary, gets Mozilla's list as of the build of this binary.
    Public,
    /// Those of the machine, and those of a file.
    PublicAnd(&'a Pem),
    /// Those of a file only.
    Only(&'a Pem),
    /// Those of a file only, and servers whose own certificate is in it: what `kubectl` accepts.
    Listed(&'a Pem),
    /// No verification: any certificate is accepted. Anyone on the network path can read and change everything.
    Unchecked,
}

/// Our client certificate, for servers that request one.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate, then the intermediates.
    pub chain: Pem,
    /// The private key of the certificate.
    pub key: Pem,
}

/// A TLS configuration: version 1.2 or 1.3, with ring. Create it once for many requests; it is cheap to clone.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

/// Why certificates, a key or a TLS configuration cannot be used. It repeats no text of a file, since that may hold a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl Tls {
    /// Creates a configuration. [`Roots::Public`] reads the machine's store, which takes some milliseconds.
    pub fn new(roots: &Roots<'_>, identity: Option<&Identity>) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError(format!("TLS cannot be set up: {error}")))?;
        let verified_by = |verifier| {
            builder
                .clone()
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        };
        let builder = match roots {
            Roots::Unchecked => verified_by(unchecked(&provider)),
            Roots::Listed(pem) => verified_by(listed(pem, &provider)?),
            Roots::Public => builder.with_root_certificates(machine()?),
            Roots::PublicAnd(pem) => builder.with_root_certificates(with(machine()?, pem)?),
            Roots::Only(pem) => builder.with_root_certificates(with(RootCertStore::empty(), pem)?),
        };
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = (identity.chain.certificates()?, identity.key.key()?);
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| unfit(identity, &error))?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A resumed session does not verify the certificate again, which may have expired meanwhile.
        config.resumption = Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> Arc<ClientConfig> {
        self.0.clone()
    }
}

fn unfit(identity: &Identity, error: &rustls::Error) -> TlsError {
    let (key, chain) = (identity.key.name(), identity.chain.name());
    TlsError(format!(
        "the key in {key} cannot be used with the certificate in {chain}: {error}"
    ))
}

/// The authorities, and those of a file.
fn with(mut store: RootCertStore, pem: &Pem) -> Result<RootCertStore, TlsError> {
    pem.add_to(&mut store)?;
    Ok(store)
}

/// The authorities of the machine.
fn machine() -> Result<RootCertStore, TlsError> {
    let named = STORE_VARIABLES
        .into_iter()
        .find(|name| std::env::var_os(name).is_some());
    public(rustls_native_certs::load_native_certs(), named)
}

/// The authorities that were found, or Mozilla's if the machine has no store at all. A broken store is an error: whoever names one
/// authority of his own must not get a hundred others instead.
fn public(found: CertificateResult, named: Option<&str>) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    // Stores contain old certificates that cannot be parsed, and everybody skips those.
    let (added, _) = store.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(store);
    }
    let problem = found.errors.first().map(ToString::to_string);
    let problem = problem.or_else(|| Some(format!("{} names no certificate", named?)));
    if let Some(problem) = problem {
        let text = "the certificate store of this machine cannot be used";
        return Err(TlsError(format!("{text}: {problem}")));
    }
    store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    Ok(store)
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

// Servers whose own certificate is listed, as `kubectl` accepts them: not every server has an authority.

/// Returns a verifier that trusts the authorities of a file, and accepts its other certificates as those of servers.
fn listed(
    pem: &Pem,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let mut store = RootCertStore::empty();
    pem.add_authorities_to(&mut store)?;
    let store = Arc::new(store);
    // Without any authority there is no such verifier.
    let authorities = WebPkiServerVerifier::builder_with_provider(store, Arc::clone(provider));
    Ok(Arc::new(Verifier {
        accepts: Accepts::Listed {
            certificates: pem.certificates()?,
            authorities: authorities.build().ok(),
        },
        algorithms: provider.signature_verification_algorithms,
    }))
}

/// Returns a verifier that accepts every certificate, for servers where an administrator turned verification off. It still checks that
/// the server has the certificate's key, which costs nothing.
fn unchecked(provider: &CryptoProvider) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Verifier {
        accepts: Accepts::All,
        algorithms: provider.signature_verification_algorithms,
    })
}

/// Verifies servers in other ways than by authorities alone.
#[derive(Debug)]
struct Verifier {
    accepts: Accepts,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Which certificates are accepted.
#[derive(Debug)]
enum Accepts {
    /// These, and those that the authorities signed.
    Listed {
        certificates: Vec<CertificateDer<'static>>,
        authorities: Option<Arc<WebPkiServerVerifier>>,
    },
    All,
}

impl Verifier {
    /// Verifies a certificate that is listed: all but who signed it. An authority's own may be a server's too.
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let nobody = RootCertStore::empty();
        let algorithms = self.algorithms.all;
        match verify_server_cert_signed_by_trust_anchor(&parsed, &nobody, &[], now, algorithms) {
            Ok(()) | Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {}
            // After the dates, rustls looks at this. It has no kind of its own for it.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if is_authority(certificate) => {}
            Err(error) => return Err(error),
        }
        verify_server_name(&parsed, name)?;
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (listed, authorities) = match &self.accepts {
            Accepts::All => return Ok(ServerCertVerified::assertion()),
            Accepts::Listed {
                certificates,
                authorities,
            } => (certificates, authorities),
        };
        if listed.iter().any(|listed| listed == certificate) {
            return self.verify(certificate, name, now);
        }
        match authorities {
            Some(all) => all.verify_server_cert(certificate, intermediates, name, ocsp, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

// Certificates and keys in PEM, with their source, so that errors can name it.

/// The largest text, in bytes; Mozilla's whole list is a quarter of that.
const TEXT_MAX: usize = 1024 * 1024;

/// Certificates or a key as text. `Debug` shows the name only.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    name: String,
    text: Vec<u8>,
}

const CERTIFICATE: (&str, &str) = ("certificate", "CERTIFICATE");
const KEY: (&str, &str) = ("private key", "PRIVATE KEY");

impl Pem {
    /// Reads a file of at most 1 MiB.
    pub fn read(path: &Path) -> Result<Self, TlsError> {
        let name = path.display().to_string();
        let mut text = Vec::new();
        let limit = TEXT_MAX as u64 + 1;
        let read = open(path).and_then(|file| file.take(limit).read_to_end(&mut text));
        read.map_err(|error| TlsError(format!("could not read {name}: {error}")))?;
        Self::new(name, text)
    }

    /// Returns the PEM of a text of at most 1 MiB that is not from a file but, say, from a Secret; the name says where it is from.
    pub fn new(name: String, text: Vec<u8>) -> Result<Self, TlsError> {
        if text.len() > TEXT_MAX {
            return Err(TlsError(format!(
                "{name} is larger than {TEXT_MAX} bytes, which no file of certificates is"
            )));
        }
        Ok(Self { name, text })
    }

    /// Returns where the text is from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns all certificates, in their order; at least one.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
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
    pub fn key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        PrivateKeyDer::from_pem_slice(&self.text).map_err(|error| match error {
            PemFault::NoItemsFound => self.missing(KEY),
            error => self.garbled(KEY, 0, &error),
        })
    }

    /// Returns all certificates as authorities to trust; at least one. A certificate that is not an authority's is an error.
    pub fn authorities(&self) -> Result<RootCertStore, TlsError> {
        let mut store = RootCertStore::empty();
        self.add_to(&mut store)?;
        Ok(store)
    }

    /// Adds all certificates as authorities. A certificate that is not an authority's is an error, since it would be trusted for every
    /// name. One that cannot be parsed is an error too: a user put it there for a reason.
    fn add_to(&self, store: &mut RootCertStore) -> Result<(), TlsError> {
        match self.add_authorities_to(store)? {
            None => Ok(()),
            Some(leaf) => Err(self.broken(
                CERTIFICATE,
                leaf,
                "it is not an authority's (its basic constraints do not say CA:TRUE); put the authority that signed it there",
            )),
        }
    }

    /// Adds the certificates of authorities, and returns the index of the first other one. One that cannot be parsed is an error.
    fn add_authorities_to(&self, store: &mut RootCertStore) -> Result<Option<usize>, TlsError> {
        let mut leaf = None;
        for (index, certificate) in self.certificates()?.into_iter().enumerate() {
            let reason = "it is not an X.509 certificate";
            let broken = |_| self.broken(CERTIFICATE, index, reason);
            if is_authority(&certificate) {
                store.add(certificate).map_err(broken)?;
            } else {
                RootCertStore::empty().add(certificate).map_err(broken)?;
                leaf = leaf.or(Some(index));
            }
        }
        Ok(leaf)
    }

    fn missing(&self, (wanted, label): (&str, &str)) -> TlsError {
        let name = &self.name;
        TlsError(format!(
            "{name} has no {wanted}; it must have a block that begins with -----BEGIN {label}-----"
        ))
    }

    fn garbled(&self, wanted: (&str, &str), index: usize, error: &PemFault) -> TlsError {
        // The library's texts quote lines, and one could be a key's.
        let reason = match error {
            PemFault::MissingSectionEnd { .. } => "its last line, -----END ...-----, is missing",
            PemFault::IllegalSectionStart { .. } => "its first line does not end with -----",
            PemFault::Base64Decode(_) => "it is not base64",
            _ => "it is not PEM",
        };
        self.broken(wanted, index, reason)
    }

    fn broken(&self, (wanted, _): (&str, &str), index: usize, reason: &str) -> TlsError {
        let (number, name) = (index + 1, &self.name);
        TlsError(format!("{wanted} {number} in {name} is broken: {reason}"))
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
fn is_authority(certificate: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(certificate)
        .is_ok_and(|(_, read)| read.is_ca() || read.version() == X509Version::V1)
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pem").field(&self.name).finish()
    }
}

// Errors of the TLS handshake, in our own words.

/// How many names of a certificate an error shows, and how long such a name may be, in bytes.
const NAMES: usize = 3;
const NAME_LENGTH: usize = 100;

/// Why the TLS handshake failed. Nothing of the request was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsProblem {
    /// The certificate has expired.
    #[error("its certificate has expired")]
    Expired,
    /// The certificate is not valid yet.
    #[error("its certificate is not valid yet; check the clocks")]
    NotYetValid,
    /// No trusted authority signed the certificate.
    #[error(
        "its certificate is signed by no authority that is trusted here; add the authority's certificate to the trusted ones"
    )]
    UnknownIssuer,
    /// The certificate is for other hosts: these names, at most three, and only host names and addresses of at most 100 bytes.
    #[error("its certificate is not for this host, but for {}", list(.0))]
    WrongHost(Vec<String>),
    /// Something else is wrong with the certificate. The text is ours.
    #[error("its certificate cannot be used: {0}")]
    Certificate(&'static str),
    /// The server does not speak TLS.
    #[error("it does not speak TLS on this port")]
    NotTls,
    /// Client and server have no version or algorithm in common.
    #[error(
        "it has no TLS version or cipher in common with this client, which needs TLS 1.2 or 1.3"
    )]
    Incompatible,
    /// The server sent an alert. The text is its meaning.
    #[error("it rejected the TLS handshake: {0}")]
    Alert(&'static str),
    /// The server closed the connection.
    #[error("it closed the connection during the TLS handshake")]
    Closed,
    /// Something else. The text is ours or the kernel's.
    #[error("the TLS handshake failed: {0}")]
    Other(String),
}

impl TlsProblem {
    /// Classifies the error of a handshake. No text of a library is kept, since it may quote what the server sent.
    pub(super) fn of(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        match inner {
            Some(error) => Self::of_tls(error),
            None => match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Self::Closed,
                io::ErrorKind::QuotaExceeded => Self::Other("the server sends too much".to_owned()),
                _ => Self::Other(words(error)),
            },
        }
    }

    fn of_tls(error: &Error) -> Self {
        let other = |text: &str| Self::Other(text.to_owned());
        match error {
            Error::InvalidCertificate(problem) => Self::of_certificate(problem),
            Error::InvalidMessage(_) => Self::NotTls,
            Error::PeerIncompatible(_) => Self::Incompatible,
            Error::AlertReceived(alert) => Self::Alert(meaning(*alert)),
            Error::UnsupportedNameType => Self::WrongHost(Vec::new()),
            Error::NoCertificatesPresented => Self::Certificate("there is none"),
            Error::DecryptError => other("a record cannot be decrypted"),
            Error::NoApplicationProtocol => other("it does not speak HTTP/1.1"),
            Error::PeerSentOversizedRecord => other("a record is too large"),
            Error::PeerMisbehaved(_)
            | Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. } => {
                other("the server violates the protocol")
            }
            _ => other("an unknown error"),
        }
    }

    fn of_certificate(problem: &CertificateError) -> Self {
        use CertificateError as Is;
        match problem {
            Is::Expired | Is::ExpiredContext { .. } => Self::Expired,
            Is::NotValidYet | Is::NotValidYetContext { .. } => Self::NotYetValid,
            Is::UnknownIssuer => Self::UnknownIssuer,
            Is::NotValidForName => Self::WrongHost(Vec::new()),
            Is::NotValidForNameContext { presented, .. } => {
                let names = presented.iter().filter_map(|name| plain(name));
                Self::WrongHost(names.take(NAMES).collect())
            }
            problem => Self::Certificate(wrong(problem)),
        }
    }
}

/// What is wrong with a certificate.
fn wrong(problem: &CertificateError) -> &'static str {
    use CertificateError as Is;
    match problem {
        Is::InvalidPurpose | Is::InvalidPurposeContext { .. } => "it is not for servers",
        Is::BadEncoding => "it cannot be read",
        Is::Revoked => "it was revoked",
        Is::BadSignature => "its signature is invalid",
        Is::UnhandledCriticalExtension => "it has a critical extension that is not known here",
        Is::UnsupportedSignatureAlgorithmContext { .. }
        | Is::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "its signature algorithm is not supported"
        }
        _ => "it, or an intermediate certificate, is invalid",
    }
}

/// What an alert means.
fn meaning(alert: AlertDescription) -> &'static str {
    use AlertDescription as Is;
    match alert {
        Is::HandshakeFailure | Is::InsufficientSecurity => "it accepts none of our TLS settings",
        Is::ProtocolVersion => "it supports none of our TLS versions",
        Is::CertificateRequired => "it requires a client certificate",
        Is::BadCertificate | Is::UnsupportedCertificate | Is::CertificateUnknown => {
            "it does not accept our certificate"
        }
        Is::CertificateExpired => "it says that our certificate has expired",
        Is::CertificateRevoked => "it says that our certificate is revoked",
        Is::UnknownCA => "it does not trust the authority of our certificate",
        Is::AccessDenied => "it denies access",
        Is::UnrecognisedName => "it does not know this host name",
        Is::NoApplicationProtocol => "it does not speak HTTP/1.1",
        Is::InternalError => "it has an internal error",
        _ => "for an unknown reason",
    }
}

/// The host name or address in a text of the library, such as `DnsName("a.example")`; none for other names and long ones.
fn plain(name: &str) -> Option<String> {
    let (kind, inner) = name.strip_suffix(')')?.split_once('(')?;
    let name = inner.trim_matches('"');
    let is_name = match kind {
        "DnsName" => DnsName::try_from(name.strip_prefix("*.").unwrap_or(name)).is_ok(),
        "IpAddress" => IpAddr::try_from(name).is_ok(),
        _ => false,
    };
    (is_name && name.len() <= NAME_LENGTH).then(|| name.to_owned())
}

fn list(names: &[String]) -> String {
    match names {
        [] => "no host".to_owned(),
        names => names.join(", "),
    }
}

#[cfg(test)]
mod tests;
