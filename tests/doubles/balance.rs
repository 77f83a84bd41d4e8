//! `podloom-doubles balance`: a TCP load balancer that can drain or cut off a backend.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use http::Method;
use podloom_tests::doubles::{Backend, BackendState};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::control::{self, ControlError, Steered};
use crate::listen;

/// The maximum number of backends.
const BACKENDS: usize = 16;
/// How long a backend may take to accept a connection; then the next backend is tried.
const CONNECT: Duration = Duration::from_secs(5);

/// A TCP load balancer: each new connection goes to the next backend that accepts it.
///
/// TLS passes through it unchanged, so API servers work behind it.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A backend; up to 16.
    #[arg(long = "to", value_name = "ADDR", required = true)]
    backends: Vec<SocketAddr>,
    /// The address to listen on.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    listen: SocketAddr,
    /// The address of the control endpoint: GET /backends; POST /drain/ADDR, /cut/ADDR, /serve/ADDR.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    control: SocketAddr,
}

const EXAMPLES: &str = r"Examples:
  podloom-doubles balance --to 127.0.0.1:6443 --to 127.0.0.1:6444 --control 127.0.0.1:9000

  # Send no new connections to it; open ones keep working
  curl -X POST localhost:9000/drain/127.0.0.1:6443

  # Also close its open connections, as if it had died
  curl -X POST localhost:9000/cut/127.0.0.1:6443

  # Send it new connections again
  curl -X POST localhost:9000/serve/127.0.0.1:6443";

/// Runs until it is killed.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    if arguments.backends.len() > BACKENDS {
        bail!("more than {BACKENDS} backends; leave out some --to");
    }
    let backends = arguments.backends.iter().copied().map(LiveBackend::new);
    let balancer = Arc::new(BalancerServer {
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

struct BalancerServer {
    backends: Vec<LiveBackend>,
    next: AtomicUsize,
}

/// A backend and its connections.
struct LiveBackend {
    address: SocketAddr,
    state: watch::Sender<BackendState>,
    open: AtomicU64,
    accepted: AtomicU64,
}

impl LiveBackend {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            state: watch::Sender::new(BackendState::Serving),
            open: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
        }
    }

    /// Connects, if it gets new connections.
    async fn connect(&self) -> Option<TcpStream> {
        if *self.state.borrow() != BackendState::Serving {
            return None;
        }
        let connected = timeout(CONNECT, TcpStream::connect(self.address)).await;
        connected.ok()?.ok()
    }

    /// Copies in both directions until either side closes, or the backend is cut off.
    async fn carry(&self, mut front: TcpStream, mut back: TcpStream) {
        let mut states = self.state.subscribe();
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        tokio::select! {
            _ = copy_bidirectional(&mut front, &mut back) => {}
            _ = states.wait_for(|state| *state == BackendState::Cut) => {}
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl BalancerServer {
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

impl Steered for BalancerServer {
    fn steer(&self, method: &Method, path: &str, _: &[u8]) -> Result<String, ControlError> {
        if (method, path) == (&Method::GET, "/backends") {
            let backends = self.backends.iter().map(|backend| Backend {
                address: backend.address,
                state: *backend.state.borrow(),
                open: backend.open.load(Ordering::Relaxed),
                accepted: backend.accepted.load(Ordering::Relaxed),
            });
            return control::json(&backends.collect::<Vec<_>>());
        }
        let words = path.trim_start_matches('/').split_once('/');
        let (state, address) = match (method, words) {
            (&Method::POST, Some(("drain", address))) => (BackendState::Draining, address),
            (&Method::POST, Some(("cut", address))) => (BackendState::Cut, address),
            (&Method::POST, Some(("serve", address))) => (BackendState::Serving, address),
            _ => return Err(ControlError::Unknown),
        };
        let mut backends = self.backends.iter();
        let backend = backends.find(|backend| backend.address.to_string() == address);
        backend
            .ok_or(ControlError::Unknown)?
            .state
            .send_replace(state);
        control::done()
    }
}
