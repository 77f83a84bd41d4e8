//! Clients of the operator's HTTP server that send requests and never read the answers.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The number of clients.
const PEERS: usize = 128;
/// The maximum number of requests of each.
const REQUESTS: usize = 2_000;

/// Runs them for this time.
pub(crate) async fn pester(address: SocketAddr, time: Duration) {
    let peers = (0..PEERS).map(|_| timeout(time, ask_and_never_read(address)));
    join_all(peers).await;
}

async fn ask_and_never_read(address: SocketAddr) {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
    // If the connection is refused or closed, connect again.
    loop {
        if let Ok(mut stream) = TcpStream::connect(address).await {
            for _ in 0..REQUESTS {
                if stream.write_all(request.as_bytes()).await.is_err() {
                    break;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
