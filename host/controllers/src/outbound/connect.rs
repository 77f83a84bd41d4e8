//! From a host to a connection: resolve once, vet, dial what passed.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::error::{Failure, Phase};
use super::metered::{Metered, Stream};
use super::policy::{Policy, Rules, Vetted};
use super::resolve::Resolve;
use super::tls::{Tls, TlsProblem};
use super::url::{Host, Origin, Scheme, Url};
use super::words::{short, words};

/// How many addresses of a host are tried.
const TRIED: usize = 8;

/// When something has to end, and the limit that says so.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    pub(super) after: Duration,
}

impl Deadline {
    /// Waits for the future, but not beyond the deadline.
    pub(super) async fn hold<F: Future>(
        self,
        phase: Phase,
        future: F,
    ) -> Result<F::Output, Failure> {
        timeout_at(self.at, future)
            .await
            .map_err(|_| Failure::TimedOut {
                phase,
                after: self.after,
            })
    }
}

/// Returns the addresses of a host that may be connected to, in the order in which to try them.
///
/// Of a name with allowed and refused addresses the allowed ones are kept: nothing is ever sent to the others, and names that
/// have a private address for those within a network and a public one for the rest are common. To refuse such a name would be no
/// safer, for whoever owns it chooses which addresses he shows.
pub(super) async fn addresses(
    resolver: &dyn Resolve,
    rules: &Rules,
    target: &Url,
    deadline: Deadline,
) -> Result<Vec<Vetted>, Failure> {
    // A public name is whole: with a search domain it could become one of the cluster's.
    let is_absolute = target.is_absolute() || rules.policy == Policy::PublicOnly;
    let found = match target.origin().host() {
        Host::Address(address) => vec![*address],
        Host::Name(name) => {
            let dot = if is_absolute { "." } else { "" };
            let name = format!("{}{dot}", name.as_ref());
            let lookup: BoxFuture<'_, io::Result<Vec<IpAddr>>> = resolver.resolve(&name);
            let found = deadline.hold(Phase::Resolve, lookup).await?;
            found.map_err(|error| Failure::Resolve(short(&error.to_string())))?
        }
    };
    let mut refusal = None;
    let mut vetted = Vec::new();
    for address in found {
        match rules.vet(address) {
            Ok(address) if !vetted.contains(&address) => vetted.push(address),
            Ok(_) => {}
            Err(refused) => refusal = refusal.or(Some(refused)),
        }
        if vetted.len() == TRIED {
            break;
        }
    }
    match refusal {
        _ if !vetted.is_empty() => Ok(vetted),
        Some(refusal) => Err(refusal.into()),
        None => Err(Failure::Resolve("it has no address".to_owned())),
    }
}

/// Connects to the first address that answers. Each has its share of the time that is left, so one that is silent leaves some
/// for the next.
pub(super) async fn dial(
    addresses: &[Vetted],
    port: u16,
    deadline: Deadline,
) -> Result<TcpStream, Failure> {
    let mut last = Failure::Resolve("it has no address".to_owned());
    for (tried, address) in addresses.iter().enumerate() {
        let address = SocketAddr::new(address.address(), port);
        let now = Instant::now();
        let share = deadline.at.saturating_duration_since(now)
            / u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let turn = Deadline {
            at: now + share,
            after: deadline.after,
        };
        last = match turn.hold(Phase::Connect, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Small requests wait for nothing; where that cannot be set they are only slower.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => Failure::Connect {
                address,
                reason: words(&error),
            },
            Err(late) => late,
        };
    }
    Err(last)
}

/// Sets up what the scheme asks for. The certificate has to be for the URL's host, whatever address was dialled.
pub(super) async fn secure(
    stream: Metered<TcpStream>,
    origin: &Origin,
    tls: &Tls,
    deadline: Deadline,
) -> Result<Box<dyn Stream>, Failure> {
    if origin.scheme() == Scheme::Http {
        return Ok(Box::new(stream));
    }
    let name = origin.host().server_name();
    let handshake = TlsConnector::from(tls.config()).connect(name, stream);
    match deadline.hold(Phase::Tls, handshake).await? {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(TlsProblem::of(&error).into()),
    }
}
