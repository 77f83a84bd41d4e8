//! Good responses, and bad ones.

use http::{HeaderValue, Method, StatusCode};
use tokio::io::AsyncWriteExt;

use super::super::{BadResponse, Part, RequestErrorKind, RequestLimits, Response};
use super::server::{Server, read_to_end, record, respond, script};
use super::{ask, at, client, get, limits, send, unchecked, url};

async fn asked(bytes: impl Into<Vec<u8>>) -> Result<Response, RequestErrorKind> {
    let server = Server::start(respond(bytes)).await;
    ask(&client(limits()), &at(server.address)).await
}

async fn check(bytes: impl Into<Vec<u8>>, kind: impl Into<RequestErrorKind>) {
    let bytes = bytes.into();
    let said = String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned();
    assert_eq!(asked(bytes).await.err(), Some(kind.into()), "{said}");
}

async fn check_body(bytes: &str, body: &str) {
    let response = asked(bytes)
        .await
        .unwrap_or_else(|kind| panic!("{bytes}: {kind}"));
    assert_eq!(response.body, body, "{bytes}");
}

fn too_large(part: Part, limit: usize) -> RequestErrorKind {
    RequestErrorKind::TooLarge { part, limit }
}

#[tokio::test]
async fn a_response_is_returned_whatever_its_status() {
    let bytes =
        "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\ncontent-length: 4\r\nx: 1\r\nx: 2\r\n\r\nbusy";
    let response = asked(bytes).await.unwrap();
    assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        response.headers.get("retry-after"),
        Some(&HeaderValue::from_static("7"))
    );
    assert_eq!(response.headers.get_all("x").iter().count(), 2);
    assert_eq!(response.body, "busy");
    for code in [200, 204, 304, 306, 400, 401, 404, 500, 599, 999] {
        let response = asked(format!("HTTP/1.1 {code} x\r\ncontent-length: 0\r\n\r\n"))
            .await
            .unwrap();
        assert_eq!(response.status.as_u16(), code);
    }
}

#[tokio::test]
async fn a_body_ends_where_the_head_says() {
    check_body("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "ok").await;
    // What follows the body is ignored.
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
async fn a_response_to_head_has_no_body() {
    let server = Server::start(respond(
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n",
    ))
    .await;
    let (target, tls) = (at(server.address), unchecked());
    let mut request = get(&target, &tls);
    request.method = Method::HEAD;
    let response = send(&client(limits()), request).await.unwrap();
    assert_eq!((response.status.as_u16(), response.body.len()), (200, 0));
}

#[tokio::test]
async fn a_request_has_the_headers_and_body_of_its_caller() {
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
        // These are replaced.
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
async fn what_is_not_http_is_a_bad_response() {
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
        check(garbage, BadResponse::NotHttp).await;
    }
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for chunk in [
        "x\r\n",
        "-1\r\na\r\n",
        "ffffffffffffffffff\r\na",
        "1\r\nabc\r\n",
    ] {
        check(format!("{chunked}{chunk}"), BadResponse::NotHttp).await;
    }
}

#[tokio::test]
async fn a_response_that_stops_early_is_truncated() {
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
        check(part, BadResponse::Truncated).await;
    }
}

#[tokio::test]
async fn a_server_that_vanishes_is_a_bad_response() {
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
        let kind = ask(&client(limits()), &at(server.address))
            .await
            .unwrap_err();
        let vanished = matches!(
            kind,
            RequestErrorKind::BadResponse(BadResponse::Connection(_) | BadResponse::Truncated)
        );
        assert!(vanished, "{part}: {kind:?}");
    }
}

#[tokio::test]
async fn encoded_responses_are_rejected_unread() {
    for header in [
        "content-encoding: gzip",
        "content-encoding: br",
        "content-encoding: identity\r\ncontent-encoding: gzip",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: gzip\r\ntransfer-encoding: chunked",
    ] {
        check(
            format!("HTTP/1.1 200 OK\r\n{header}\r\n\r\n0\r\n\r\n"),
            BadResponse::Encoded,
        )
        .await;
    }
    check(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        BadResponse::Switched,
    )
    .await;
}

#[tokio::test]
async fn a_body_has_a_limit() {
    let limit = limits().response_bytes;
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
                    Some(too_large(Part::ResponseBody, limit)),
                    "{}",
                    &bytes[..60]
                );
            }
        }
    }
    // The announced length suffices, without a byte of the body.
    check(
        "HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n",
        too_large(Part::ResponseBody, limit),
    )
    .await;
}

#[tokio::test]
async fn a_head_has_a_limit_to_the_byte() {
    for head_bytes in [1000, 8192, 20_000] {
        let limits = RequestLimits {
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
            let server = Server::start(respond(head)).await;
            let found = ask(&client(limits.clone()), &at(server.address)).await;
            assert_eq!(found.is_ok(), fits, "{head_bytes}: {found:?}");
            if !fits {
                assert_eq!(found.err(), Some(too_large(Part::ResponseHead, head_bytes)));
            }
        }
    }
    let head = |count| format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(count));
    assert!(asked(head(100)).await.is_ok());
    check(
        head(101),
        too_large(Part::ResponseHead, limits().head_bytes),
    )
    .await;
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
    let kind = send(&client(limits()), request).await.unwrap_err();
    assert_eq!(kind, too_large(Part::RequestBody, limits().request_bytes));
    assert!(kind.is_unsent());
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn a_response_before_the_request_was_read_counts() {
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
    let limits = RequestLimits {
        request_bytes: 8 << 20,
        ..limits()
    };
    assert_eq!(send(&client(limits), request).await.unwrap().status, 401);
}

/// Whoever wants the status alone has it, whatever the body is.
#[tokio::test]
async fn a_head_is_returned_although_its_body_is_bad() {
    let bodies = [
        "content-length: 999999999999\r\n\r\nx",
        "content-length: 5\r\n\r\nx",
        "content-length: 5\r\ncontent-encoding: gzip\r\n\r\nhello",
        "transfer-encoding: chunked\r\n\r\nnonsense\r\n",
    ];
    let unchecked = unchecked();
    for body in bodies {
        let server = Server::start(respond(format!("HTTP/1.1 202 x\r\n{body}"))).await;
        let url = at(server.address);
        let client = client(limits());
        let response = client.send_for_head(get(&url, &unchecked)).await;
        let response = response.expect(body);
        assert_eq!(response.status, StatusCode::ACCEPTED);
        assert!(response.body.is_empty());
    }
    for (bytes, code) in [
        (
            "HTTP/1.1 302 x\r\nlocation: http://a/\r\n\r\n",
            "BadResponse",
        ),
        ("HTTP/1.1 2", "BadResponse"),
    ] {
        let server = Server::start(respond(bytes)).await;
        let url = at(server.address);
        let client = client(limits());
        let error = client.send_for_head(get(&url, &unchecked)).await;
        assert_eq!(error.unwrap_err().kind.code(), code);
    }
}
