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

use super::super::{Client, Failure, Limits, OutboundMetrics, Phase, Resolve, Settings, Url};
use super::server::{self, Server, read_request, read_to_end, script};
use super::{ask, at, client, get, limits, rules, send, unchecked, url};

const CONNECT: Duration = Duration::from_millis(300);
const TOTAL: Duration = Duration::from_millis(600);

fn short() -> Limits {
    Limits {
        connect: CONNECT,
        total: TOTAL,
        ..limits()
    }
}

#[track_caller]
fn check(found: &Result<super::Answer, Failure>, phase: Phase, begun: Instant) {
    let after = match phase {
        Phase::Resolve | Phase::Connect | Phase::Tls => CONNECT,
        Phase::Answer | Phase::Body => TOTAL,
    };
    assert_eq!(
        found.as_ref().err(),
        Some(&Failure::TimedOut { phase, after })
    );
    let took = begun.elapsed();
    assert!(
        took >= after && took < after + Duration::from_secs(5),
        "{took:?}"
    );
}

async fn check_server(script: server::Script, phase: Phase) {
    let server = Server::start(script).await;
    let begun = Instant::now();
    let found = ask(&client(short()), &at(server.address)).await;
    check(&found, phase, begun);
}

/// Name servers that are silent.
struct Silent;

impl Resolve for Silent {
    fn resolve(&self, _name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        pending().boxed()
    }
}

#[tokio::test]
async fn a_lookup_has_its_time() {
    let settings = Settings {
        system: "test",
        rules: rules(),
        limits: short(),
    };
    let metrics = OutboundMetrics::register(&mut Registry::default());
    let client = Client::new(settings, Arc::new(Silent), metrics);
    let begun = Instant::now();
    let found = ask(&client, &url("http://silent.example/")).await;
    check(&found, Phase::Resolve, begun);
}

#[tokio::test]
async fn connecting_has_its_time() {
    let (address, _listener, _queue) = server::full([127, 0, 0, 1].into(), 0).await;
    let begun = Instant::now();
    let found = ask(&client(short()), &at(address)).await;
    check(&found, Phase::Connect, begun);
}

#[tokio::test]
async fn tls_has_its_time() {
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
    check(&found, Phase::Tls, begun);
}

#[tokio::test]
async fn an_answer_that_never_comes_is_given_up() {
    let silent = script(|mut stream| async move { read_to_end(&mut *stream).await });
    check_server(silent, Phase::Answer).await;
}

#[tokio::test]
async fn a_server_that_reads_nothing_is_given_up() {
    let deaf = script(|stream| async move {
        let _stream = stream;
        pending::<()>().await;
    });
    let server = Server::start(deaf).await;
    let limits = Limits {
        request_bytes: 64 << 20,
        ..short()
    };
    let (target, tls) = (at(server.address), unchecked());
    let mut request = get(&target, &tls);
    request.body = vec![0; 64 << 20].into();
    let begun = Instant::now();
    let found = send(&client(limits), request).await;
    check(&found, Phase::Answer, begun);
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
async fn a_head_that_drips_is_given_up() {
    check_server(drip("", "H"), Phase::Answer).await;
    check_server(drip("HTTP/1.1 200 OK\r\na: ", "b"), Phase::Answer).await;
    // Answers before the answer, for ever.
    check_server(drip("", "HTTP/1.1 100 Continue\r\n\r\n"), Phase::Answer).await;
}

#[tokio::test]
async fn a_body_that_drips_is_given_up() {
    check_server(
        drip("HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n", "a"),
        Phase::Body,
    )
    .await;
    check_server(drip("HTTP/1.1 200 OK\r\n\r\n", "a"), Phase::Body).await;
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    check_server(drip(chunked, "1\r\na\r\n"), Phase::Body).await;
    check_server(drip(chunked, "0"), Phase::Body).await;
}

#[tokio::test]
async fn a_request_may_have_a_time_of_its_own() {
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
    patient.total = Some(Duration::from_secs(30));
    assert!(send(&client, patient).await.is_ok());
}

#[tokio::test]
async fn connecting_takes_no_longer_than_the_whole_request_may() {
    let (address, _listener, _queue) = server::full([127, 0, 0, 1].into(), 0).await;
    let (target, tls) = (at(address), unchecked());
    let mut hasty = get(&target, &tls);
    hasty.total = Some(CONNECT);
    let begun = Instant::now();
    let found = send(&client(limits()), hasty).await;
    check(&found, Phase::Connect, begun);
}

#[tokio::test]
async fn times_without_an_end_are_no_fault() {
    let limits = Limits {
        connect: Duration::MAX,
        total: Duration::MAX,
        wait: Duration::MAX,
        ..limits()
    };
    let server = Server::start(server::answer("HTTP/1.1 204 No Content\r\n\r\n")).await;
    let answer = ask(&client(limits), &at(server.address)).await.unwrap();
    assert_eq!(answer.status, 204);
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
