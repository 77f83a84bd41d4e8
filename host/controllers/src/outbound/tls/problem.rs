//! What was wrong when TLS was set up, in our own words.

use std::io;

use rustls::{CertificateError, Error};

/// How many names of a certificate an error shows, and how much of each.
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
    /// The certificate is for other hosts. The names are the certificate's, at most three of them.
    #[error("its certificate is not for this host, but for {}", list(.0))]
    WrongHost(Vec<String>),
    /// Something else is wrong with the certificate. The text is ours or the TLS library's.
    #[error("its certificate cannot be used: {0}")]
    Certificate(String),
    /// The other end does not speak TLS.
    #[error("it does not speak TLS on this port")]
    NotTls,
    /// The two have no version or algorithm in common.
    #[error(
        "it has no TLS version or cipher in common with this client, which needs TLS 1.2 or 1.3"
    )]
    Incompatible,
    /// The other end ended it. The text is the name of its alert.
    #[error("it refused TLS with the alert {0}")]
    Alert(String),
    /// The other end closed the connection.
    #[error("it closed the connection while TLS was set up")]
    Closed,
    /// Something else. The text is the TLS library's or the kernel's.
    #[error("TLS could not be set up: {0}")]
    Other(String),
}

impl TlsProblem {
    /// Reads what a handshake ended with.
    pub(in super::super) fn of(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        match inner {
            Some(error) => Self::of_tls(error),
            None => match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Self::Closed,
                _ => Self::Other(error.to_string()),
            },
        }
    }

    fn of_tls(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(problem) => Self::of_certificate(problem),
            Error::InvalidMessage(_) => Self::NotTls,
            Error::PeerIncompatible(_) => Self::Incompatible,
            Error::AlertReceived(alert) => Self::Alert(format!("{alert:?}")),
            Error::UnsupportedNameType => Self::WrongHost(Vec::new()),
            error => Self::Other(error.to_string()),
        }
    }

    fn of_certificate(problem: &CertificateError) -> Self {
        use CertificateError as Is;
        match problem {
            Is::Expired | Is::ExpiredContext { .. } => Self::Expired,
            Is::NotValidYet | Is::NotValidYetContext { .. } => Self::NotYetValid,
            Is::UnknownIssuer => Self::UnknownIssuer,
            Is::NotValidForName => Self::WrongHost(Vec::new()),
            Is::NotValidForNameContext { presented, .. } => Self::WrongHost(
                presented
                    .iter()
                    .take(NAMES)
                    .map(|name| plain(name))
                    .collect(),
            ),
            Is::InvalidPurpose | Is::InvalidPurposeContext { .. } => {
                Self::Certificate("it is not made for servers".to_owned())
            }
            Is::BadEncoding => Self::Certificate("it cannot be read".to_owned()),
            problem => Self::Certificate(problem.to_string()),
        }
    }
}

/// A name as the library shows it, `DnsName("a.example")`, without what is around it and without what a terminal could obey.
fn plain(name: &str) -> String {
    let inner = name
        .split_once('(')
        .and_then(|(_, name)| name.strip_suffix(')'));
    inner
        .unwrap_or(name)
        .trim_matches('"')
        .chars()
        .filter(|character| character.is_ascii_graphic())
        .take(NAME_LENGTH)
        .collect()
}

fn list(names: &[String]) -> String {
    match names {
        [] => "no host".to_owned(),
        names => names.join(", "),
    }
}
