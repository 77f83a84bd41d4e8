//! The load balancer, in front of sinks.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};

use podloom_tests::doubles::{BackendState, Balancer, Double, Sink};

use super::{ask, connect, send, soon};

/// Two sinks that answer with their names, and the balancer in front of them.
fn stage() -> (Sink, Sink, Balancer) {
    let first = Double::sink(&["--body", "first"]);
    let second = Double::sink(&["--body", "second"]);
    let balancer = Double::balancer(&[first.address(), second.address()]);
    (first, second, balancer)
}

fn who(address: SocketAddr) -> String {
    let answer = ask(address, "GET", "/", "");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    body.to_owned()
}

/// Waits for the next byte, and returns whether the connection was closed instead.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// The backends that answer four connections, one after the other.
fn four(balancer: &Balancer) -> Vec<String> {
    (0..4).map(|_| who(balancer.address())).collect()
}

#[test]
fn connections_take_turns() {
    let (first, second, balancer) = stage();
    assert_eq!(four(&balancer), ["first", "second", "first", "second"]);
    assert_eq!((first.received().count, second.received().count), (2, 2));
    let backends = balancer.backends();
    assert_eq!(backends[0].address, first.address());
    assert_eq!((backends[0].accepted, backends[1].accepted), (2, 2));
}

#[test]
fn a_backend_that_drains_keeps_its_connections() {
    let (first, _second, balancer) = stage();
    let mut old = connect(balancer.address());
    soon("it is open", || balancer.backends()[0].open == 1);
    balancer.set(first.address(), BackendState::Draining);
    assert_eq!(four(&balancer), ["second"; 4]);
    let answer = send(&mut old, "GET", "/", "");
    assert!(answer.ends_with("first"), "{answer}");
    drop(old);
    soon("it is closed", || balancer.backends()[0].open == 0);

    balancer.set(first.address(), BackendState::Serving);
    assert!(four(&balancer).contains(&"first".to_owned()));
}

#[test]
fn a_backend_that_is_cut_off_loses_its_connections() {
    let (first, _second, balancer) = stage();
    let mut old = connect(balancer.address());
    soon("it is open", || balancer.backends()[0].open == 1);
    balancer.set(first.address(), BackendState::Cut);
    assert!(is_closed(&mut old));
    assert_eq!(balancer.backends()[0].state, BackendState::Cut);
    soon("it is closed", || balancer.backends()[0].open == 0);
    assert_eq!(four(&balancer), ["second"; 4]);
}

#[test]
fn a_backend_that_has_died_is_skipped() {
    let (first, second, balancer) = stage();
    drop(first);
    assert_eq!(four(&balancer), ["second"; 4]);
    drop(second);
    let mut unserved = connect(balancer.address());
    assert!(is_closed(&mut unserved), "no backend is left");
}
