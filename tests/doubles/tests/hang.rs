//! Servers that hang.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use podloom_tests::doubles::{Double, HangPoint};

use super::{WHILE, connect};

/// What the server sends before it hangs.
fn received(at: HangPoint) -> String {
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
fn a_server_hangs_at_the_chosen_point() {
    assert_eq!(received(HangPoint::Accept), "");
    assert_eq!(received(HangPoint::Answer), "");
    assert_eq!(received(HangPoint::Head), "HTTP/1.1 200 OK\r\nContent-Le");
    let body = received(HangPoint::Body);
    assert!(body.ends_with("Content-Length: 10\r\n\r\nhalf "), "{body}");
}

#[test]
fn a_server_that_never_accepts_refuses_nobody() {
    let double = Double::hanging(HangPoint::Connect);
    let error = TcpStream::connect_timeout(&double.address, WHILE * 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}
