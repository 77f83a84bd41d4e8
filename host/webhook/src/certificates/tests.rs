//! Handshakes with what the slot serves, and the loops around it.

pub(super) mod api;
mod loops;

use std::sync::Arc;
use std::time::SystemTime;

use prometheus_client::registry::Registry;
use rustls::crypto::ring;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::x509::{self, Certificate, Pair, our_authorities};
use super::*;

pub(super) const LIFETIME: Duration = Duration::from_secs(90 * 86_400);
pub(super) const HOSTS: [&str; 4] = [
    "podloom-webhook.podloom-system.svc",
    "localhost",
    "127.0.0.1",
    "::1",
];

/// A setup whose Secret is `tls` in the namespace `system`.
pub(super) fn setup(client: Client, hosts: &[&str]) -> OwnSetup {
    OwnSetup {
        client,
        namespace: "system".to_owned(),
        secret: "tls".to_owned(),
        configurations: "podloom".to_owned(),
        service: "webhook".to_owned(),
        clock: Clock::new(),
        hosts: parse_hosts(hosts).unwrap(),
        lifetime: LIFETIME,
        metrics: CertificateMetrics::register(&mut Registry::default()),
    }
}

/// A connection, from both ends.
pub(super) struct Connection {
    client: client::TlsStream<DuplexStream>,
    server: server::TlsStream<DuplexStream>,
}

impl Connection {
    /// The server's certificate.
    pub(super) fn certificate(&self) -> Vec<u8> {
        let (_, connection) = self.client.get_ref();
        connection.peer_certificates().unwrap()[0].to_vec()
    }

    /// Sends some bytes in both directions.
    pub(super) async fn talk(&mut self) {
        let mut received = [0; 4];
        self.client.write_all(b"ping").await.unwrap();
        self.server.read_exact(&mut received).await.unwrap();
        self.server.write_all(b"pong").await.unwrap();
        self.client.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"pong");
    }
}

