//! Answers that are right, and those that are not.

use std::time::{Duration, Instant};

use http::{HeaderValue, Method, StatusCode};
use rustls::ServerConfig;
use tokio::io::AsyncWriteExt;

use super::super::{Answer, Broken, Failure, Limits, Part, Url};
use super::secure::Authority;
use super::server::{Server, answer, read_request, read_to_end, record, script};
use super::{ask, at, client, get, limits, send, unchecked, url};

async fn asked(bytes: impl Into<Vec<u8>>) -> Result<Answer, Failure> {
    let server = Server::start(answer(bytes)).await;
    ask(&client(limits()), &at(server.address)).await
}

async fn check(bytes: impl Into<Vec<u8>>, failure: impl Into<Failure>) {
    let bytes = bytes.into();
    let said = String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned();
    assert_eq!(asked(bytes).await.err(), Some(failure.into()), "{said}");
}

async fn check_body(bytes: &str, body: &str) {
    let answer = asked(bytes)
        .await
        .unwrap_or_else(|failure| panic!("{bytes}: {failure}"));
    assert_eq!(answer.body, body, "{bytes}");
}

fn too_large(part: Part, limit: usize) -> Failure {
    Failure::TooLarge { part, limit }
}

#[tokio::test]
async fn a_whole_answer_comes_back_whatever_its_status() {
    let bytes =
        "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\ncontent-length: 4\r\nx: 1\r\nx: 2\r\n\r\nbusy";
    let answer = asked(bytes).await.unwrap();
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        answer.headers.get("retry-after"),
        Some(&HeaderValue::from_static("7"))
    );
    assert_eq!(answer.headers.get_all("x").iter().count(), 2);
    assert_eq!(answer.body, "busy");
    for code in [200, 204, 304, 306, 400, 401, 404, 500, 599, 999] {
        let answer = asked(format!("HTTP/1.1 {code} x\r\ncontent-length: 0\r\n\r\n"))
            .await
            .unwrap();
        assert_eq!(answer.status.as_u16(), code);
    }
}

#[tokio::test]
async fn a_body_ends_where_the_head_says() {
    check_body("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "ok").await;
    // Whatever follows is nobody's answer.
    check_body(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 500 No\r\n\r\n",
        "ok",
    )
    .await;
    check_body("HTTP/1.1 200 OK\r\n\r\nto the end", "to the end").await;
    check_body("HTTP/1.0 200 OK\r\n\r\nold", "old").await;
    check_body("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1;x=y\r\nk\r\n0\r\nt: 1\r\n\r\n", "ok").await;
    check_body(
        "HTTP/1.1 200 OK\r\ncontent-encoding: identity\r\ncontent-length: 2\r\n\r\nok",
        "ok",
    )
    .await;
    check_body(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "ok",
    )
    .await;
    check_body("HTTP/1.1 204 No Content\r\n\r\nignored", "").await;
}

#[tokio::test]
async fn an_answer_to_head_has_no_body() {
    let server = Server::start(answer(
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n",
    ))
    .await;
    let (target, tls) = (at(server.address), unchecked());
    let mut request = get(&target, &tls);
    request.method = Method::HEAD;
    let answer = send(&client(limits()), request).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0));
}

#[tokio::test]
async fn a_request_says_what_it_was_told_to() {
    let (script, heard) = record();
    let server = Server::start(script).await;
    let target = url(&format!("http://{}/a%20b/c?d=e&f", server.address));
    let tls = unchecked();
    let mut request = get(&target, &tls);
    request.method = Method::POST;
    request.body = "body".into();
    for (name, value) in [
        ("content-type", "text/yaml"),
        ("authorization", "Bearer token"),
        // None of these are the caller's to say.
        ("host", "evil.example"),
        ("content-length", "9"),
        ("transfer-encoding", "chunked"),
        ("connection", "keep-alive"),
        ("accept-encoding", "gzip"),
        ("expect", "100-continue"),
        ("upgrade", "h2c"),
        ("te", "trailers"),
        ("trailer", "x"),
    ] {
        request
            .headers
            .append(name, HeaderValue::from_static(value));
    }
    send(&client(limits()), request).await.unwrap();
    let heard = heard.lock().unwrap().clone();
    let (head, body) = heard.split_once("\r\n\r\n").unwrap();
    let (line, headers) = head.split_once("\r\n").unwrap();
    assert_eq!(line, "POST /a%20b/c?d=e&f HTTP/1.1");
    let mut headers: Vec<&str> = headers.lines().collect();
    headers.sort_unstable();
    let host = format!("host: {}", server.address);
    let agent = concat!("user-agent: podloom/", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        headers,
        [
            "accept-encoding: identity",
            "authorization: Bearer token",
            "connection: close",
            "content-length: 4",
            "content-type: text/yaml",
            &host,
            agent,
        ]
    );
    assert_eq!(body, "body");
}

