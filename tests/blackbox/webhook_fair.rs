//! Heavy reviews of one tenant, or of a stranger, wait for each other, and those of others do not wait for them.
//!
//! The test is the API server: it sends the reviews itself, so that only the webhook is measured. Its peers are addresses of loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use podloom_tests::webhook::{Route, Webhook, address};
use podloom_tests::{Cluster, Operator, blackbox_on, lock, standard};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

const API_SERVER: Ipv4Addr = Ipv4Addr::LOCALHOST;
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 66);
/// How many send heavy pods at once, and what a heavy pod is. So many are neither refused nor too slow for a plugin.
const HEAVIES: usize = 16;
const CONTAINERS: usize = 400;
/// How many light pods are measured.
const LIGHTS: usize = 40;
/// How many times as long heavy pods take at least, which wait for each other. Without turns, light ones waited as long as they.
const RATIO: u32 = 2;

/// A connection that stays open.
struct Client(TcpStream);

impl Client {
    async fn connect(peer: Ipv4Addr, webhook: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((peer, 0).into()).unwrap();
        Self(socket.connect(webhook).await.unwrap())
    }

    /// Sends a review, and returns the status and the body of its answer.
    async fn review(&mut self, review: &str) -> (String, String) {
        let length = review.len();
        let head = format!(
            "POST /mutate/pods?timeout=10s HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n"
        );
        let request = [head.as_bytes(), review.as_bytes()].concat();
        self.0.write_all(&request).await.unwrap();
        let mut answer = Vec::new();
        loop {
            let mut part = vec![0; 64 << 10];
            let read = self.0.read(&mut part).await.unwrap();
            assert!(read > 0, "the connection ended");
            answer.extend_from_slice(&part[..read]);
            let text = String::from_utf8_lossy(&answer);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "));
                if body.len() == length.unwrap().parse::<usize>().unwrap() {
                    let status = head.split(' ').nth(1).unwrap();
                    return (status.to_owned(), body.to_owned());
                }
            }
        }
    }
}

fn review(namespace: &str, containers: usize) -> String {
    let container = |number| json!({ "name": format!("c{number}"), "image": "registry.k8s.io/pause:3.10", "resources": {} });
    let containers: Vec<Value> = (0..containers).map(container).collect();
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": "CREATE", "kind": { "version": "v1", "kind": "Pod" },
            "namespace": namespace, "userInfo": { "username": "somebody" }, "dryRun": true,
            "object": { "metadata": { "name": "a" }, "spec": { "containers": containers } },
        },
    })
    .to_string()
}

/// How long light pods take in the middle. All of them get their answer.
async fn light(webhook: SocketAddr) -> Duration {
    let mut client = Client::connect(API_SERVER, webhook).await;
    let review = review("team", 1);
    let mut took = Vec::new();
    for _ in 0..LIGHTS {
        let begun = Instant::now();
        let (status, body) = client.review(&review).await;
        took.push(begun.elapsed());
        assert_eq!(status, "200", "{body}");
    }
    took.sort();
    took[LIGHTS / 2]
}

/// Compares light pods with heavy ones from this peer, for these namespaces.
async fn check(webhook: SocketAddr, peer: Ipv4Addr, namespace: fn(usize) -> String) {
    let is_over = Arc::new(AtomicBool::new(false));
    let took = Arc::new(Mutex::new(Vec::new()));
    let mut heavies = JoinSet::new();
    for number in 0..HEAVIES {
        let (is_over, took) = (Arc::clone(&is_over), Arc::clone(&took));
        heavies.spawn(async move {
            let mut client = Client::connect(peer, webhook).await;
            let review = review(&namespace(number), CONTAINERS);
            while !is_over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let (status, _) = client.review(&review).await;
                match status.as_str() {
                    "200" => lock(&took).push(begun.elapsed()),
                    // There are too many. Whoever asks again at once would measure how fast it is refused.
                    _ => tokio::time::sleep(Duration::from_millis(500)).await,
                }
            }
        });
    }
    while lock(&took).len() < 5 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let light = light(webhook).await;
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = heavies.join_next().await {
        ended.unwrap();
    }
    let mut took = lock(&took);
    took.sort();
    let heavy = took[took.len() / 2];
    assert!(
        light * RATIO <= heavy,
        "{light:?} beside heavy pods of {peer}, which took {heavy:?}"
    );
}

#[test]
fn light_reviews_do_not_wait_for_heavy_ones_of_others() {
    blackbox_on(Cluster::without_operator, "webhook-fair", async |scene| {
        let webhook = Webhook::new(&scene, Route::Service);
        let operator: Operator = webhook.spawn(&standard(), &["--webhook-without-tls"]);
        let address = address(&operator).await;
        operator.ready().await;
        check(address, API_SERVER, |_| "heavy".to_owned()).await;
        check(address, STRANGER, |number| format!("invented-{number}")).await;
    });
}
