//! Servers that are slow, at every step of a request.

use std::future::pending;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use prometheus_client::registry::Registry;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::super::{
    Answering, Client, ConcurrencyLimit, OutboundMetrics, RequestErrorKind, RequestLimits,
    RequestPhase, Resolve, Settings, Url,
};
use super::server::{self, Server, read_request, read_to_end, script};
use super::{ask, at, client, get, limits, rules, send, unchecked, url};

const CONNECT: Duration = Duration::from_millis(300);
const TOTAL: Duration = Duration::from_millis(600);

fn short() -> RequestLimits {
    RequestLimits {
        connect_timeout: CONNECT,
        total_timeout: TOTAL,
        ..limits()
    }
}

#[track_caller]
fn check(found: &Result<super::Response, RequestErrorKind>, phase: RequestPhase, begun: Instant) {
    let after = match phase {
        RequestPhase::Resolve | RequestPhase::Connect | RequestPhase::Tls => CONNECT,
        RequestPhase::Head | RequestPhase::Body => TOTAL,
    };
    assert_eq!(
        found.as_ref().err(),
        Some(&RequestErrorKind::TimedOut { phase, after })
    );
    let took = begun.elapsed();
    assert!(
        took >= after && took < after + Duration::from_secs(5),
        "{took:?}"
    );
}

async fn check_server(script: server::Script, phase: RequestPhase) {
    let server = Server::start(script).await;
    let begun = Instant::now();
    let found = ask(&client(short()), &at(server.address)).await;
    check(&found, phase, begun);
}

/// Name servers that are silent.
struct Silent;

impl Resolve for Silent {
    fn resolve(&self, _name: &str, _tenant: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        pending().boxed()
    }
}

/// Name servers without room for another lookup.
struct Full;

impl Resolve for Full {
    fn resolve(&self, _name: &str, _tenant: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        pending().boxed()
    }

    fn begin(&self, _name: &str, _tenant: &str) -> BoxFuture<'static, Answering> {
        pending().boxed()
    }
}

#[tokio::test]
async fn a_request_without_room_to_look_up_its_name_is_busy() {
    let limits = RequestLimits {
        permit_timeout: Duration::from_millis(100),
        ..short()
    };
    let settings = Settings {
        system: "test",
        rules: rules(),
        limits,
    };
    let metrics = OutboundMetrics::register(&mut Registry::default());
    let client = Client::new(settings, Arc::new(Full), metrics);
    let found = ask(&client, &url("http://full.example/")).await;
    let expected = RequestErrorKind::Busy {
        limit: ConcurrencyLimit::Lookups,
        max: 4,
        waited: Duration::from_millis(100),
    };
    assert_eq!(found.err(), Some(expected));
}

#[tokio::test]
async fn a_lookup_has_a_timeout() {
    let settings = Settings {
        system: "test",
        rules: rules(),
        limits: short(),
    };
    let metrics = OutboundMetrics::register(&mut Registry::default());
    let client = Client::new(settings, Arc::new(Silent), metrics);
    let begun = Instant::now();
    let found = ask(&client, &url("http://silent.example/")).await;
    check(&found, RequestPhase::Resolve, begun);
}

#[tokio::test]
async fn connecting_has_a_timeout() {
    let (address, _listener, _queue) = server::full([127, 0, 0, 1].into(), 0).await;
    let begun = Instant::now();
    let found = ask(&client(short()), &at(address)).await;
    check(&found, RequestPhase::Connect, begun);
}

#[tokio::test]
async fn the_tls_handshake_has_a_timeout() {
    // Reads what comes and says nothing.
    let server = Server::start(script(|mut stream| async move {
        read_to_end(&mut *stream).await
    }))
    .await;
    let begun = Instant::now();
    let found = ask(
        &client(short()),
        &url(&format!("https://{}/", server.address)),
    )
    .await;
    check(&found, RequestPhase::Tls, begun);
}

#[tokio::test]
async fn a_response_that_never_comes_times_out() {
    let silent = script(|mut stream| async move { read_to_end(&mut *stream).await });
    check_server(silent, RequestPhase::Head).await;
}

