//! Servers whose behaviour is a script of the test.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// A connection, plain or encrypted.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// What the server does with a connection.
pub(super) type Script = Arc<dyn Fn(Box<dyn Stream>) -> BoxFuture<'static, ()> + Send + Sync>;

/// A server on loopback, until it is dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(super) async fn start(script: Script) -> Self {
        Self::on(([127, 0, 0, 1], 0).into(), None, script).await
    }

    pub(super) async fn start_tls(config: ServerConfig, script: Script) -> Self {
        Self::on(([127, 0, 0, 1], 0).into(), Some(config), script).await
    }

    pub(super) async fn on(address: SocketAddr, tls: Option<ServerConfig>, script: Script) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                connections.spawn(serve(stream, tls.clone(), script.clone()));
            }
        });
        Self {
            address,
            accepted,
            task,
        }
    }

    /// How many connections were accepted.
    pub(super) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

async fn serve(stream: TcpStream, tls: Option<TlsAcceptor>, script: Script) {
    match tls {
        None => script(Box::new(stream)).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                script(Box::new(stream)).await;
            }
        }
    }
}

pub(super) fn script<F, Fut>(script: F) -> Script
where
    F: Fn(Box<dyn Stream>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    Arc::new(move |stream| Box::pin(script(stream)))
}

/// Reads a request, responds with these bytes, and closes the connection.
pub(super) fn respond(bytes: impl Into<Vec<u8>>) -> Script {
    let bytes = bytes.into();
    script(move |mut stream| {
        let bytes = bytes.clone();
        async move {
            read_request(&mut *stream).await;
            // The client may have closed the connection already.
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
    })
}

/// Responds with 200 and no body, and records the requests.
pub(super) fn record() -> (Script, Arc<Mutex<String>>) {
    let heard = Arc::new(Mutex::new(String::new()));
    let kept = heard.clone();
    let script = script(move |mut stream| {
        let kept = kept.clone();
        async move {
            let request = read_request(&mut *stream).await;
            kept.lock().unwrap().push_str(&request);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await;
        }
    });
    (script, heard)
}

/// Reads a whole request.
pub(super) async fn read_request(stream: &mut dyn Stream) -> String {
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

/// Reads until the client closes the connection.
pub(super) async fn read_to_end(stream: &mut dyn Stream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}

/// An address where connecting neither succeeds nor fails: its queue is full. It stays so while what is returned lives.
pub(super) async fn full(address: IpAddr, port: u16) -> (SocketAddr, TcpListener, JoinSet<()>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((address, port).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = JoinSet::new();
    for _ in 0..8 {
        queue.spawn(async move {
            let _stream = TcpStream::connect(address).await;
            std::future::pending::<()>().await;
        });
    }
    // The queue holds two; later connections get no answer.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    (address, listener, queue)
}