#[tokio::test]
async fn a_url_without_a_path_asks_for_the_root() {
    let (script, heard) = record();
    let server = Server::start(script).await;
    let target = url(&format!("http://{}?a", server.address));
    ask(&client(limits()), &target).await.unwrap();
    let heard = heard.lock().unwrap().clone();
    assert!(heard.starts_with("GET /?a HTTP/1.1\r\n"), "{heard}");
}

#[tokio::test]
async fn what_is_no_http_is_broken() {
    for garbage in [
        "garbage",
        "\u{0}\u{1}\u{2}\r\n\r\n",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: b\u{0}c\r\n\r\n",
        "HTTP/1.1 200 OK\r\na : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: b\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999999\r\n\r\n",
        "<html>not found</html>\r\n\r\n",
    ] {
        check(garbage, Broken::NotHttp).await;
    }
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for chunk in [
        "x\r\n",
        "-1\r\na\r\n",
        "ffffffffffffffffff\r\na",
        "1\r\nabc\r\n",
    ] {
        check(format!("{chunked}{chunk}"), Broken::NotHttp).await;
    }
}

#[tokio::test]
async fn an_answer_that_stops_early_is_no_answer() {
    for part in [
        "",
        "HTTP/1.1 20",
        "HTTP/1.1 200 OK\r\na: b",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        check(part, Broken::EndedEarly).await;
    }
}

#[tokio::test]
async fn a_server_that_vanishes_breaks_the_answer() {
    for part in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
    ] {
        // Closing with something unread resets the connection.
        let server = Server::start(script(move |mut stream| async move {
            use tokio::io::AsyncReadExt;
            let mut byte = [0];
            let _ = stream.read(&mut byte).await;
            let _ = stream.write_all(part.as_bytes()).await;
            let _ = stream.flush().await;
        }))
        .await;
        let failure = ask(&client(limits()), &at(server.address))
            .await
            .unwrap_err();
        let vanished = matches!(
            failure,
            Failure::Broken(Broken::Connection(_) | Broken::EndedEarly)
        );
        assert!(vanished, "{part}: {failure:?}");
    }
}

#[tokio::test]
async fn encoded_answers_are_refused_unread() {
    for header in [
        "content-encoding: gzip",
        "content-encoding: br",
        "content-encoding: identity\r\ncontent-encoding: gzip",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: gzip\r\ntransfer-encoding: chunked",
    ] {
        check(
            format!("HTTP/1.1 200 OK\r\n{header}\r\n\r\n0\r\n\r\n"),
            Broken::Encoded,
        )
        .await;
    }
    check(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        Broken::Switched,
    )
    .await;
}

#[tokio::test]
async fn a_body_has_a_limit() {
    let limit = limits().answer_bytes;
    let (fits, over) = ("a".repeat(limit), "a".repeat(limit + 1));
    for body in [&fits, &over] {
        let length = body.len();
        for bytes in [
            format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"),
            format!("HTTP/1.1 200 OK\r\n\r\n{body}"),
            format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
            ),
            format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n{:x}\r\n{}\r\n0\r\n\r\n",
                length - 1,
                &body[1..]
            ),
        ] {
            let found = asked(bytes.clone()).await;
            if length == limit {
                assert_eq!(found.unwrap().body.len(), limit);
            } else {
                assert_eq!(
                    found.err(),
                    Some(too_large(Part::Answer, limit)),
                    "{}",
                    &bytes[..60]
                );
            }
        }
    }
    // Not one byte of the body is needed to refuse it.
    check(
        "HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n",
        too_large(Part::Answer, limit),
    )
    .await;
}

fn tls_config() -> ServerConfig {
    Authority::new("ca.pem")
        .sign(&["a.example"], |_| ())
        .config()
}

fn secure(server: &Server) -> Url {
    url(&format!("https://{}/", server.address))
}

