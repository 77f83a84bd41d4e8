//! TLS, with certificates that are right and wrong.

use std::sync::{Arc, Mutex};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::io::AsyncWriteExt;

use super::super::{
    BadResponse, Identity, Pem, RequestErrorKind, Response, Roots, Rules, Tls, TlsProblem, Url,
};
use super::server::{Script, Server, read_request, respond, script};
use super::{Names, client_of, get, limits, rules, send, url};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Somebody who signs.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
    pub(super) pem: Pem,
}

/// A certificate with its key.
pub(super) struct Signed {
    pub(super) certificate: rcgen::Certificate,
    pub(super) key: KeyPair,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            pem: pem(name, certificate.pem()),
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    pub(super) fn sign(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Signed {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Signed { certificate, key }
    }
}

pub(super) fn pem(name: &str, text: String) -> Pem {
    Pem::new(name.to_owned(), text.into_bytes()).unwrap()
}

impl Signed {
    fn server(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        clients: Option<&Authority>,
    ) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(clients.certificate.der().clone()).unwrap();
                let roots = Arc::new(roots);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        builder
            .with_single_cert(vec![self.certificate.der().clone()], key)
            .unwrap()
    }

    /// What a server with this certificate needs.
    pub(super) fn config(&self) -> ServerConfig {
        self.server(&BOTH, None)
    }

    pub(super) fn identity(&self) -> Identity {
        Identity {
            chain: pem("client.crt", self.certificate.pem()),
            key: pem("client.key", self.key.serialize_pem()),
        }
    }
}

const BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

fn target(server: &Server, host: &str) -> Url {
    url(&format!("https://{host}:{}/", server.address.port()))
}

/// Asks a server under a name that resolves to it.
async fn ask(target: &Url, tls: &Tls) -> Result<Response, RequestErrorKind> {
    let name = target.origin().authority();
    let name = name.rsplit_once(':').unwrap().0;
    let names = Names::of(&[(name, &[&["127.0.0.1"]])]);
    send(&client_of(&names, rules(), limits()), get(target, tls)).await
}

/// Asks a server with this certificate as `a.example`, believing this authority.
async fn check(signed: &Signed, believed: &Authority) -> Result<Response, RequestErrorKind> {
    let server = Server::start_tls(signed.server(&BOTH, None), respond(OK)).await;
    let tls = Tls::new(&Roots::Only(&believed.pem), None).unwrap();
    ask(&target(&server, "a.example"), &tls).await
}

#[track_caller]
fn check_problem(found: Result<Response, RequestErrorKind>, problem: TlsProblem, words: &str) {
    let kind = found.unwrap_err();
    assert!(kind.is_unsent());
    assert_eq!(kind.to_string(), words);
    assert_eq!(kind, RequestErrorKind::Tls(problem));
}

