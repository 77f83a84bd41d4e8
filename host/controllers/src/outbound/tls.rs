//! Whose certificates are believed, and what we show of ourselves.

use std::fmt;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;

mod pem;
mod problem;
mod unchecked;

pub use pem::{Pem, PemError};
pub use problem::TlsProblem;

/// The variables that name a certificate store in place of the machine's.
const NAMES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Whose certificates are believed.
#[derive(Clone, Debug)]
pub enum Roots<'a> {
    /// The authorities of the machine: its certificate store, or what `SSL_CERT_FILE` and `SSL_CERT_DIR` name. A machine without
    /// a store, such as a container of one binary, gets Mozilla's list as it was when this binary was built.
    Public,
    /// Those, and the authorities of a file.
    PublicAnd(&'a Pem),
    /// The authorities of a file alone.
    Only(&'a Pem),
    /// Everybody, whatever the certificate says. Who is in the way can read and change everything.
    Unchecked,
}

/// What we show to a server that asks who we are.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Our certificate, then those that lead to the authority.
    pub chain: Pem,
    /// The private key of the first.
    pub key: Pem,
}

/// How TLS is set up: version 1.2 or 1.3, with ring. Made once for many requests; cheap to clone.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of certificates cannot be used.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// The machine's store is there, or is named by the environment, and cannot be used.
    #[error("the certificate store of this machine cannot be used: {0}")]
    Store(String),
    /// The private key and the certificate do not fit each other, or the key is of a kind that is not supported.
    #[error("the key in {key} cannot be used with the certificate in {chain}: {reason}")]
    Identity {
        /// Where the certificate is.
        chain: String,
        /// Where the key is.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The crypto provider has no protocol in common with us, which is a fault of this build.
    #[error("TLS cannot be set up: {0}")]
    Provider(String),
}

impl Tls {
    /// Makes TLS ready. [`Roots::Public`] reads the machine's store, which takes some milliseconds.
    pub fn new(roots: &Roots<'_>, identity: Option<&Identity>) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Provider(error.to_string()))?;
        let builder = match store(roots)? {
            Some(store) => builder.with_root_certificates(store),
            None => builder
                .dangerous()
                .with_custom_certificate_verifier(unchecked::verifier(&provider)),
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
        // A session that is resumed does not show its certificate again, which may have expired meanwhile.
        config.resumption = Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }

    pub(super) fn config(&self) -> Arc<ClientConfig> {
        self.0.clone()
    }
}

fn unfit(identity: &Identity, error: &rustls::Error) -> TlsError {
    TlsError::Identity {
        chain: identity.chain.name().to_owned(),
        key: identity.key.name().to_owned(),
        reason: error.to_string(),
    }
}

/// The authorities, or none if everybody is believed.
fn store(roots: &Roots<'_>) -> Result<Option<RootCertStore>, TlsError> {
    let (mut store, added) = match roots {
        Roots::Unchecked => return Ok(None),
        Roots::Public => (machine()?, None),
        Roots::PublicAnd(pem) => (machine()?, Some(pem)),
        Roots::Only(pem) => (RootCertStore::empty(), Some(pem)),
    };
    if let Some(pem) = added {
        pem.add_to(&mut store)?;
    }
    Ok(Some(store))
}

/// The authorities of the machine.
fn machine() -> Result<RootCertStore, TlsError> {
    let named = NAMES
        .into_iter()
        .find(|name| std::env::var_os(name).is_some());
    public(rustls_native_certs::load_native_certs(), named)
}

/// The authorities that were found, or Mozilla's where the machine has no store at all. A store that is there and broken is an
/// error: who names one authority of his own must not get a hundred others in its place.
fn public(found: CertificateResult, named: Option<&str>) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    // Stores have certificates that are too old to be read, and everybody skips those.
    let (added, _) = store.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(store);
    }
    if let Some(error) = found.errors.first() {
        return Err(TlsError::Store(error.to_string()));
    }
    if let Some(name) = named {
        return Err(TlsError::Store(format!("{name} names no certificate")));
    }
    store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    Ok(store)
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
