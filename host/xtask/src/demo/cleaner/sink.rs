//! A server on this machine that takes CloudEvents.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// How long a client may take to send an event.
const READ: Duration = Duration::from_secs(10);
/// How many bytes the body of an event may have.
const BODY: u64 = 1 << 20;

/// Takes events until the demo ends.
pub(super) struct Sink {
    pub(super) address: SocketAddr,
    events: Receiver<Event>,
}

/// An event that arrived.
pub(super) struct Event {
    /// Its headers whose names begin with `ce-`, as `name: value`.
    pub(super) headers: Vec<String>,
    /// Its body.
    pub(super) body: String,
}

impl Sink {
    /// Starts it on a free port.
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
        let address = listener.local_addr()?;
        let (arrived, events) = mpsc::channel();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A client that sends nothing sensible gets no answer.
                if let Ok(event) = take(&client)
                    && arrived.send(event).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { address, events })
    }

    /// Waits for the next event.
    pub(super) fn next(&self, patience: Duration) -> Result<Event> {
        self.events
            .recv_timeout(patience)
            .context("no CloudEvent has arrived")
    }
}

fn take(client: &TcpStream) -> Result<Event> {
    client.set_read_timeout(Some(READ))?;
    let mut reader = BufReader::new(client);
    let mut headers = Vec::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if lower.starts_with("ce-") {
            headers.push(line.to_owned());
        }
    }
    let mut body = String::new();
    reader.take(BODY.min(length)).read_to_string(&mut body)?;
    let mut client = client;
    client.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")?;
    Ok(Event { headers, body })
}
