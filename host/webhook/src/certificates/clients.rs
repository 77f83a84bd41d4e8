//! Which clients are answered: those with a certificate of an authority, and perhaps of one of some names.
//!
//! By default everybody is: an API server shows no certificate, unless it is told to.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use podloom_engine::outbound::Pem;
use podloom_turns::lock;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// How often the file is read again.
const LOOK: Duration = Duration::from_secs(10);

/// The clients that are answered.
#[derive(Debug)]
pub struct Clients {
    file: PathBuf,
    /// A client has one of these as its common name or as a DNS name; with none, any client of the authority will do.
    names: Vec<String>,
    current: Mutex<Current>,
}

/// What was read last.
#[derive(Clone, Debug)]
struct Current {
    authorities: Vec<CertificateDer<'static>>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Clients {
    /// Reads the authorities of a file in PEM.
    ///
    /// # Errors
    /// If the file cannot be read, or has no certificate of an authority.
    pub fn read(file: PathBuf, names: Vec<String>) -> Result<Arc<Self>, String> {
        let pem = Pem::read(&file).map_err(|error| error.to_string())?;
        let current = Mutex::new(Current::of(&pem)?);
        Ok(Arc::new(Self {
            file,
            names,
            current,
        }))
    }

    /// Reads the file again and again, until it is dropped: authorities are replaced too. What cannot be used replaces nothing.
    pub async fn follow(self: Arc<Self>) {
        let mut known = None;
        loop {
            sleep(LOOK).await;
            let file = self.file.clone();
            let read = spawn_blocking(move || Pem::read(&file)).await;
            let Ok(read) = read else { continue };
            let read = read.map_err(|error| error.to_string());
            let problem = read.and_then(|pem| self.renew(&pem)).err();
            if let Some(error) = problem.as_ref().filter(|_| problem != known) {
                tracing::warn!(
                    error,
                    "the authority of the webhooks' clients cannot be read, so the last one counts"
                );
            }
            known = problem;
        }
    }

    fn renew(&self, pem: &Pem) -> Result<(), String> {
        let next = Current::of(pem)?;
        let mut current = lock(&self.current);
        if current.authorities != next.authorities {
            *current = next;
            tracing::info!(
                file = pem.name(),
                "another authority of the webhooks' clients"
            );
        }
        Ok(())
    }

    fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&lock(&self.current).verifier)
    }

    /// Whether a certificate has one of the names, if there are any.
    fn has_name(&self, certificate: &CertificateDer<'_>) -> bool {
        if self.names.is_empty() {
            return true;
        }
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
            return false;
        };
        let is_named = |name: &str| self.names.iter().any(|wanted| wanted == name);
        let mut common = parsed.subject().iter_common_name();
        let alternative = parsed.subject_alternative_name().ok().flatten();
        let mut alternative = alternative.iter().flat_map(|it| &it.value.general_names);
        common.any(|name| name.as_str().is_ok_and(is_named))
            || alternative.any(|name| matches!(name, GeneralName::DNSName(name) if is_named(name)))
    }
}

impl Current {
    fn of(pem: &Pem) -> Result<Self, String> {
        let roots = pem.authorities().map_err(|error| error.to_string())?;
        let authorities = pem.certificates().map_err(|error| error.to_string())?;
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.build();
        let verifier = verifier.map_err(|error| format!("{}: {error}", pem.name()))?;
        Ok(Self {
            authorities,
            verifier,
        })
    }
}

impl ClientCertVerifier for Clients {
    /// None: they change, and clients have only one certificate.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .verifier()
            .verify_client_cert(certificate, intermediates, now)?;
        match self.has_name(certificate) {
            true => Ok(verified),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier().supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests;
