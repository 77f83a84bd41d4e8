//! Misbehaving peers on loopback. 127.0.0.1 is a well-behaved one, 127.1.x.x are others.

mod tls;
mod unread;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{Acceptor, ConnectionGuard, ConnectionLimits, Server, WhenFull, listen};
use crate::run::server::{HTTP_LIMITS, PROBES_LIMITS};

/// The longest that a probe waits.
const PROBE: Duration = Duration::from_secs(1);
/// The longest that a test waits, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);

struct Running {
    address: SocketAddr,
    end: CancellationToken,
    tasks: JoinSet<()>,
}

impl Running {
    fn start(limits: ConnectionLimits) -> Self {
        let end = CancellationToken::new();
        Self::start_with(limits, None, end.clone(), end)
    }

    fn start_with(
        limits: ConnectionLimits,
        tls: Option<Arc<ServerConfig>>,
        drain: CancellationToken,
        end: CancellationToken,
    ) -> Self {
        let listener = listen("127.0.0.1:0".parse().expect("an address")).expect("a listener");
        let address = listener.local_addr().expect("it is bound");
        let router = Router::new()
            .route("/healthz", get(async || "ok\n"))
            .route("/large", get(async || "x".repeat(100 << 10)));
        let mut tasks = JoinSet::new();
        let server = Server {
            router,
            limits,
            tls,
            drain,
            end: end.clone(),
        };
        tasks.spawn(server.serve(listener));
        Self {
            address,
            end,
            tasks,
        }
    }

    async fn connect(&self, peer: IpAddr) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::new(peer, 0)).expect("bound");
        socket.connect(self.address).await.expect("connected")
    }

    /// A connection that sends as many requests as the kernel accepts, and never reads an answer.
    async fn flood(&self, peer: IpAddr) -> TcpStream {
        let stream = self.connect(peer).await;
        let requests = "GET /large HTTP/1.1\r\nhost: a\r\n\r\n".repeat(1000);
        // A refused connection may be closed already.
        let _ = stream.try_write(requests.as_bytes());
        stream
    }

    /// The answer that a well-behaved peer gets within the time of a probe; empty if it is refused.
    async fn probe(&self) -> String {
        let asked = async {
            let mut stream = self.connect(HERE).await;
            let request = b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(request).await;
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            answer
        };
        timeout(PROBE, asked).await.unwrap_or_default()
    }
}

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn other(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 1, 0, number))
}

/// Waits until the condition holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(
            begun.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        sleep(Duration::from_millis(10)).await;
    }
}

#[track_caller]
fn is_well(answer: &str) {
    assert!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok\n"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn peers_that_never_read_leave_room_for_probes() {
    for limits in [HTTP_LIMITS, PROBES_LIMITS] {
        // One peer with 128 connections, then 8 and 64 that share them.
        for peers in [1_u8, 8, 64] {
            let server = Running::start(limits);
            let mut floods = Vec::new();
            for number in 0..128_u8 {
                floods.push(server.flood(other(number % peers + 1)).await);
            }
            is_well(&server.probe().await);
            drop(floods);
        }
    }
}

#[tokio::test]
async fn peers_that_send_no_request_leave_room_for_probes() {
    let share = PROBES_LIMITS.of_one_peer;
    let everybody = (1..=64).map(other).cycle();
    let neighbours: Vec<_> = everybody.take(PROBES_LIMITS.connections + 8).collect();
    // Behind a NAT, others have the address of the prober.
    for peers in [vec![HERE; share * 2], neighbours] {
        for sent in ["", "GET /healthz HTTP/1.1\r\nhost: "] {
            let server = Running::start(PROBES_LIMITS);
            let mut silent = Vec::new();
            for peer in &peers {
                let stream = server.connect(*peer).await;
                let _ = stream.try_write(sent.as_bytes());
                silent.push(stream);
            }
            is_well(&server.probe().await);
            let mut oldest = silent.swap_remove(0);
            let mut answer = Vec::new();
            let closed = timeout(PROBE, oldest.read_to_end(&mut answer)).await;
            assert!(closed.is_ok(), "the oldest is closed");
        }
    }
}

