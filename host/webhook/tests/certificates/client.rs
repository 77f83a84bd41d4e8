//! A client that trusts a caBundle and nothing else, as the API server does.

use std::sync::Arc;

use podloom_webhook::{CertificateSlot, server_config};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The certificates in a caBundle.
pub(crate) fn authorities(bundle: &[u8]) -> Vec<CertificateDer<'static>> {
    let authorities = CertificateDer::pem_slice_iter(bundle);
    authorities.map(Result::unwrap).collect()
}

/// Connects to a replica; returns its certificate.
pub(crate) async fn connect(
    slot: &Arc<CertificateSlot>,
    bundle: &[u8],
    host: &str,
) -> Result<CertificateDer<'static>, String> {
    let mut roots = RootCertStore::empty();
    for authority in authorities(bundle) {
        roots.add(authority).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (near, far) = tokio::io::duplex(1 << 16);
    let acceptor = TlsAcceptor::from(server_config(Arc::clone(slot), None));
    let connector = TlsConnector::from(Arc::new(config));
    let host = ServerName::try_from(host.to_owned()).unwrap();
    let (client, _server) = tokio::join!(connector.connect(host, near), acceptor.accept(far));
    let client = client.map_err(|error| error.to_string())?;
    let (_, connection) = client.get_ref();
    Ok(connection.peer_certificates().unwrap()[0].clone())
}
