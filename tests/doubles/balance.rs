//! `podloom-doubles balance`: a TCP balancer that can lose a backend.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use http::Method;
use podloom_tests::doubles::{Backend, Turn};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::control::{self, Steered, Wrong};
use crate::listen;

/// The most backends.
const BACKENDS: usize = 16;
/// How long a backend may take to accept; then it is the next one's turn.
const CONNECT: Duration = Duration::from_secs(5);

/// A TCP balancer: each new connection goes to the next backend that accepts it.
///
/// TLS passes through it, so API servers work behind it as they are.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A backend; up to 16.
    #[arg(long = "to", value_name = "ADDR", required = true)]
    backends: Vec<SocketAddr>,
    /// Where it listens.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    listen: SocketAddr,
    /// Where it is steered: GET /backends; POST /drain/ADDR, /cut/ADDR, /serve/ADDR.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    control: SocketAddr,
}

const EXAMPLES: &str = r"Examples:
  podloom-doubles balance --to 127.0.0.1:6443 --to 127.0.0.1:6444 --control 127.0.0.1:9000

  # No new connections to it; those that there are go on
  curl -X POST localhost:9000/drain/127.0.0.1:6443

  # As if it had died
  curl -X POST localhost:9000/cut/127.0.0.1:6443

  # It is back
  curl -X POST localhost:9000/serve/127.0.0.1:6443";

/// Runs until it is killed.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    if arguments.backends.len() > BACKENDS {
        bail!("there are more than {BACKENDS} backends; leave some out");
    }
    let backends = arguments.backends.iter().copied().map(Behind::new);
    let balancer = Arc::new(Balancer {
        backends: backends.collect(),
        next: AtomicUsize::new(0),
    });
    let (listener, control) = (
        listen::bind(arguments.listen).await?,
        listen::bind(arguments.control).await?,
    );
    listen::ready(&listener, Some(&control))?;
    let served = Arc::clone(&balancer);
    tokio::try_join!(
        listen::accept(listener, move |stream| Arc::clone(&served).serve(stream)),
        control::serve(control, balancer),
    )?;
    Ok(())
}

struct Balancer {
    backends: Vec<Behind>,
    next: AtomicUsize,
}

struct Behind {
    address: SocketAddr,
    turn: watch::Sender<Turn>,
    open: AtomicU64,
    accepted: AtomicU64,
}

impl Behind {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            turn: watch::Sender::new(Turn::Serving),
            open: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
        }
    }

    /// Connects, if it is among those that serve.
    async fn connect(&self) -> Option<TcpStream> {
        if *self.turn.borrow() != Turn::Serving {
            return None;
        }
        let connected = timeout(CONNECT, TcpStream::connect(self.address)).await;
        connected.ok()?.ok()
    }

    /// Carries until either side ends, or the backend is cut off.
    async fn carry(&self, mut front: TcpStream, mut back: TcpStream) {
        let mut turns = self.turn.subscribe();
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        tokio::select! {
            _ = copy_bidirectional(&mut front, &mut back) => {}
            _ = turns.wait_for(|turn| *turn == Turn::Cut) => {}
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Balancer {
    async fn serve(self: Arc<Self>, front: TcpStream) {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.backends.len();
        let (before, from) = self.backends.split_at(first);
        for backend in from.iter().chain(before) {
            if let Some(back) = backend.connect().await {
                return backend.carry(front, back).await;
            }
        }
    }
}

impl Steered for Balancer {
    fn steer(&self, method: &Method, path: &str, _: &[u8]) -> Result<String, Wrong> {
        if (method, path) == (&Method::GET, "/backends") {
            let backends = self.backends.iter().map(|backend| Backend {
                address: backend.address,
                turn: *backend.turn.borrow(),
                open: backend.open.load(Ordering::Relaxed),
                accepted: backend.accepted.load(Ordering::Relaxed),
            });
            return control::json(&backends.collect::<Vec<_>>());
        }
        let words = path.trim_start_matches('/').split_once('/');
        let (turn, address) = match (method, words) {
            (&Method::POST, Some(("drain", address))) => (Turn::Draining, address),
            (&Method::POST, Some(("cut", address))) => (Turn::Cut, address),
            (&Method::POST, Some(("serve", address))) => (Turn::Serving, address),
            _ => return Err(Wrong::Unknown),
        };
        let mut backends = self.backends.iter();
        let backend = backends.find(|backend| backend.address.to_string() == address);
        backend.ok_or(Wrong::Unknown)?.turn.send_replace(turn);
        control::done()
    }
}
