//! Which authorities are trusted, and our client certificate.

use std::fmt;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;

mod listed;
mod pem;
mod problem;
mod unchecked;

pub use pem::{Pem, PemError};
pub use problem::TlsProblem;

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

/// Why a TLS configuration cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of certificates cannot be used.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// The certificate store of the machine, or the one that the environment names, cannot be used.
    #[error("the certificate store of this machine cannot be used: {0}")]
    Store(String),
    /// The private key does not match the certificate, or its type is not supported.
    #[error("the key in {key} cannot be used with the certificate in {chain}: {reason}")]
    Identity {
        /// Where the certificate is.
        chain: String,
        /// Where the key is.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The crypto provider supports none of our TLS versions, which is a bug of this build.
    #[error("TLS cannot be set up: {0}")]
    Provider(String),
}

impl Tls {
    /// Creates a configuration. [`Roots::Public`] reads the machine's store, which takes some milliseconds.
    pub fn new(roots: &Roots<'_>, identity: Option<&Identity>) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Provider(error.to_string()))?;
        let verified_by = |verifier| {
            builder
                .clone()
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        };
        let builder = match roots {
            Roots::Unchecked => verified_by(unchecked::verifier(&provider)),
            Roots::Listed(pem) => verified_by(listed::verifier(pem, &provider)?),
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