#[tokio::test]
async fn a_probe_is_answered_among_many_new_connections() {
    let server = Running::start(PROBES_LIMITS);
    // The server runs only when this task waits, and then accepts all of them at once.
    let mut probe = std::net::TcpStream::connect(server.address).expect("connected");
    io::Write::write_all(&mut probe, b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").expect("sent");
    let silent: Vec<_> = (0..PROBES_LIMITS.of_one_peer * 2)
        .map(|_| std::net::TcpStream::connect(server.address).expect("connected"))
        .collect();
    probe.set_nonblocking(true).expect("set");
    let mut probe = TcpStream::from_std(probe).expect("a stream");
    let mut answer = String::new();
    let read = timeout(PATIENCE, probe.read_to_string(&mut answer)).await;
    assert!(matches!(read, Ok(Ok(_))), "{read:?}");
    is_well(&answer);
    drop(silent);
}

#[test]
fn addresses_of_one_ipv6_network_share_a_limit() {
    let acceptor = Acceptor::new(HTTP_LIMITS);
    let of = |network: u16, host: usize| -> IpAddr {
        format!("2001:db8:0:{network:x}::{host:x}")
            .parse()
            .expect("an address")
    };
    let open: Vec<_> = (1..=HTTP_LIMITS.of_one_peer)
        .map(|host| acceptor.admit(of(1, host)).0.expect("a guard"))
        .collect();
    assert!(acceptor.admit(of(1, 0xffff)).0.is_none());
    assert!(acceptor.admit(of(2, 1)).0.is_some());
    drop(open);
    assert!(acceptor.admit(of(1, 0xffff)).0.is_some());
}

#[test]
fn a_connection_with_a_request_is_not_closed_for_a_newer_one() {
    let acceptor = Acceptor::new(ConnectionLimits {
        connections: 3,
        of_one_peer: 2,
        when_full: WhenFull::CloseOldestSilent,
        ..PROBES_LIMITS
    });
    let enter = |peer| acceptor.admit(peer).0.map(Arc::new);
    let ask = |guard: &Arc<ConnectionGuard>| drop(guard.begin_request());
    let first = enter(other(1)).expect("a guard");
    let second = enter(HERE).expect("a guard");
    let third = enter(HERE).expect("a guard");
    ask(&second);
    let fourth = enter(HERE).expect("that of the third");
    assert!(third.closed.is_cancelled(), "the oldest silent of its peer");
    // A closed connection is not subtracted a second time.
    drop(third);
    let fifth = enter(other(2)).expect("that of the first");
    assert!(first.closed.is_cancelled(), "the oldest silent of all");
    for answered in [&fourth, &fifth] {
        ask(answered);
    }
    assert!(enter(HERE).is_none() && enter(other(3)).is_none());
    let asked = [&second, &fourth, &fifth];
    assert!(asked.iter().all(|guard| !guard.closed.is_cancelled()));
    drop(second);
    assert!(enter(HERE).is_some());
}

#[tokio::test]
async fn a_peer_that_never_reads_is_cut() {
    let server = Running::start(ConnectionLimits {
        connections: 1,
        write: Duration::from_millis(200),
        ..HTTP_LIMITS
    });
    let flood = server.flood(other(1)).await;
    until("there is room again", async || {
        !server.probe().await.is_empty()
    })
    .await;
    is_well(&server.probe().await);
    drop(flood);
}

#[tokio::test]
async fn a_peer_that_sends_no_request_is_cut() {
    let server = Running::start(ConnectionLimits {
        connections: 1,
        header: Duration::from_millis(200),
        ..HTTP_LIMITS
    });
    let silent = server.connect(other(1)).await;
    until("there is room again", async || {
        !server.probe().await.is_empty()
    })
    .await;
    drop(silent);
}

#[tokio::test]
async fn a_connection_is_closed_after_its_time_even_if_busy() {
    let server = Running::start(ConnectionLimits {
        life: Duration::from_millis(200),
        ..HTTP_LIMITS
    });
    let mut stream = server.connect(HERE).await;
    let asking = async {
        let mut answer = [0; 1024];
        loop {
            let sent = stream
                .write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
                .await;
            let read = stream.read(&mut answer).await;
            if sent.is_err() || !matches!(read, Ok(1..)) {
                return;
            }
        }
    };
    timeout(PATIENCE, asking).await.expect("it is closed");
}

#[tokio::test]
async fn a_connection_above_a_limit_is_refused_at_once() {
    let limits = ConnectionLimits {
        connections: 3,
        of_one_peer: 2,
        ..HTTP_LIMITS
    };
    let server = Running::start(limits);
    let mut open = vec![server.connect(HERE).await, server.connect(HERE).await];
    assert_eq!(server.probe().await, "", "a third of one peer");
    open.push(server.connect(other(1)).await);
    let mut refused = server.connect(other(2)).await;
    let mut answer = Vec::new();
    let closed = timeout(PATIENCE, refused.read_to_end(&mut answer)).await;
    assert!(closed.is_ok() && answer.is_empty(), "a fourth of all");
    open.clear();
    until("there is room again", async || {
        !server.probe().await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn the_limit_per_peer_may_equal_the_total() {
    let server = Running::start(ConnectionLimits {
        connections: 40,
        of_one_peer: 40,
        ..HTTP_LIMITS
    });
    let mut open = Vec::new();
    for _ in 0..39 {
        open.push(server.connect(HERE).await);
    }
    is_well(&server.probe().await);
}

#[tokio::test]
async fn probes_are_answered_once_for_each_connection() {
    const { assert!(!PROBES_LIMITS.is_reused) };
    let server = Running::start(PROBES_LIMITS);
    let mut stream = server.connect(HERE).await;
    let twice = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n".repeat(2);
    stream.write_all(twice.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    // The second request is never read, so the connection may end with a reset.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer))
        .await
        .expect("closed");
    let answer = String::from_utf8(answer).expect("ASCII");
    is_well(&answer);
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
}

#[tokio::test]
async fn stopping_closes_idle_connections() {
    let mut server = Running::start(HTTP_LIMITS);
    let idle = server.connect(HERE).await;
    is_well(&server.probe().await);
    server.end.cancel();
    let ended = timeout(PATIENCE, server.tasks.join_next()).await;
    assert!(matches!(ended, Ok(Some(Ok(())))));
    drop(idle);
}

#[test]
fn an_idle_connection_is_closed_for_a_newer_one_and_a_busy_one_is_not() {
    let acceptor = Acceptor::new(ConnectionLimits {
        connections: 2,
        of_one_peer: 2,
        when_full: WhenFull::CloseOldestIdle,
        ..HTTP_LIMITS
    });
    let enter = || acceptor.admit(HERE).0.map(Arc::new);
    let busy = enter().expect("a guard");
    let (answering, another) = (busy.begin_request(), busy.begin_request());
    let idle = enter().expect("a guard");
    drop(idle.begin_request());
    let newer = enter().expect("that of the idle one");
    assert!(idle.closed.is_cancelled());
    let _answering = newer.begin_request();
    assert!(enter().is_none(), "both are busy");
    drop(answering);
    assert!(enter().is_none(), "one request is still answered");
    drop(another);
    assert!(enter().is_some() && busy.closed.is_cancelled());
}

#[test]
fn a_peer_with_many_busy_connections_cannot_keep_others_out() {
    let acceptor = Acceptor::new(ConnectionLimits {
        connections: 3,
        of_one_peer: 2,
        when_full: WhenFull::CloseOldestIdle,
        ..HTTP_LIMITS
    });
    let enter = |peer| acceptor.admit(peer).0.map(Arc::new);
    let idle = enter(HERE).expect("a guard");
    drop(idle.begin_request());
    let busy: Vec<_> = (0..2).map(|_| enter(other(1)).expect("a guard")).collect();
    let _answering: Vec<_> = busy.iter().map(|guard| guard.begin_request()).collect();
    assert!(enter(other(1)).is_none(), "it has its share");
    assert!(enter(other(2)).is_some(), "that of the peer with the most");
    assert!(busy[0].closed.is_cancelled() && !idle.closed.is_cancelled());
}
