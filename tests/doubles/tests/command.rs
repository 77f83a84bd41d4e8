//! What all doubles have in common.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

use super::connect;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podloom-doubles"));
    command.args(arguments).output().unwrap()
}

#[test]
fn a_double_ends_with_its_owner() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_podloom-doubles"))
        .args(["sink", "--owned"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    let address = ready["address"].as_str().unwrap().parse().unwrap();
    let mut open = connect(address);
    assert!(child.try_wait().unwrap().is_none(), "it runs");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let ended = open.read(&mut [0]);
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    assert!(TcpStream::connect(address).is_err(), "nobody listens");
}

#[test]
fn doubles_listen_on_loopback_only() {
    for arguments in [
        ["sink", "--listen", "0.0.0.0:0"],
        ["hang", "--listen", "192.0.2.1:80"],
        ["sink", "--control", "[::]:0"],
    ] {
        let output = run(&arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(error.contains("loopback only"), "{error}");
    }
}

#[test]
fn arguments_that_cannot_work_are_errors() {
    for (arguments, words) in [
        (&["sink", "--status", "99"][..], "write 200 to 599"),
        (&["sink", "--delay=-1"], "write 0 to 3600"),
        (&["tls", "--ca", "/nowhere/ca.pem"], "/nowhere/ca.pem"),
        (&["relay", "--ca", "/nowhere/ca.pem"], "/nowhere/ca.pem"),
    ] {
        let output = run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn the_help_of_each_double_has_examples_or_values() {
    for double in ["proxy", "relay", "sink", "tls", "balance", "hang", "lag"] {
        let help = run(&[double, "--help"]);
        let help = String::from_utf8_lossy(&help.stdout);
        assert!(help.contains("--listen <ADDR>"), "{help}");
        let has_examples = help.contains("Examples:\n") || help.contains("Possible values:\n");
        assert!(has_examples, "{help}");
    }
}
