//! From a name to addresses.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use podloom_turns::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;

use super::permits::KeyedSemaphores;
use super::proxy::Proxies;

/// How many lookups of a [`SystemResolver`] run at once, those included that nobody waits for any more.
const LOOKUPS: usize = 16;
/// How many of them run for one tenant.
pub(super) const LOOKUPS_PER_TENANT: u16 = 4;
/// After this time a lookup counts as hanging: requests for its name fail at once.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// A lookup that has begun.
pub type Answering = BoxFuture<'static, io::Result<Vec<IpAddr>>>;

/// Finds the addresses of a name. It is called once for each request.
pub trait Resolve: Send + Sync + 'static {
    /// Returns the addresses of the name, in the order in which to try them. No search domain is added to a name that ends with a dot.
    ///
    /// The tenant is that of the request, [`Request::tenant`](super::Request::tenant).
    fn resolve(&self, name: &str, tenant: &str) -> Answering;

    /// Begins what [`resolve`](Self::resolve) does, as soon as there is room for it. That there is none is no fault of the name, so the
    /// caller counts this time apart.
    fn begin(&self, name: &str, tenant: &str) -> BoxFuture<'static, Answering> {
        futures::future::ready(self.resolve(name, tenant)).boxed()
    }

    /// Returns the proxies on the way to the addresses.
    fn proxies(&self) -> Option<&Proxies> {
        None
    }
}

/// Resolves as the machine does: hosts file, search domains (not for a name that ends with a dot), name servers.
///
/// A lookup of the system blocks a thread and cannot be cancelled. So at most 16 run at once, and at most 4 for one tenant: name servers
/// of one tenant that hang do not stop the lookups of others. Requests beyond that wait for room. A name is looked up
/// by one thread at a time, and all requests for it share the result; once the lookup has hung for 5 seconds, requests for the name fail
/// at once.
///
/// Names under `localhost.` with their final dot are this machine, as RFC 6761 says, and are not looked up: the hosts file has them
/// without the dot, and name servers may say anything.
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
    tenants: Arc<KeyedSemaphores<String>>,
    running: Running,
    look_up: fn(&str) -> Found,
    timeout: Duration,
    proxies: Proxies,
}

type Found = Result<Vec<IpAddr>, String>;
/// The lookups that run, by name.
type Running = Arc<Mutex<HashMap<String, Lookup>>>;

#[derive(Clone)]
struct Lookup {
    started: Instant,
    found: Shared<BoxFuture<'static, Found>>,
}

/// The permits of one lookup.
type Permits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// Removes a lookup and returns its permits when its thread ends, even by a panic.
struct Cleanup {
    name: String,
    running: Running,
    _permits: Permits,
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        lock(&self.running).remove(&self.name);
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
            tenants: Arc::new(KeyedSemaphores::new(LOOKUPS_PER_TENANT.into())),
            running: Running::default(),
            look_up: system,
            timeout: LOOKUP_TIMEOUT,
            proxies: Proxies::default(),
        }
    }
}

impl SystemResolver {
    /// Returns a resolver with the proxies of the environment.
    pub fn with_proxies() -> Self {
        Self {
            proxies: Proxies::from_env(),
            ..Self::default()
        }
    }
}

fn system(name: &str) -> Found {
    if is_this_machine(name) {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    let found = (name, 0).to_socket_addrs();
    let found = found.map_err(|error| error.to_string())?;
    Ok(found.map(|address| address.ip()).collect())
}

/// Whether this is a name under `localhost.`, with its final dot.
fn is_this_machine(name: &str) -> bool {
    let last = name
        .strip_suffix('.')
        .and_then(|name| name.rsplit('.').next());
    last.is_some_and(|label| label.eq_ignore_ascii_case("localhost"))
}

/// Returns the lookup of the name that runs, if one does.
fn join(running: &Running, name: &str) -> Option<Lookup> {
    lock(running).get(name).cloned()
}

/// Starts a lookup of the name, or joins one that was started meanwhile.
fn start(running: &Running, name: &str, permits: Permits, look_up: fn(&str) -> Found) -> Lookup {
    let mut lookups = lock(running);
    if let Some(lookup) = lookups.get(name) {
        return lookup.clone();
    }
    let cleanup = Cleanup {
        name: name.to_owned(),
        running: running.clone(),
        _permits: permits,
    };
    let (tell, told) = oneshot::channel();
    let found = told.map(|found| found.unwrap_or_else(|closed| Err(closed.to_string())));
    let lookup = Lookup {
        started: Instant::now(),
        found: found.boxed().shared(),
    };
    lookups.insert(name.to_owned(), lookup.clone());
    // While the runtime stops, the closure is dropped here, and its cleanup takes the lock.
    drop(lookups);
    spawn_blocking(move || {
        let found = look_up(&cleanup.name);
        drop(cleanup);
        // Nobody may be waiting any more.
        let _ = tell.send(found);
    });
    lookup
}

impl Resolve for SystemResolver {
    fn proxies(&self) -> Option<&Proxies> {
        Some(&self.proxies)
    }

    fn resolve(&self, name: &str, tenant: &str) -> Answering {
        self.begin(name, tenant).flatten().boxed()
    }

    #[expect(
        clippy::async_yields_async,
        reason = "the first future waits for a permit, and its result for the answer"
    )]
    fn begin(&self, name: &str, tenant: &str) -> BoxFuture<'static, Answering> {
        let (lookups, running) = (self.lookups.clone(), self.running.clone());
        let of_tenant = self.tenants.of(tenant.to_owned());
        let (look_up, timeout, name) = (self.look_up, self.timeout, name.to_owned());
        async move {
            let lookup = match join(&running, &name) {
                Some(lookup) => Ok(lookup),
                None => {
                    let permits = permits(of_tenant, lookups).await;
                    permits.map(|permits| start(&running, &name, permits, look_up))
                }
            };
            async move { lookup?.answer(timeout).await }.boxed()
        }
        .boxed()
    }
}

/// Waits for the permits of a lookup. The tenant's is first: a lookup that waits for it holds none of those for all.
async fn permits(of_tenant: Arc<Semaphore>, of_all: Arc<Semaphore>) -> io::Result<Permits> {
    let own = of_tenant.acquire_owned().await.map_err(io::Error::other)?;
    let any = of_all.acquire_owned().await.map_err(io::Error::other)?;
    Ok((own, any))
}

impl Lookup {
    /// Waits for the result, unless the lookup has been hanging for longer than the timeout.
    async fn answer(self, timeout: Duration) -> io::Result<Vec<IpAddr>> {
        if self.started.elapsed() > timeout {
            let text = "the name servers have not answered an earlier lookup of it yet";
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        self.found.await.map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests;
