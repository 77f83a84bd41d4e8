//! From a host to a connection: resolve once, check each address, dial an allowed one.

use std::convert::Infallible;
use std::future::ready;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::uri::Authority;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tower::service_fn;

use super::error::{RequestErrorKind, RequestPhase};
use super::error::{short, words};
use super::exchange::{Metered, Stream};
use super::policy::{Policy, Rules, Vetted};
use super::proxy::{Proxies, Proxy};
use super::resolve::{Answering, Resolve};
use super::tls::{Tls, TlsProblem};
use super::url::{Host, Origin, Scheme, Url};

/// How many addresses of a host are tried at most.
const TRIED: usize = 8;

/// A point in time, and the timeout that leads to it.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    pub(super) after: Duration,
}

impl Deadline {
    /// Awaits the future until the deadline.
    pub(super) async fn hold<F: Future>(
        self,
        phase: RequestPhase,
        future: F,
    ) -> Result<F::Output, RequestErrorKind> {
        timeout_at(self.at, future)
            .await
            .map_err(|_| RequestErrorKind::TimedOut {
                phase,
                after: self.after,
            })
    }
}

/// How names are looked up, and for whom.
#[derive(Clone, Copy)]
pub(super) struct Lookup<'a> {
    pub(super) resolver: &'a dyn Resolve,
    pub(super) tenant: &'a str,
}

/// What is known of a host before its name has been looked up.
pub(super) enum Begun {
    Address(IpAddr),
    Lookup(Answering),
}

/// Begins to find the addresses of a host: returns as soon as the lookup has begun.
pub(super) async fn begin(lookup: Lookup<'_>, rules: &Rules, target: &Url) -> Begun {
    // No search domains for public names: with one, a name could resolve to a Service of the cluster.
    let is_absolute = target.is_absolute() || rules.policy == Policy::PublicOnly;
    match target.origin().host() {
        Host::Address(address) => Begun::Address(*address),
        Host::Name(name) => {
            let dot = if is_absolute { "." } else { "" };
            let name = format!("{}{dot}", name.as_ref());
            Begun::Lookup(lookup.resolver.begin(&name, lookup.tenant).await)
        }
    }
}

/// Returns the allowed addresses of a host, in the order in which to try them.
///
/// If only some addresses of a name are blocked, the others are used. Nothing is sent to the blocked ones, and names with a private
/// address for one network and a public one for the rest are common. Blocking such a name would not be safer, since its owner chooses
/// which addresses to publish.
pub(super) async fn addresses(
    begun: Begun,
    rules: &Rules,
    deadline: Deadline,
) -> Result<Vec<Vetted>, RequestErrorKind> {
    let found = match begun {
        Begun::Address(address) => vec![address],
        Begun::Lookup(found) => {
            let found = deadline.hold(RequestPhase::Resolve, found).await?;
            found.map_err(|error| RequestErrorKind::Resolve(short(&error.to_string())))?
        }
    };
    let mut first_blocked = None;
    let mut vetted = Vec::new();
    for address in found {
        match rules.vet(address) {
            Ok(address) if !vetted.contains(&address) => vetted.push(address),
            Ok(_) => {}
            Err(blocked) => first_blocked = first_blocked.or(Some(blocked)),
        }
        if vetted.len() == TRIED {
            break;
        }
    }
    match first_blocked {
        _ if !vetted.is_empty() => Ok(vetted),
        Some(blocked) => Err(blocked.into()),
        None => Err(RequestErrorKind::Resolve("it has no address".to_owned())),
    }
}

/// What decides whether a proxy leads to a target.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) lookup: Lookup<'a>,
    pub(super) proxies: Option<&'a Proxies>,
    pub(super) scheme: Scheme,
    pub(super) target: &'a Origin,
}

impl Way<'_> {
    async fn connect(self, address: SocketAddr) -> Result<TcpStream, String> {
        let host = match self.target.host() {
            Host::Name(name) => name.as_ref().to_owned(),
            Host::Address(address) => address.to_string(),
        };
        let (ip, port) = (Some(address.ip()), address.port());
        let proxy = self.proxies.map(|it| {
            it.of(self.scheme, &host, port, ip)
                .map_err(|error| error.to_string())
        });
        let Some(proxy) = proxy.transpose()?.flatten() else {
            let connected = TcpStream::connect(address).await;
            return connected.map_err(|error| words(&error));
        };
        let found = self.found(proxy).await?;
        let found =
            service_fn(move |_: Name| ready(Ok::<_, Infallible>(found.clone().into_iter())));
        let mut connector = HttpConnector::new_with_resolver(found);
        connector.enforce_http(false);
        let target = Authority::try_from(address.to_string()).map_err(|error| error.to_string())?;
        let connected = proxy.connect(connector, target).await;
        let stream = connected.map_err(|error| short(&error.to_string()))?;
        Ok(stream.into_inner())
    }

    /// The addresses of the proxy; none if its URL has one. The connector would look up its name on threads without a limit, which
    /// plugins need as well.
    async fn found(self, proxy: &Proxy) -> Result<Vec<SocketAddr>, String> {
        let Some(name) = proxy.name() else {
            return Ok(Vec::new());
        };
        let Lookup { resolver, tenant } = self.lookup;
        let found = resolver.begin(name, tenant).await.await;
        let unknown = |why: &str| format!("the proxy {proxy} is not found: {why}");
        let found = found.map_err(|error| unknown(&short(&error.to_string())))?;
        if found.is_empty() {
            return Err(unknown("it has no address"));
        }
        // The connector knows the port.
        let found = found.into_iter().take(TRIED);
        Ok(found.map(|address| SocketAddr::new(address, 0)).collect())
    }
}

/// Connects to the first address that accepts. Each gets an equal share of the remaining time, so that a silent one leaves some for
/// the next.
pub(super) async fn dial(
    addresses: &[Vetted],
    way: Way<'_>,
    deadline: Deadline,
) -> Result<TcpStream, RequestErrorKind> {
    let mut last = RequestErrorKind::Resolve("it has no address".to_owned());
    for (tried, address) in addresses.iter().enumerate() {
        let address = SocketAddr::new(address.address(), way.target.port());
        let now = Instant::now();
        let share = deadline.at.saturating_duration_since(now)
            / u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let turn = Deadline {
            at: now + share,
            after: deadline.after,
        };
        last = match turn.hold(RequestPhase::Connect, way.connect(address)).await {
            Ok(Ok(stream)) => {
                // Without it small requests are only slower, so an error does not matter.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(reason)) => RequestErrorKind::Connect { address, reason },
            Err(late) => late,
        };
    }
    Err(last)
}

/// Sets up TLS if the scheme is https. The certificate must be for the URL's host, whatever address was dialled.
pub(super) async fn secure(
    stream: Metered<TcpStream>,
    origin: &Origin,
    tls: &Tls,
    deadline: Deadline,
) -> Result<Box<dyn Stream>, RequestErrorKind> {
    if origin.scheme() == Scheme::Http {
        return Ok(Box::new(stream));
    }
    let name = origin.host().server_name();
    let handshake = TlsConnector::from(tls.config()).connect(name, stream);
    match deadline.hold(RequestPhase::Tls, handshake).await? {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(TlsProblem::of(&error).into()),
    }
}
