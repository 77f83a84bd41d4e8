//! Errors of the TLS handshake, in our own words.

use std::io;

use rustls::pki_types::{DnsName, IpAddr};
use rustls::{AlertDescription, CertificateError, Error};

use super::super::words::words;

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
    pub(in super::super) fn of(error: &io::Error) -> Self {
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
