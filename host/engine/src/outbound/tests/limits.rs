//! Concurrency limits, and the metric of durations.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::super::{
    Client, ConcurrencyLimit, OutboundMetrics, RequestErrorKind, RequestLimits, Settings,
};
use super::server::{Server, read_request, read_to_end, respond, script};
use super::{Names, ask, at, client, get, limits, rules, unchecked};

#[tokio::test]
async fn a_server_gets_no_more_concurrent_requests_than_the_limit() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, seen) = (now.clone(), most.clone());
    let server = Server::start(script(move |mut stream| {
        let (now, most) = (counted.clone(), seen.clone());
        async move {
            read_request(&mut *stream).await;
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            let _ = stream.write_all(b"HTTP/1.1 204 x\r\n\r\n").await;
        }
    }))
    .await;
    let client = Arc::new(client(limits()));
    let mut requests = JoinSet::new();
    for _ in 0..20 {
        let (client, target) = (client.clone(), at(server.address));
        requests.spawn(async move { ask(&client, &target).await.is_ok() });
    }
    assert!(requests.join_all().await.into_iter().all(|is_ok| is_ok));
    assert_eq!(
        most.load(Ordering::SeqCst),
        usize::from(limits().concurrency_per_host)
    );
    assert_eq!(server.accepted(), 20);
}

#[tokio::test]
async fn a_request_without_a_permit_in_time_is_busy() {
    let server = Server::start(script(|mut stream| async move {
        read_to_end(&mut *stream).await
    }))
    .await;
    let limits = RequestLimits {
        permit_timeout: Duration::ZERO,
        ..limits()
    };
    let (client, target) = (client(limits), at(server.address));
    let hanging = async { tokio::join!(ask(&client, &target), ask(&client, &target)) };
    let third = async {
        while server.accepted() < 2 {
            tokio::task::yield_now().await;
        }
        ask(&client, &target).await
    };
    let busy = RequestErrorKind::Busy {
        limit: ConcurrencyLimit::Host,
        max: 2,
        waited: Duration::ZERO,
    };
    tokio::select! {
        _ = hanging => panic!("a response from a silent server"),
        third = third => assert_eq!(third.err(), Some(busy)),
    }
    // The permits of dropped requests are free: the next request reaches the server.
    tokio::select! {
        found = ask(&client, &target) => panic!("{found:?}"),
        () = async { while server.accepted() < 3 { tokio::task::yield_now().await } } => {}
    }
}

#[tokio::test]
async fn requests_are_timed_by_system_and_operation() {
    let mut registry = Registry::with_prefix("podloom");
    let metrics = OutboundMetrics::register(&mut registry);
    let settings = |system| Settings {
        system,
        rules: rules(),
        limits: limits(),
    };
    let one = Client::new(settings("one"), Names::of(&[]), metrics.clone());
    let two = Client::new(settings("two"), Names::of(&[]), metrics);
    let server = Server::start(respond("HTTP/1.1 204 x\r\n\r\n")).await;
    let hangs = Server::start(script(|mut stream| async move {
        read_to_end(&mut *stream).await
    }))
    .await;
    let (target, hanging, tls) = (at(server.address), at(hangs.address), unchecked());
    one.send(get(&target, &tls)).await.unwrap();
    one.send(get(&target, &tls)).await.unwrap();
    let mut other = get(&target, &tls);
    other.operation = "write";
    two.send(other).await.unwrap();
    // A request that its caller drops counts too.
    let accepted = async {
        while hangs.accepted() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = one.send(get(&hanging, &tls)) => panic!("a response from a silent server"),
        () = accepted => {}
    }
    let mut encoded = String::new();
    text::encode(&mut encoded, &registry).unwrap();
    for line in [
        "podloom_external_request_duration_seconds_count{system=\"one\",operation=\"look\"} 3\n",
        "podloom_external_request_duration_seconds_count{system=\"two\",operation=\"write\"} 1\n",
    ] {
        assert!(encoded.contains(line), "{line} in {encoded}");
    }
}
