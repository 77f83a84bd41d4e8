//! From a name to addresses.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_blocking;

/// How many lookups of a [`SystemResolver`] go on at once, those included that nobody waits for any more.
const LOOKUPS: usize = 16;
/// How long a lookup may take before whoever asks for its name fails at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// Finds the addresses of a name. It is asked once for each request.
pub trait Resolve: Send + Sync + 'static {
    /// Returns the addresses of the name, in the order in which to try them. A name that ends with a dot is whole.
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Resolves as the machine does: hosts file, search domains (not for a name that ends with a dot), name servers.
///
/// The system's lookup blocks a thread and cannot be ended. At most 16 go on at once, so name servers that are silent never take
/// more threads than that; who comes later waits within his own request's time. A name is looked up by one thread at a time,
/// whose answer all get who ask meanwhile; once it has hung for 5 seconds, whoever asks for the name fails at once.
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
    under_way: UnderWay,
    look_up: fn(&str) -> Found,
    patience: Duration,
}

type Found = Result<Vec<IpAddr>, String>;
/// The lookups that threads are busy with.
type UnderWay = Arc<Mutex<HashMap<String, Lookup>>>;

#[derive(Clone)]
struct Lookup {
    begun: Instant,
    found: watch::Receiver<Option<Found>>,
}

/// Forgets a lookup when its thread ends, however it ends.
struct Ending {
    name: String,
    under_way: UnderWay,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Ending {
    fn drop(&mut self) {
        lock(&self.under_way).remove(&self.name);
    }
}

fn lock(under_way: &UnderWay) -> MutexGuard<'_, HashMap<String, Lookup>> {
    under_way.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
            under_way: UnderWay::default(),
            look_up: system,
            patience: PATIENCE,
        }
    }
}

fn system(name: &str) -> Found {
    let found = (name, 0).to_socket_addrs();
    let found = found.map_err(|error| error.to_string())?;
    Ok(found.map(|address| address.ip()).collect())
}

/// Takes part in a lookup of the name, or begins one with the permit.
fn join(
    under_way: &UnderWay,
    name: &str,
    permit: Option<OwnedSemaphorePermit>,
    look_up: fn(&str) -> Found,
) -> Option<Lookup> {
    let mut lookups = lock(under_way);
    if let Some(lookup) = lookups.get(name) {
        return Some(lookup.clone());
    }
    let permit = permit?;
    let (tell, found) = watch::channel(None);
    let begun = Instant::now();
    let lookup = Lookup { begun, found };
    lookups.insert(name.to_owned(), lookup.clone());
    drop(lookups);
    let ending = Ending {
        name: name.to_owned(),
        under_way: under_way.clone(),
        _permit: permit,
    };
    spawn_blocking(move || {
        let found = look_up(&ending.name);
        drop(ending);
        tell.send_replace(Some(found));
    });
    Some(lookup)
}

impl Resolve for SystemResolver {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let (lookups, under_way) = (self.lookups.clone(), self.under_way.clone());
        let (look_up, patience, name) = (self.look_up, self.patience, name.to_owned());
        async move {
            let mut lookup = join(&under_way, &name, None, look_up);
            if lookup.is_none() {
                let permit = lookups.acquire_owned().await.map_err(io::Error::other)?;
                lookup = join(&under_way, &name, Some(permit), look_up);
            }
            let mut lookup = lookup.ok_or_else(|| io::Error::other("nobody looks it up"))?;
            if lookup.begun.elapsed() > patience {
                let text = "the name servers have not answered an earlier lookup of it yet";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            let found = lookup.found.wait_for(Option::is_some).await;
            let found = found.map_err(io::Error::other)?.clone();
            found
                .unwrap_or_else(|| Ok(Vec::new()))
                .map_err(io::Error::other)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
