//! What the exporter sends, to a receiver that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::HeaderMap;
use podloom_engine::sent::SendMetrics;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, Sender};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::trace;

use super::super::QUEUE;
use super::super::export::client;
use super::super::{Exporter, endpoint};
use super::{Step, TRACES, UID, shown, steps};

/// More than any test takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// An exporter with so many steps in its queue, and what puts more into it.
fn exporter(count: usize, url: &str) -> (Exporter, Sender<Step>) {
    let (sender, queue) = mpsc::channel(QUEUE);
    let made = steps(|| trace!(target: TRACES, trace = UID, step = "session", seconds = 1.0));
    let step = made.into_iter().next().expect("a step");
    for _ in 0..count {
        sender.try_send(step.clone()).expect("room for it");
    }
    let endpoint = endpoint(url).expect("a URL");
    let exporter = Exporter {
        http: client(&endpoint, None).expect("a client"),
        headers: HeaderMap::new(),
        endpoint,
        queue,
        metrics: SendMetrics::default(),
    };
    (exporter, sender)
}

/// A receiver that takes this long for an answer: its URL, and how many spans it got.
async fn receiver(delay: Duration) -> (String, Arc<AtomicUsize>) {
    receiver_that_says(delay, "").await
}

/// A receiver with this answer.
async fn receiver_that_says(delay: Duration, says: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let got = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&got);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, delay, says, Arc::clone(&counted)));
        }
    });
    (url, got)
}

async fn answer(
    stream: TcpStream,
    delay: Duration,
    says: &str,
    got: Arc<AtomicUsize>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok()?;
            match line.trim_end().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().ok()?,
                Some(_) => {}
                None if line == "\r\n" => break,
                None if line.starts_with("POST ") => {}
                None => return None,
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let body = String::from_utf8(body).ok()?;
        got.fetch_add(body.matches("\"spanId\"").count(), Ordering::SeqCst);
        sleep(delay).await;
        let length = says.len();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{says}");
        stream.write_all(answer.as_bytes()).await.ok()?;
    }
}

#[tokio::test]
async fn what_waits_when_the_operator_stops_is_sent() {
    let (url, got) = receiver(Duration::ZERO).await;
    let stop = CancellationToken::new();
    stop.cancel();
    let (exporter, _sender) = exporter(1300, &url);
    exporter.run(None, stop).await;
    assert_eq!(got.load(Ordering::SeqCst), 1300);
}

#[tokio::test]
async fn a_request_that_is_under_way_when_the_operator_stops_ends() {
    let (url, got) = receiver(Duration::from_millis(200)).await;
    let stop = CancellationToken::new();
    let (exporter, _sender) = exporter(600, &url);
    let metrics = exporter.metrics.clone();
    let running = tokio::spawn(exporter.run(None, stop.clone()));
    let begun = Instant::now();
    while got.load(Ordering::SeqCst) == 0 {
        assert!(begun.elapsed() < PATIENCE, "nothing was sent");
        sleep(Duration::from_millis(5)).await;
    }
    stop.cancel();
    running.await.expect("it ends");
    assert_eq!(got.load(Ordering::SeqCst), 600);
    let text = shown(&metrics);
    assert!(text.contains("{outcome=\"sent\"} 600\n"), "{text}");
}

/// Neither a receiver that hangs nor one that is gone holds up the end.
#[tokio::test]
async fn a_stop_does_not_wait_for_a_receiver() {
    let (hangs, _) = receiver(Duration::from_secs(600)).await;
    for url in [&hangs, "http://127.0.0.1:1"] {
        let (stop, begun) = (CancellationToken::new(), Instant::now());
        stop.cancel();
        let (exporter, _sender) = exporter(1300, url);
        exporter.run(None, stop).await;
        assert!(begun.elapsed() < Duration::from_secs(3), "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_request_is_sent_at_once_and_another_one_after_a_second() {
    let (mut exporter, _sender) = exporter(600, "http://127.0.0.1:1");
    let mut batch = Vec::new();
    for (count, wait) in [(512, Duration::ZERO), (88, Duration::from_secs(1))] {
        let begun = Instant::now();
        exporter.gather(&mut batch, false).await;
        assert_eq!((batch.len(), begun.elapsed()), (count, wait));
        batch.clear();
    }
}

/// A receiver may take a request and reject some of its spans.
#[tokio::test]
async fn what_the_receiver_rejects_was_not_sent() {
    let says = r#"{"partialSuccess":{"rejectedSpans":"100","errorMessage":"too old"}}"#;
    let (url, _) = receiver_that_says(Duration::ZERO, says).await;
    let stop = CancellationToken::new();
    stop.cancel();
    let (exporter, _sender) = exporter(600, &url);
    let metrics = exporter.metrics.clone();
    exporter.run(None, stop).await;
    let text = shown(&metrics);
    // Two requests: one of 512, and one of 88, of which no more than all can be lost.
    assert!(text.contains("{outcome=\"sent\"} 412\n"), "{text}");
    assert!(text.contains("{outcome=\"failed\"} 188\n"), "{text}");
}
