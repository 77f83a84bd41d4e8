//! Time is paused where it matters: it advances when all tasks wait.

mod requests;

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::{Request, Response, StatusCode};
use futures::{StreamExt, future, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Config;
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use podloom_engine::clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};
use tower::retry::RetryLayer;
use tower::{BoxError, Layer, Service, service_fn};

use super::{
    DEADLINE, RETRIES, Requests, Streamed, client, connector, in_time, is_watch, of_command,
};

const LIST: &str = "/api/v1/pods?&limit=100";
const WATCH: &str = "/api/v1/pods?&watch=true&timeoutSeconds=290&resourceVersion=1";

fn request(uri: &str) -> Request<Body> {
    Request::get(uri).body(Body::empty()).expect("a request")
}

type Stalling =
    Response<StreamBody<futures::stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;

/// An answer that starts and never ends.
async fn stalling(status: StatusCode) -> Result<Stalling, BoxError> {
    let begins = stream::iter([Ok(Frame::data(Bytes::from_static(b"{")))]);
    let body = StreamBody::new(begins.chain(stream::pending()).boxed());
    Ok(Response::builder().status(status).body(body)?)
}

/// How long it takes until a request fails.
async fn fails_after<S>(service: S, uri: &str) -> Duration
where
    S: Service<Request<Body>, Response = Stalling, Error = BoxError>,
{
    let begun = Instant::now();
    let answer = in_time(service, request(uri)).await;
    let error = answer
        .map(|response| response.status())
        .expect_err("no answer");
    assert!(error.to_string().contains("within 30 s"), "{error}");
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn no_answer_is_awaited_for_longer_than_the_deadline() {
    let silent = service_fn(async |_| future::pending().await);
    for uri in [LIST, WATCH] {
        assert_eq!(fails_after(silent, uri).await, DEADLINE);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_ends_with_the_deadline() {
    let half = service_fn(async |_| stalling(StatusCode::OK).await);
    assert_eq!(fails_after(half, LIST).await, DEADLINE);
    // A watch that is denied is an answer like any other.
    let refused = service_fn(async |_| stalling(StatusCode::FORBIDDEN).await);
    assert_eq!(fails_after(refused, WATCH).await, DEADLINE);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_begun_goes_on() {
    let watched = service_fn(async |_| stalling(StatusCode::OK).await);
    let response = in_time(watched, request(WATCH)).await.expect("it begins");
    sleep(DEADLINE * 10).await;
    let mut body = response.into_body();
    let frame = body.frame().await.expect("a frame").expect("no error");
    assert_eq!(frame.into_data().ok().as_deref(), Some(&b"{"[..]));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_read_piece_by_piece_goes_on() {
    let listed = service_fn(async |_| stalling(StatusCode::OK).await);
    let mut request = request(LIST);
    request.extensions_mut().insert(Streamed);
    let response = in_time(listed, request).await.expect("it begins");
    let mut body = response.into_body();
    let frame = body.frame().await.expect("a frame").expect("no error");
    assert_eq!(frame.into_data().ok().as_deref(), Some(&b"{"[..]));
}

#[tokio::test(start_paused = true)]
async fn waiting_as_long_as_retry_after_says_ends_with_the_deadline() {
    let busy = service_fn(async |_| {
        let mut response = stalling(StatusCode::TOO_MANY_REQUESTS).await?;
        let headers = response.headers_mut();
        headers.insert("retry-after", "600".parse()?);
        Ok(response)
    });
    let retried = RetryLayer::new(RetryPolicy::server_retry()).layer(busy);
    assert_eq!(fails_after(retried, LIST).await, DEADLINE);
}

#[test]
fn watches_are_known_by_their_query() {
    for (uri, expected) in [
        (WATCH, true),
        ("/api/v1/pods?watch=1", true),
        (LIST, false),
        ("/api/v1/namespaces/watch=true/pods", false),
        ("/api/v1/pods?labelSelector=watch", false),
    ] {
        assert_eq!(is_watch(request(uri).uri()), expected, "{uri}");
    }
}

/// Answers CONNECT, and connects to one server, whatever it was asked for. Returns its address, and what it was asked.
async fn proxy(server: String) -> (String, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address").to_string();
    let heard = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&heard);
    tokio::spawn(async move {
        let (mut peer, _) = listener.accept().await.expect("a connection");
        let mut bytes = [0; 4096];
        let length = peer.read(&mut bytes).await.expect("a request");
        let request = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default());
        kept.lock().expect("no panic").push_str(&request);
        let answer = b"HTTP/1.1 200 Connection established\r\n\r\n";
        peer.write_all(answer).await.expect("an answer");
        let mut server = TcpStream::connect(server).await.expect("a server");
        let _ended = copy_bidirectional(&mut peer, &mut server).await;
    });
    (address, heard)
}

#[tokio::test]
async fn the_api_server_is_reached_through_a_proxy() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    let (mut config, asked) = answering(answer).await;
    let server = config.cluster_url.authority().expect("an authority");
    let (proxy, heard) = proxy(server.to_string()).await;
    config.cluster_url = "http://api.example:6443".parse().expect("a URI");
    let url = format!("http://user:pass@{proxy}");
    config.proxy_url = Some(url.parse().expect("a URI"));
    let client = of_command(&config).expect("a client");
    let version = Request::get("/version")
        .body(Vec::new())
        .expect("a request");
    assert_eq!(client.request_text(version).await.expect("an answer"), "{}");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let heard = heard.lock().expect("no panic");
    assert!(
        heard.starts_with("CONNECT api.example:6443 HTTP/1.1\r\n"),
        "{heard}"
    );
    assert!(
        heard.contains("proxy-authorization: Basic dXNlcjpwYXNz\r\n"),
        "{heard}"
    );
}

/// The kernel lists the active timer of each connection: 02 is keepalive.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn connections_have_keepalive() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let server = listener.local_addr().expect("an address");
    let uri = format!("http://{server}").parse().expect("a URI");
    let connection = connector().call(uri).await.expect("connected");
    let local = connection.inner().local_addr().expect("an address");
    let row = format!(
        " 0100007F:{:04X} 0100007F:{:04X} ",
        local.port(),
        server.port()
    );
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux has it");
    let row = table
        .lines()
        .find(|line| line.contains(&row))
        .expect("it is listed");
    let timer = row.split_whitespace().nth(5).expect("a timer");
    assert!(timer.starts_with("02:"), "{row}");
}

/// An API server that gives the same answer to each request, on one connection each, and the number of requests.
async fn answering(answer: &'static str) -> (Config, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let server = listener.local_addr().expect("an address");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            let _read = peer.read(&mut [0; 4096]).await;
            count.fetch_add(1, Ordering::Relaxed);
            let _written = peer.write_all(answer.as_bytes()).await;
        }
    });
    let url = format!("http://{server}").parse().expect("a URI");
    (Config::new(url), asked)
}

