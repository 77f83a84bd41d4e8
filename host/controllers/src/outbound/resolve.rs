//! From a name to addresses.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How many lookups of a [`SystemResolver`] go on at once, those included that nobody waits for any more.
const LOOKUPS: usize = 16;

/// Finds the addresses of a name. It is asked once for each request.
pub trait Resolve: Send + Sync + 'static {
    /// Returns the addresses of the name, in the order in which to try them.
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Resolves as the machine does: hosts file, search domains, name servers.
///
/// The system's lookup blocks a thread and cannot be ended. At most 16 go on at once, so name servers that are silent never take
/// more threads than that; who comes later waits within his own request's time.
pub struct SystemResolver(Arc<Semaphore>);

impl Default for SystemResolver {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOKUPS)))
    }
}

impl Resolve for SystemResolver {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let (lookups, name) = (self.0.clone(), name.to_owned());
        async move {
            let permit = lookups.acquire_owned().await.map_err(io::Error::other)?;
            let lookup = spawn_blocking(move || {
                let found = (name.as_str(), 0).to_socket_addrs();
                drop(permit);
                found.map(|addresses| addresses.map(|address| address.ip()).collect())
            });
            lookup.await.map_err(io::Error::other)?
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
