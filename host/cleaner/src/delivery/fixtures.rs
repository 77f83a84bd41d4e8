//! Sinks on loopback that do what a test says, and what they heard.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What a sink does with a request.
#[derive(Clone)]
pub(super) enum Does {
    /// It answers with these bytes and closes the connection.
    Answers(String),
    /// It closes the connection.
    Closes,
    /// It says nothing.
    Hangs,
    /// It begins an answer, and says no more.
    HangsAfter(String),
}

/// A sink, until it is dropped.
pub(super) struct TestSink {
    pub(super) address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
    does: Arc<Mutex<Does>>,
    task: JoinHandle<()>,
}

/// An answer without a body, with this status and these lines.
pub(super) fn answers(status: u16, lines: &[&str]) -> Does {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    Does::Answers(format!(
        "HTTP/1.1 {status} whatever\r\n{lines}content-length: 0\r\n\r\n"
    ))
}

impl TestSink {
    pub(super) async fn start(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let does = Arc::new(Mutex::new(does));
        let (kept, script) = (Arc::clone(&heard), Arc::clone(&does));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, Arc::clone(&kept), Arc::clone(&script)));
            }
        });
        Self {
            address,
            heard,
            does,
            task,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/events?key=secret", self.address)
    }

    /// Whole requests, in their order.
    pub(super) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// Does this from now on.
    pub(super) fn now(&self, does: Does) {
        *self.does.lock().unwrap() = does;
    }
}

impl Drop for TestSink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, heard: Arc<Mutex<Vec<String>>>, does: Arc<Mutex<Does>>) {
    let request = request(&mut stream).await;
    heard.lock().unwrap().push(request);
    let does = does.lock().unwrap().clone();
    match does {
        Does::Answers(bytes) => {
            let _ = stream.write_all(bytes.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
        Does::Closes => {}
        Does::Hangs => std::future::pending().await,
        Does::HangsAfter(bytes) => {
            let _ = stream.write_all(bytes.as_bytes()).await;
            std::future::pending().await
        }
    }
}

/// Reads a whole request.
async fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let mut lines = head.lines();
            let length = lines.find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return text;
            }
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(read) if read > 0 => bytes.extend_from_slice(&buffer[..read]),
            _ => return text,
        }
    }
}
