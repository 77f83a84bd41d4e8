//! The sink.

use std::time::{Duration, Instant};

use podloom_tests::doubles::{Double, Reply};

use super::ask;

#[test]
fn a_sink_records_requests_and_forgets_them() {
    let sink = Double::sink(&[]);
    let answer = ask(
        sink.address(),
        "POST",
        "/events?a=b",
        r#"{"type": "started"}"#,
    );
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    ask(sink.address(), "DELETE", "/", "");

    let received = sink.received();
    assert_eq!(received.count, 2);
    let first = &received.requests[0];
    assert_eq!(first.method, "POST");
    assert_eq!(first.path, "/events?a=b");
    assert_eq!(first.headers["host"], "double");
    assert_eq!(first.body, r#"{"type": "started"}"#);
    assert_eq!(first.length, 19);
    assert_eq!(received.requests[1].method, "DELETE");

    sink.forget();
    assert_eq!(sink.received().count, 0);
    assert!(sink.received().requests.is_empty());
}

#[test]
fn a_sink_answers_as_configured() {
    let flags = ["--status", "503", "--body", "too busy", "--delay", "0.3"];
    let sink = Double::sink(&flags);
    let begun = Instant::now();
    let answer = ask(sink.address(), "GET", "/", "");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert!(answer.starts_with("HTTP/1.0 503 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\ntoo busy"), "{answer}");

    let reply = Reply {
        status: 201,
        body: "{}".to_owned(),
        ..Reply::default()
    };
    sink.reply(&reply);
    let answer = ask(sink.address(), "GET", "/", "");
    assert!(answer.starts_with("HTTP/1.0 201 Created\r\n"), "{answer}");
    assert!(
        answer.contains("content-type: application/json\r\n"),
        "{answer}"
    );
}

#[test]
fn a_sink_says_when_to_come_back_and_loses_answers() {
    let sink = Double::sink(&[]);
    sink.reply(&Reply::status(503).with_header("Retry-After", "7"));
    let answer = ask(sink.address(), "POST", "/", "");
    assert!(answer.starts_with("HTTP/1.0 503 "), "{answer}");
    assert!(answer.contains("retry-after: 7\r\n"), "{answer}");

    sink.reply(&Reply::lost());
    assert_eq!(ask(sink.address(), "POST", "/", "{}"), "");
    let received = sink.received();
    assert_eq!(received.count, 2, "the request counts");
    assert_eq!(received.requests[1].body, "{}");
}

#[test]
fn a_sink_keeps_a_limited_number_of_requests_and_bytes() {
    let sink = Double::sink(&[]);
    ask(sink.address(), "POST", "/long", &"x".repeat(100_000));
    let long = sink.received().requests.remove(0);
    assert_eq!((long.body.len(), long.length), (65_536, 100_000));

    for number in 0..1_000 {
        ask(sink.address(), "GET", &format!("/{number}"), "");
    }
    let received = sink.received();
    assert_eq!((received.count, received.requests.len()), (1_001, 1_000));
    assert_eq!(received.requests[0].path, "/0", "the oldest was dropped");
}

#[test]
fn a_sink_refuses_a_body_that_is_too_long() {
    let sink = Double::sink(&[]);
    let answer = ask(
        sink.address(),
        "POST",
        "/",
        &"x".repeat(16 * 1024 * 1024 + 1),
    );
    assert!(answer.starts_with("HTTP/1.0 413 "), "{answer}");
    assert_eq!(sink.received().count, 0);
}
