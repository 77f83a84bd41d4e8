//! Servers that hang.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use podloom_tests::doubles::{Double, Phase};

use super::{WHILE, connect};

/// What comes until nothing comes any more.
fn received(at: Phase) -> String {
    let double = Double::hanging(at);
    let mut stream = connect(double.address);
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: double\r\n\r\n")
        .unwrap();
    stream.set_read_timeout(Some(WHILE * 5)).unwrap();
    let mut bytes = Vec::new();
    let error = stream.read_to_end(&mut bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{at:?} closes");
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_server_hangs_where_it_is_told() {
    assert_eq!(received(Phase::Accept), "");
    assert_eq!(received(Phase::Answer), "");
    assert_eq!(received(Phase::Head), "HTTP/1.1 200 OK\r\nContent-Le");
    let body = received(Phase::Body);
    assert!(body.ends_with("Content-Length: 10\r\n\r\nhalf "), "{body}");
}

#[test]
fn a_server_that_never_accepts_refuses_nobody() {
    let double = Double::hanging(Phase::Connect);
    let error = TcpStream::connect_timeout(&double.address, WHILE * 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}
