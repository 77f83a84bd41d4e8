//! Peers of the operator's HTTP server that ask and never read.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How many at once.
const PEERS: usize = 128;
/// How often each asks, at most.
const REQUESTS: usize = 2_000;

/// Connects them for so long.
pub(crate) async fn pester(address: SocketAddr, time: Duration) {
    let peers = (0..PEERS).map(|_| timeout(time, ask_and_never_read(address)));
    join_all(peers).await;
}

async fn ask_and_never_read(address: SocketAddr) {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
    // One that is refused or closed tries again.
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