#[tokio::test]
async fn a_server_that_reads_nothing_times_out() {
    let deaf = script(|stream| async move {
        let _stream = stream;
        pending::<()>().await;
    });
    let server = Server::start(deaf).await;
    let limits = RequestLimits {
        request_bytes: 64 << 20,
        ..short()
    };
    let (target, tls) = (at(server.address), unchecked());
    let mut request = get(&target, &tls);
    request.body = vec![0; 64 << 20].into();
    let begun = Instant::now();
    let found = send(&client(limits), request).await;
    check(&found, RequestPhase::Head, begun);
}

/// Sends a text, then a piece every 20 ms, for ever.
fn drip(first: &'static str, piece: &'static str) -> server::Script {
    script(move |mut stream| async move {
        read_request(&mut *stream).await;
        let mut sent = stream.write_all(first.as_bytes()).await;
        while sent.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            sent = stream.write_all(piece.as_bytes()).await;
        }
    })
}

#[tokio::test]
async fn a_head_that_drips_times_out() {
    check_server(drip("", "H"), RequestPhase::Head).await;
    check_server(drip("HTTP/1.1 200 OK\r\na: ", "b"), RequestPhase::Head).await;
    // Answers before the answer, for ever.
    check_server(
        drip("", "HTTP/1.1 100 Continue\r\n\r\n"),
        RequestPhase::Head,
    )
    .await;
}

#[tokio::test]
async fn a_body_that_drips_times_out() {
    check_server(
        drip("HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n", "a"),
        RequestPhase::Body,
    )
    .await;
    check_server(drip("HTTP/1.1 200 OK\r\n\r\n", "a"), RequestPhase::Body).await;
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    check_server(drip(chunked, "1\r\na\r\n"), RequestPhase::Body).await;
    check_server(drip(chunked, "0"), RequestPhase::Body).await;
}

#[tokio::test]
async fn a_request_may_have_its_own_timeout() {
    let late = script(|mut stream| async move {
        read_request(&mut *stream).await;
        tokio::time::sleep(TOTAL + Duration::from_millis(300)).await;
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await;
    });
    let server = Server::start(late).await;
    let (target, tls): (Url, _) = (at(server.address), unchecked());
    let client = client(short());
    assert!(send(&client, get(&target, &tls)).await.is_err());
    let mut patient = get(&target, &tls);
    patient.total_timeout = Some(Duration::from_secs(30));
    assert!(send(&client, patient).await.is_ok());
}

#[tokio::test]
async fn connecting_is_bounded_by_the_total_timeout() {
    let (address, _listener, _queue) = server::full([127, 0, 0, 1].into(), 0).await;
    let (target, tls) = (at(address), unchecked());
    let mut hasty = get(&target, &tls);
    hasty.total_timeout = Some(CONNECT);
    let begun = Instant::now();
    let found = send(&client(limits()), hasty).await;
    check(&found, RequestPhase::Connect, begun);
}

#[tokio::test]
async fn infinite_timeouts_work() {
    let limits = RequestLimits {
        connect_timeout: Duration::MAX,
        total_timeout: Duration::MAX,
        permit_timeout: Duration::MAX,
        ..limits()
    };
    let server = Server::start(server::respond("HTTP/1.1 204 No Content\r\n\r\n")).await;
    let response = ask(&client(limits), &at(server.address)).await.unwrap();
    assert_eq!(response.status, 204);
}

#[tokio::test]
async fn a_request_that_is_dropped_closes_its_connection() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let server = Server::start(script(move |mut stream| {
        let tell = tell.clone();
        async move {
            read_request(&mut *stream).await;
            tell.send("asked").unwrap();
            read_to_end(&mut *stream).await;
            tell.send("closed").unwrap();
        }
    }))
    .await;
    let (client, target) = (client(limits()), at(server.address));
    tokio::select! {
        found = ask(&client, &target) => panic!("{found:?}"),
        said = told.recv() => assert_eq!(said, Some("asked")),
    }
    let closed = tokio::time::timeout(Duration::from_secs(20), told.recv()).await;
    assert_eq!(closed.expect("the connection stays open"), Some("closed"));
}
