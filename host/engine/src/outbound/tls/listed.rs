//! Servers whose own certificate is listed, as `kubectl` accepts them: not every server has an authority.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor, verify_server_name,
};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::TlsError;
use super::pem::{Pem, is_authority};

/// Returns a verifier that trusts the authorities of a file, and accepts its other certificates as those of servers.
pub(super) fn verifier(
    pem: &Pem,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let mut store = RootCertStore::empty();
    pem.add_authorities_to(&mut store)?;
    let store = Arc::new(store);
    // Without any authority there is no such verifier.
    let authorities = WebPkiServerVerifier::builder_with_provider(store, Arc::clone(provider));
    Ok(Arc::new(Listed {
        certificates: pem.certificates()?,
        authorities: authorities.build().ok(),
        algorithms: provider.signature_verification_algorithms,
    }))
}

#[derive(Debug)]
struct Listed {
    certificates: Vec<CertificateDer<'static>>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Listed {
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

impl ServerCertVerifier for Listed {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.certificates.iter().any(|listed| listed == certificate) {
            return self.verify(certificate, name, now);
        }
        match &self.authorities {
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
