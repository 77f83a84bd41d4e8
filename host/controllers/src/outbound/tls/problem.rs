//! What was wrong when TLS was set up, in our own words.

use std::io;

use rustls::pki_types::{DnsName, IpAddr};
use rustls::{AlertDescription, CertificateError, Error};

use super::super::words::words;

/// How many names of a certificate an error shows, and how long those are that it shows, in bytes.
const NAMES: usize = 3;
const NAME_LENGTH: usize = 100;

/// Why TLS could not be set up. Nothing of the request was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsProblem {
    /// The certificate's time is over.
    #[error("its certificate has expired")]
    Expired,
    /// The certificate's time has not come.
    #[error("its certificate is not valid yet; check the clocks")]
    NotYetValid,
    /// Nobody whom we believe signed the certificate.
    #[error(
        "its certificate is signed by no authority that is trusted here; add the authority's certificate to the trusted ones"
    )]
    UnknownIssuer,
    /// The certificate is for other hosts. The names are the certificate's: at most three, and only host names and
    /// addresses of at most 100 bytes.
    #[error("its certificate is not for this host, but for {}", list(.0))]
    WrongHost(Vec<String>),
    /// Something else is wrong with the certificate. The text is ours.
    #[error("its certificate cannot be used: {0}")]
    Certificate(&'static str),
    /// The other end does not speak TLS.
    #[error("it does not speak TLS on this port")]
    NotTls,
    /// The two have no version or algorithm in common.
    #[error(
        "it has no TLS version or cipher in common with this client, which needs TLS 1.2 or 1.3"
    )]
    Incompatible,
    /// The other end ended it. The text says what its alert means.
    #[error("it refused TLS: {0}")]
    Alert(&'static str),
    /// The other end closed the connection.
    #[error("it closed the connection while TLS was set up")]
    Closed,
    /// Something else. The text is ours or the kernel's.
    #[error("TLS could not be set up: {0}")]
    Other(String),
}

impl TlsProblem {
    /// Reads what a handshake ended with. Nothing that a library prints is kept: it may quote what the other end sent.
    pub(in super::super) fn of(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        match inner {
            Some(error) => Self::of_tls(error),
            None => match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Self::Closed,
                io::ErrorKind::QuotaExceeded => {
                    Self::Other("the other end sends too much".to_owned())
                }
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
            Error::DecryptError => other("what came cannot be decrypted"),
            Error::NoApplicationProtocol => other("it does not speak HTTP/1.1"),
            Error::PeerSentOversizedRecord => other("a record is too large"),
            Error::PeerMisbehaved(_)
            | Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. } => {
                other("the other end does not keep to the protocol")
            }
            _ => other("the handshake failed"),
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
        Is::InvalidPurpose | Is::InvalidPurposeContext { .. } => "it is not made for servers",
        Is::BadEncoding => "it cannot be read",
        Is::Revoked => "it was revoked",
        Is::BadSignature => "its signature is wrong",
        Is::UnhandledCriticalExtension => "it has a critical extension that is not known here",
        Is::UnsupportedSignatureAlgorithmContext { .. }
        | Is::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "its signature is of a kind that is not supported"
        }
        _ => "it, or one that leads to its authority, is not made as it must be",
    }
}

/// What an alert means.
fn meaning(alert: AlertDescription) -> &'static str {
    use AlertDescription as Is;
    match alert {
        Is::HandshakeFailure | Is::InsufficientSecurity => "it accepts none of our settings",
        Is::ProtocolVersion => "it speaks no version of TLS that we do",
        Is::CertificateRequired => "it asks for a client certificate",
        Is::BadCertificate | Is::UnsupportedCertificate | Is::CertificateUnknown => {
            "it does not accept our certificate"
        }
        Is::CertificateExpired => "our certificate has expired for it",
        Is::CertificateRevoked => "our certificate is revoked for it",
        Is::UnknownCA => "it does not trust who signed our certificate",
        Is::AccessDenied => "we have no access",
        Is::UnrecognisedName => "it does not know this host name",
        Is::NoApplicationProtocol => "it does not speak HTTP/1.1",
        Is::InternalError => "it has an internal error",
        _ => "it gives no reason that is known here",
    }
}

/// A host name or an address as the library shows it, such as `DnsName("a.example")`. Others and longer ones are not shown.
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