/// Sends a text, then a piece again and again as fast as it is taken.
fn flood(first: &'static str, piece: String) -> super::server::Script {
    script(move |mut stream| {
        let piece = piece.clone();
        async move {
            read_request(&mut *stream).await;
            let mut sent = stream.write_all(first.as_bytes()).await;
            while sent.is_ok() {
                sent = stream.write_all(piece.as_bytes()).await;
            }
        }
    })
}

#[tokio::test]
async fn what_never_ends_is_cut_off() {
    let head = too_large(Part::Head, limits().head_bytes);
    let body = too_large(Part::Answer, limits().answer_bytes);
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (first, piece, failure) in [
        ("HTTP/1.1 200 OK\r\n", "a: b\r\n".to_owned(), head.clone()),
        ("HTTP/1.1 200 OK\r\na: ", "b".repeat(1000), head.clone()),
        ("HTTP/1.1 200 ", "OK".to_owned(), head),
        ("HTTP/1.1 200 OK\r\n\r\n", "a".repeat(1000), body.clone()),
        (chunked, "1\r\na\r\n".to_owned(), body),
    ] {
        let server = Server::start(flood(first, piece.clone())).await;
        let found = ask(&client(limits()), &at(server.address)).await;
        assert_eq!(found.err().as_ref(), Some(&failure), "{first}");
        let server = Server::start_tls(tls_config(), flood(first, piece)).await;
        let found = ask(&client(limits()), &secure(&server)).await;
        assert_eq!(found.err(), Some(failure), "{first} over TLS");
    }
    // What is neither head nor body: sizes and extensions of chunks, what follows the last, answers before the answer.
    for (first, piece) in [
        (chunked, "0".repeat(1000)),
        (chunked, "1;".to_owned() + &"x".repeat(1000)),
        (chunked, "1;x\r\n".to_owned()),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
            "a: b\r\n".to_owned(),
        ),
        ("", "HTTP/1.1 100 Continue\r\n\r\n".to_owned()),
    ] {
        let server = Server::start(flood(first, piece.clone())).await;
        let begun = Instant::now();
        let failure = ask(&client(limits()), &at(server.address))
            .await
            .unwrap_err();
        let is_cut = matches!(
            failure,
            Failure::Broken(_)
                | Failure::TooLarge {
                    part: Part::Travel,
                    ..
                }
        );
        assert!(is_cut, "{first}{piece}: {failure:?}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{first}{piece}");
    }
}

#[tokio::test]
async fn a_head_has_a_limit_to_the_byte() {
    for head_bytes in [1000, 8192, 20_000] {
        let limits = Limits {
            head_bytes,
            ..limits()
        };
        let empty = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\na: \r\n\r\n";
        let fitting = head_bytes - empty.len();
        for (padding, fits) in [(fitting, true), (fitting + 1, false)] {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\na: {}\r\n\r\n",
                "b".repeat(padding)
            );
            let server = Server::start(answer(head)).await;
            let found = ask(&client(limits.clone()), &at(server.address)).await;
            assert_eq!(found.is_ok(), fits, "{head_bytes}: {found:?}");
            if !fits {
                assert_eq!(found.err(), Some(too_large(Part::Head, head_bytes)));
            }
        }
    }
    let head = |count| format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(count));
    assert!(asked(head(100)).await.is_ok());
    check(head(101), too_large(Part::Head, limits().head_bytes)).await;
}

#[tokio::test]
async fn a_request_that_is_too_large_is_not_sent() {
    let server = Server::start(script(|mut stream| async move {
        read_to_end(&mut *stream).await
    }))
    .await;
    let (target, tls) = (at(server.address), unchecked());
    let mut request = get(&target, &tls);
    request.body = vec![b'a'; limits().request_bytes + 1].into();
    let failure = send(&client(limits()), request).await.unwrap_err();
    assert_eq!(failure, too_large(Part::Request, limits().request_bytes));
    assert!(failure.is_unsent());
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn an_answer_before_the_request_was_read_counts() {
    let server = Server::start(script(|mut stream| async move {
        let _ = stream
            .write_all(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n")
            .await;
        read_to_end(&mut *stream).await;
    }))
    .await;
    let (target, tls) = (at(server.address), unchecked());
    let mut request = get(&target, &tls);
    request.body = vec![b'a'; 8 << 20].into();
    let limits = Limits {
        request_bytes: 8 << 20,
        ..limits()
    };
    assert_eq!(send(&client(limits), request).await.unwrap().status, 401);
}
