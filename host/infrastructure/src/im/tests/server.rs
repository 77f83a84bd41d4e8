//! A server on loopback that gives one answer to every request.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The server, until it is dropped.
pub(super) struct Server {
    port: u16,
    heard: Arc<Mutex<String>>,
    task: JoinHandle<()>,
}

/// A request.
pub(super) struct Heard {
    /// Method and path.
    pub(super) line: String,
    head: String,
    pub(super) body: String,
}

impl Server {
    /// Starts one with this answer; it closes the connection at once if the answer is empty.
    pub(super) async fn start(answer: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(String::new()));
        let (kept, answer) = (Arc::clone(&heard), answer.to_owned());
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = request(&mut stream).await;
                *kept.lock().unwrap() = request;
                // The client may have closed the connection.
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { port, heard, task }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The last request.
    pub(super) fn heard(&self) -> Heard {
        let text = self.heard.lock().unwrap().clone();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let line = head.lines().next().unwrap();
        Heard {
            line: line.strip_suffix(" HTTP/1.1").unwrap().to_owned(),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Heard {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = headers.find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }
}

async fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
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