#[tokio::test]
async fn a_server_with_a_certificate_of_a_trusted_authority_answers() {
    let authority = Authority::new("ca.pem");
    for versions in [&[&TLS12][..], &[&TLS13]] {
        let signed = authority.sign(&["a.example", "*.b.example", "127.0.0.1"], |_| ());
        let server = Server::start_tls(signed.server(versions, None), respond(OK)).await;
        for roots in [
            Roots::Only(&authority.pem),
            Roots::PublicAnd(&authority.pem),
            Roots::Unchecked,
        ] {
            let tls = Tls::new(&roots, None).unwrap();
            for host in [
                "a.example",
                "A.EXAMPLE",
                "a.example.",
                "x.b.example",
                "127.0.0.1",
            ] {
                let found = ask(&target(&server, host), &tls).await;
                assert_eq!(found.unwrap().body, "ok", "{host} with {roots:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_rejected() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let signed = theirs.sign(&["a.example"], |_| ());
    check_problem(
        check(&signed, &ours).await,
        TlsProblem::UnknownIssuer,
        "its certificate is signed by no authority that is trusted here; add the authority's certificate to the trusted ones",
    );
    // The public authorities have not signed it either.
    let server = Server::start_tls(signed.server(&BOTH, None), respond(OK)).await;
    let public = Tls::new(&Roots::Public, None).unwrap();
    let found = ask(&target(&server, "a.example"), &public).await;
    assert_eq!(
        found.unwrap_err(),
        RequestErrorKind::Tls(TlsProblem::UnknownIssuer)
    );
    // One who does not check believes it.
    let unchecked = Tls::new(&Roots::Unchecked, None).unwrap();
    assert!(ask(&target(&server, "a.example"), &unchecked).await.is_ok());
}

#[tokio::test]
async fn expired_and_early_certificates_are_rejected() {
    let authority = Authority::new("ca.pem");
    let expired = authority.sign(&["a.example"], |params| {
        params.not_after = date_time_ymd(2020, 1, 1)
    });
    check_problem(
        check(&expired, &authority).await,
        TlsProblem::Expired,
        "its certificate has expired",
    );
    let early = authority.sign(&["a.example"], |params| {
        params.not_before = date_time_ymd(2999, 1, 1)
    });
    check_problem(
        check(&early, &authority).await,
        TlsProblem::NotYetValid,
        "its certificate is not valid yet; check the clocks",
    );
}

#[tokio::test]
async fn a_certificate_for_other_hosts_is_rejected() {
    let authority = Authority::new("ca.pem");
    let names = ["b.example", "*.a.example", "192.0.2.1", "c.example"];
    let other = authority.sign(&names, |_| ());
    let shown = ["b.example", "*.a.example", "192.0.2.1"]
        .map(str::to_owned)
        .to_vec();
    check_problem(
        check(&other, &authority).await,
        TlsProblem::WrongHost(shown),
        "its certificate is not for this host, but for b.example, *.a.example, 192.0.2.1",
    );
    let nobody = authority.sign(&[], |_| ());
    check_problem(
        check(&nobody, &authority).await,
        TlsProblem::WrongHost(Vec::new()),
        "its certificate is not for this host, but for no host",
    );
    let client = authority.sign(&["a.example"], |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    let found = check(&client, &authority).await.unwrap_err();
    assert_eq!(
        found.to_string(),
        "its certificate cannot be used: it is not for servers"
    );
}

#[tokio::test]
async fn the_certificate_is_for_the_url_whatever_address_was_dialled() {
    let authority = Authority::new("ca.pem");
    let signed = authority.sign(&["public.example"], |_| ());
    let server = Server::start_tls(signed.server(&BOTH, None), respond(OK)).await;
    let tls = Tls::new(&Roots::Only(&authority.pem), None).unwrap();
    let names = Names::of(&[("way.example", &[&["127.0.0.1"]])]);
    let client = client_of(&names, rules(), limits());
    let way = target(&server, "way.example");
    let public = url("https://public.example/");
    let mut request = get(&public, &tls);
    request.via = Some(&way);
    assert_eq!(send(&client, request.clone()).await.unwrap().body, "ok");
    // The other way about the certificate is somebody else's.
    request.url = &way;
    let found = send(&client, request).await;
    assert!(
        matches!(found, Err(RequestErrorKind::Tls(TlsProblem::WrongHost(_)))),
        "{found:?}"
    );
}

#[tokio::test]
async fn what_does_not_speak_tls_is_named_as_such() {
    let plain = "it does not speak TLS on this port";
    let tls = Tls::new(&Roots::Unchecked, None).unwrap();
    for said in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "SSH-2.0-OpenSSH_9.6\r\n",
    ] {
        let server = Server::start(script(move |mut stream| async move {
            let _ = stream.write_all(said.as_bytes()).await;
            let mut byte = [0; 64];
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut byte).await;
        }))
        .await;
        check_problem(
            ask(&target(&server, "a.example"), &tls).await,
            TlsProblem::NotTls,
            plain,
        );
    }
    let server = Server::start(respond("")).await;
    let mute = Server::start(script(|stream| async move { drop(stream) })).await;
    drop(server);
    check_problem(
        ask(&target(&mute, "a.example"), &tls).await,
        TlsProblem::Closed,
        "it closed the connection during the TLS handshake",
    );
}

#[tokio::test]
async fn plain_text_to_a_tls_server_is_a_bad_response() {
    let signed = Authority::new("ca.pem").sign(&["a.example"], |_| ());
    let server = Server::start_tls(signed.server(&BOTH, None), respond(OK)).await;
    let plain = url(&format!("http://a.example:{}/", server.address.port()));
    let tls = Tls::new(&Roots::Unchecked, None).unwrap();
    let found = ask(&plain, &tls).await;
    assert!(
        matches!(found, Err(RequestErrorKind::BadResponse(_))),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_client_certificate_is_sent_on_request() {
    let (authority, clients) = (Authority::new("ca.pem"), Authority::new("clients.pem"));
    let signed = authority.sign(&["a.example"], |_| ());
    let ours = clients.sign(&["us"], |_| ()).identity();
    let others = authority.sign(&["us"], |_| ()).identity();
    for versions in [&[&TLS12][..], &[&TLS13]] {
        let server = Server::start_tls(signed.server(versions, Some(&clients)), respond(OK)).await;
        let target = target(&server, "a.example");
        let tls = |identity| Tls::new(&Roots::Only(&authority.pem), identity).unwrap();
        assert_eq!(ask(&target, &tls(Some(&ours))).await.unwrap().body, "ok");
        for wrong in [None, Some(&others)] {
            let kind = ask(&target, &tls(wrong)).await.unwrap_err();
            match &kind {
                RequestErrorKind::Tls(TlsProblem::Alert(_)) => assert!(kind.is_unsent()),
                // In TLS 1.3 the server looks at it after the client has sent its request.
                RequestErrorKind::BadResponse(
                    BadResponse::Connection(_) | BadResponse::Truncated,
                ) => {
                    assert_eq!(versions, [&TLS13]);
                }
                other => panic!("{other}"),
            }
        }
    }
}

/// A body without a length ends with the connection, so an attacker who can cut the connection could end it anywhere.
#[tokio::test]
async fn a_connection_that_is_cut_does_not_end_a_body() {
    let authority = Authority::new("ca.pem");
    let signed = authority.sign(&["a.example"], |_| ());
    let tls = Tls::new(&Roots::Only(&authority.pem), None).unwrap();
    let cut: Script = script(|mut stream| async move {
        read_request(&mut *stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf of it")
            .await
            .unwrap();
        stream.flush().await.unwrap();
        // Dropped without the alert that ends TLS.
    });
    let server = Server::start_tls(signed.server(&BOTH, None), cut).await;
    let found = ask(&target(&server, "a.example"), &tls).await;
    assert!(
        matches!(found, Err(RequestErrorKind::BadResponse(_))),
        "{found:?}"
    );
    let whole = respond("HTTP/1.1 200 OK\r\n\r\nall of it");
    let server = Server::start_tls(signed.server(&BOTH, None), whole).await;
    assert_eq!(
        ask(&target(&server, "a.example"), &tls).await.unwrap().body,
        "all of it"
    );
}

#[tokio::test]
async fn every_request_verifies_the_certificate() {
    let authority = Authority::new("ca.pem");
    let signed = authority.sign(&["a.example"], |_| ());
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let server = Server::start_tls(signed.server(&BOTH, None), respond(OK)).await;
    let tls = Tls::new(&Roots::Only(&authority.pem), None).unwrap();
    for _ in 0..3 {
        let config = tls.config();
        let stream = tokio::net::TcpStream::connect(server.address)
            .await
            .unwrap();
        let name = "a.example".try_into().unwrap();
        let mut stream = tokio_rustls::TlsConnector::from(config)
            .connect(name, stream)
            .await
            .unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut response = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut response)
            .await
            .unwrap();
        kinds
            .lock()
            .unwrap()
            .push(stream.get_ref().1.handshake_kind());
    }
    let full = Some(rustls::HandshakeKind::Full);
    assert_eq!(*kinds.lock().unwrap(), [full, full, full]);
}

/// Rules are asked before TLS is: who is blocked learns nothing.
#[tokio::test]
async fn no_handshake_is_started_with_a_blocked_address() {
    let signed = Authority::new("ca.pem").sign(&["a.example"], |_| ());
    let server = Server::start_tls(signed.server(&BOTH, None), respond(OK)).await;
    let names = Names::of(&[("a.example", &[&["127.0.0.1"]])]);
    let refusing = Rules {
        allow: Vec::new(),
        ..rules()
    };
    let tls = Tls::new(&Roots::Unchecked, None).unwrap();
    let target = target(&server, "a.example");
    let found = send(&client_of(&names, refusing, limits()), get(&target, &tls)).await;
    assert!(
        matches!(found, Err(RequestErrorKind::Blocked(_))),
        "{found:?}"
    );
    assert_eq!(server.accepted(), 0);
}
