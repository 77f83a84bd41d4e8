//! Requests through a real, small proxy.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use prometheus_client::registry::Registry;
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

use super::super::{
    Answering, Client, OutboundMetrics, Proxies, RequestErrorKind, Resolve, Response, Roots,
    Settings, Tls,
};
use super::secure::Authority;
use super::server::{Server, read_request, respond, script};
use super::{Names, get, limits, rules, send, url};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const CONNECTED: &str = "HTTP/1.1 200 Connection established\r\n\r\n";

/// A proxy that answers this, and connects to one server, whatever it is asked for; and what it was asked.
async fn proxy(answer: &'static str, to: SocketAddr) -> (Server, Arc<Mutex<String>>) {
    let heard = Arc::new(Mutex::new(String::new()));
    let kept = heard.clone();
    let script = script(move |mut stream| {
        let kept = kept.clone();
        async move {
            let request = read_request(&mut *stream).await;
            kept.lock().unwrap().push_str(&request);
            let _ = stream.write_all(answer.as_bytes()).await;
            if answer == CONNECTED {
                let mut server = TcpStream::connect(to).await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut server).await;
            }
        }
    });
    (Server::start(script).await, heard)
}

struct Proxied(Arc<Names>, Proxies);

impl Resolve for Proxied {
    fn resolve(&self, name: &str, tenant: &str) -> Answering {
        self.0.resolve(name, tenant)
    }

    fn proxies(&self) -> Option<&Proxies> {
        Some(&self.1)
    }
}

/// Asks a URL with both variables naming this proxy.
async fn ask(target: &str, tls: &Tls, proxy: &Server) -> Result<Response, RequestErrorKind> {
    let variable = |name: &str| match name {
        "HTTP_PROXY" | "HTTPS_PROXY" => {
            let port = proxy.address.port();
            Some(format!("http://user:pa%40ss@proxy.example:{port}"))
        }
        _ => None,
    };
    let names: &[(&str, &[&[&str]])] = &[
        ("a.example", &[&["8.8.8.8"]]),
        ("private.example", &[&["10.0.0.1"]]),
        ("here.example", &[&["127.0.0.1"]]),
        ("proxy.example", &[&["127.0.0.1"]]),
    ];
    let settings = Settings {
        system: "test",
        rules: rules(),
        limits: limits(),
    };
    let resolver = Proxied(Names::of(names), Proxies::new(variable));
    let metrics = OutboundMetrics::register(&mut Registry::default());
    let client = Client::new(settings, Arc::new(resolver), metrics);
    send(&client, get(&url(target), tls)).await
}

fn plain() -> Tls {
    Tls::new(&Roots::Unchecked, None).unwrap()
}

/// The proxy would look up a name itself, and reach what is blocked here.
#[tokio::test]
async fn a_proxy_is_asked_for_the_address_that_was_checked() {
    let authority = Authority::new("ca.pem");
    let signed = authority.sign(&["a.example"], |_| ());
    let secure = Server::start_tls(signed.config(), respond(OK)).await;
    let tls = Tls::new(&Roots::Only(&authority.pem), None).unwrap();
    let (through, heard) = proxy(CONNECTED, secure.address).await;
    let response = ask("https://a.example/", &tls, &through).await.unwrap();
    assert_eq!(response.status, 200);
    let heard = heard.lock().unwrap();
    assert!(
        heard.starts_with("CONNECT 8.8.8.8:443 HTTP/1.1\r\n"),
        "{heard}"
    );
    assert!(
        heard.contains("proxy-authorization: Basic dXNlcjpwYUBzcw==\r\n"),
        "{heard}"
    );
    assert!(!heard.contains("a.example"), "{heard}");
}

#[tokio::test]
async fn plain_http_goes_through_a_proxy_too() {
    let server = Server::start(respond(OK)).await;
    let (through, heard) = proxy(CONNECTED, server.address).await;
    let response = ask("http://a.example:8080/", &plain(), &through)
        .await
        .unwrap();
    assert_eq!((response.status.as_u16(), server.accepted()), (200, 1));
    assert!(heard.lock().unwrap().starts_with("CONNECT 8.8.8.8:8080 "));
}

#[tokio::test]
async fn what_is_blocked_is_not_asked_of_a_proxy() {
    let server = Server::start(respond(OK)).await;
    let (through, _) = proxy(CONNECTED, server.address).await;
    for target in [
        "http://private.example/",
        "http://10.0.0.1/",
        "http://169.254.169.254/",
    ] {
        let blocked = ask(target, &plain(), &through).await.unwrap_err();
        assert!(matches!(blocked, RequestErrorKind::Blocked(_)), "{blocked}");
    }
    assert_eq!(through.accepted(), 0);
}

#[tokio::test]
async fn this_machine_is_reached_without_a_proxy() {
    let server = Server::start(respond(OK)).await;
    let (through, _) = proxy(CONNECTED, server.address).await;
    let port = server.address.port();
    for host in ["here.example", "127.0.0.1"] {
        let target = format!("http://{host}:{port}/");
        let response = ask(&target, &plain(), &through).await.unwrap();
        assert_eq!(response.status, 200, "{host}");
    }
    assert_eq!(through.accepted(), 0);
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_without_its_password() {
    let server = Server::start(respond(OK)).await;
    for (answer, words) in [
        (
            "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
            "it answers 403 Forbidden",
        ),
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            "it asks for another user name and password",
        ),
        ("", "connection closed before message completed"),
        (
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "it says more than its answer",
        ),
    ] {
        let (through, _) = proxy(answer, server.address).await;
        let error = ask("http://a.example/", &plain(), &through)
            .await
            .unwrap_err();
        let expected = format!(
            "could not connect to 8.8.8.8:80: through the proxy http://proxy.example:{} (HTTP_PROXY): {words}; what NO_PROXY lists is reached without it",
            through.address.port()
        );
        assert_eq!(error.to_string(), expected);
    }
}