/// Connects to a server with this slot as a client that trusts these authorities in PEM.
pub(super) async fn connect(
    slot: &Arc<CertificateSlot>,
    authorities: &str,
    host: &str,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<Connection, std::io::Error> {
    let mut roots = RootCertStore::empty();
    for authority in our_authorities(authorities.as_bytes()) {
        roots.add(authority.der).unwrap();
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (near, far) = tokio::io::duplex(1 << 16);
    let host = ServerName::try_from(host.to_owned()).unwrap();
    let acceptor = TlsAcceptor::from(server_config(Arc::clone(slot), None));
    let connector = TlsConnector::from(Arc::new(config));
    let (client, server) = tokio::join!(connector.connect(host, near), acceptor.accept(far));
    let connection = Connection {
        client: client?,
        server: server?,
    };
    let (_, state) = connection.client.get_ref();
    assert_eq!(state.alpn_protocol(), Some(&b"h2"[..]));
    Ok(connection)
}

/// The same with any version.
pub(super) async fn connect_any(
    slot: &Arc<CertificateSlot>,
    authorities: &str,
    host: &str,
) -> Result<Connection, std::io::Error> {
    connect(slot, authorities, host, &[&TLS12, &TLS13]).await
}

fn slot() -> Arc<CertificateSlot> {
    Arc::new(CertificateSlot::new(CertificateMetrics::register(
        &mut Registry::default(),
    )))
}

fn pem(pairs: &[&Pair]) -> String {
    x509::certificates_pem(pairs.iter().map(|pair| &pair.certificate))
}

fn serve(slot: &CertificateSlot, leaf: &Pair) {
    let served = Served {
        key: Arc::new(leaf.certificate.with(&leaf.key).unwrap()),
        certificate: leaf.certificate.clone(),
        authority: None,
    };
    slot.swap(served, "of a test".to_owned());
}

fn leaf_of(authority: &Pair, now: SystemTime) -> Pair {
    let hosts = parse_hosts(&HOSTS).unwrap();
    x509::server(&authority.key, &hosts, now, LIFETIME).unwrap()
}

#[tokio::test]
async fn clients_accept_the_certificate_for_every_host_and_for_no_other() {
    let authority = x509::authority(SystemTime::now(), LIFETIME).unwrap();
    let (slot, trusted) = (slot(), pem(&[&authority]));
    serve(&slot, &leaf_of(&authority, SystemTime::now()));
    for version in [&TLS12, &TLS13] {
        for host in HOSTS {
            let mut connection = connect(&slot, &trusted, host, &[version]).await.unwrap();
            connection.talk().await;
        }
        for host in ["podloom-webhook.other.svc", "127.0.0.2"] {
            assert!(connect(&slot, &trusted, host, &[version]).await.is_err());
        }
    }
}

#[tokio::test]
async fn a_bundle_of_two_authorities_verifies_the_certificates_of_both() {
    let now = SystemTime::now();
    let [old, new] = [(); 2].map(|()| x509::authority(now, LIFETIME).unwrap());
    let slot = slot();
    for (signer, other) in [(&old, &new), (&new, &old)] {
        serve(&slot, &leaf_of(signer, now));
        for bundle in [pem(&[&new, &old]), pem(&[&old, &new]), pem(&[signer])] {
            connect_any(&slot, &bundle, "localhost").await.unwrap();
        }
        assert!(
            connect_any(&slot, &pem(&[other]), "localhost")
                .await
                .is_err()
        );
    }
}

#[tokio::test]
async fn an_open_connection_goes_on_when_the_certificate_is_swapped() {
    let now = SystemTime::now();
    let authority = x509::authority(now, LIFETIME).unwrap();
    let (slot, trusted) = (slot(), pem(&[&authority]));
    let [one, two] = [(); 2].map(|()| leaf_of(&authority, now));
    serve(&slot, &one);
    let mut before = connect_any(&slot, &trusted, "localhost").await.unwrap();
    serve(&slot, &two);
    let mut after = connect_any(&slot, &trusted, "localhost").await.unwrap();
    before.talk().await;
    after.talk().await;
    assert_eq!(before.certificate(), one.certificate.der.to_vec());
    assert_eq!(after.certificate(), two.certificate.der.to_vec());
}

#[tokio::test]
async fn readiness_follows_the_certificate_that_serves() {
    let now = SystemTime::now();
    let slot = slot();
    let refused = connect_any(&slot, "", "localhost").await;
    assert!(refused.is_err(), "there is nothing to serve");
    let none = Err("there is no certificate: none was found so far".to_owned());
    assert_eq!(slot.status(), none);
    assert!(slot.refuse("the Secret is gone") && !slot.refuse("the Secret is gone"));
    let gone = Err("there is no certificate: the Secret is gone".to_owned());
    assert_eq!(slot.status(), gone);
    let authority = x509::authority(now, LIFETIME).unwrap();
    let waiting = tokio::spawn({
        let slot = Arc::clone(&slot);
        async move { slot.first().await }
    });
    serve(&slot, &leaf_of(&authority, now));
    waiting.await.unwrap();
    let end = written(Certificate::clone(&slot.served().unwrap().certificate).not_after);
    let serves = format!("serves the certificate of a test until {end}");
    assert_eq!(slot.status(), Ok(serves.clone()));
    slot.refuse("the Secret is gone");
    assert_eq!(slot.status(), Ok(format!("{serves}; the Secret is gone")));
    let late = now + LIFETIME + Duration::from_secs(1);
    let expired = format!("the certificate of a test expired on {end}; the Secret is gone");
    assert_eq!(slot.status_at(late), Err(expired));
    assert!(slot.confirm() && !slot.confirm());
    assert_eq!(slot.status(), Ok(serves));
}

#[test]
fn nothing_that_is_printed_has_a_key() {
    let now = SystemTime::now();
    let authority = x509::authority(now, LIFETIME).unwrap();
    let (slot, leaf) = (slot(), leaf_of(&authority, now));
    serve(&slot, &leaf);
    let certificate = &leaf.certificate;
    let shown = format!(
        "{slot:?} {certificate:?} {:?} {:?}",
        leaf.key,
        server_config(slot.clone(), None)
    );
    let key = format!("{:?}", leaf.key.secret_der());
    assert!(!shown.contains(key.trim_matches(['[', ']'])), "{shown}");
    let text = x509::key_pem(&leaf.key);
    let base64: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    assert!(!shown.contains(&base64));
}

#[test]
fn hosts_are_names_and_addresses() {
    for invalid in ["", "a b", "https://x", "x:443", "ü"] {
        let expected = format!("{invalid:?} is neither a DNS name nor an IP address");
        assert_eq!(parse_hosts(&["localhost", invalid]), Err(expected));
    }
    assert!(parse_hosts(&HOSTS).is_ok());
}