/// What the clock shows after an answer, and whether that was a success.
async fn now_after(answer: &'static str) -> (String, bool) {
    let (config, _) = answering(answer).await;
    let clock = Clock::new();
    let client = client(&config, &Requests::default(), &clock).expect("a client");
    let version = Request::get("/version")
        .body(Vec::new())
        .expect("a request");
    let is_success = client.request_text(version).await.is_ok();
    (clock.now().to_string(), is_success)
}

#[tokio::test]
async fn the_clock_is_the_api_servers() {
    let answer = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    let (now, is_success) = now_after(answer).await;
    assert!(is_success && now.starts_with("1994-11-06T08:49:"), "{now}");
}

/// A proxy in front of a dead API server answers with its own time. Cleaners would be old enough too early.
#[tokio::test]
async fn the_clock_does_not_believe_errors() {
    let answer = "HTTP/1.1 502 Bad Gateway\r\nDate: Wed, 06 Nov 2124 08:49:37 GMT\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    let (now, is_success) = now_after(answer).await;
    assert!(!is_success && !now.starts_with("2124"), "{now}");
}

/// A webhook may reject with a status that asks for a retry. Its message must arrive before the deadline of the request.
#[tokio::test]
async fn after_the_last_retry_the_answer_is_returned() {
    let answer = "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Length: 10\r\n\r\n{\"a\": \"b\"}";
    let (config, asked) = answering(answer).await;
    let client = client(&config, &Requests::default(), &Clock::new()).expect("a client");
    let request = Request::get("/version")
        .body(Vec::new())
        .expect("a request");
    let error = client.request_text(request).await.expect_err("a refusal");
    assert!(matches!(error, kube::Error::Api(_)), "{error}");
    assert_eq!(asked.load(Ordering::Relaxed), 1 + RETRIES as usize);
}
