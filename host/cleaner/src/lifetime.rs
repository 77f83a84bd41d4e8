//! Objects whose annotations or labels say how long they live: each gets a Cleaner, which deletes it with all that protects from a
//! Cleaner. Nothing here deletes an object.
//!
//! - `marks` reads annotations and labels, and `plan` says which Cleaner follows from them.
//! - `kind` keeps that Cleaner.

mod kind;
mod marks;
mod plan;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use kube::core::ApiResource;
use kube::discovery::{Scope, group};
use kube::{Client, Resource};
use podloom_engine::cache::{Cache, Seen, Watch};
use podloom_engine::plain::plain;
use podloom_engine::scope::{Pace, WatchScope};
use podloom_engine::wiring::Wiring;
use podloom_turns::lock;
use tokio::time::{sleep, timeout};

use self::kind::{Cached, CachedCleaners, MarkedKind, prune};
use crate::settings::{CleanerSetup, GroupResource};

/// How many objects of a kind are looked at once: a start with thousands of them must not flood the API server. With all namespaces
/// watched, one has a quarter.
const CONCURRENCY: u16 = 8;
/// How long a kind that is not served is not looked for again.
const MISS: Duration = Duration::from_secs(30);
/// How long finding a kind may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The caches of objects that Cleaners may belong to.
type Owners = Arc<Mutex<Vec<Cache<Cached>>>>;

/// Returns the work for all listed kinds: none if there are none. It goes before the cache of Cleaners is filled.
pub(super) fn begin(
    scopes: &[WatchScope],
    setup: &CleanerSetup,
    cleaners: &CachedCleaners,
) -> BoxFuture<'static, ()> {
    let owners = Owners::default();
    if !setup.lifetimes.kinds.is_empty() {
        wake_owners(cleaners, Arc::clone(&owners));
    }
    let kinds = setup.lifetimes.kinds.iter().cloned().map(|kind| {
        let (scopes, setup) = (scopes.to_vec(), setup.clone());
        follow(kind, scopes, setup, (cleaners.clone(), Arc::clone(&owners)))
    });
    future::join_all(kinds.collect::<Vec<_>>())
        .map(drop)
        .boxed()
}

/// Has a change of a Cleaner wake the object that it belongs to.
fn wake_owners(cleaners: &CachedCleaners, owners: Owners) {
    cleaners.listen(move |seen| match seen {
        Seen::Coming(_) => {}
        Seen::Changed(change) => {
            let cleaner = change.latest().map(Resource::meta);
            let references = cleaner.iter().flat_map(|it| it.owner_references.iter());
            for owner in references.flatten() {
                let namespace = cleaner.and_then(|it| it.namespace.as_deref());
                let of_kind = |it: &&Cache<Cached>| it.resource().kind == owner.kind;
                let caches = lock(&owners);
                caches
                    .iter()
                    .filter(of_kind)
                    .for_each(|it| it.wake(namespace, &owner.name));
            }
        }
        Seen::Listed(namespace) => lock(&owners).iter().for_each(|it| it.wake_in(*namespace)),
    });
}

/// Follows the objects of one kind. It may be installed later.
async fn follow(
    kind: GroupResource,
    scopes: Vec<WatchScope>,
    setup: CleanerSetup,
    (cleaners, owners): (CachedCleaners, Owners),
) {
    let Some(first) = scopes.first() else { return };
    let resource = Arc::new(served(&first.ctx.client, &kind).await);
    let watch = Watch {
        prune,
        ..Watch::of_kind::<MarkedKind>("", &resource)
    };
    let objects = Cache::new(&scopes, watch);
    let slow = |scope: &WatchScope| WatchScope {
        pace: Pace {
            concurrency: CONCURRENCY,
            ..scope.pace
        },
        ..scope.clone()
    };
    let slow: Vec<_> = scopes.iter().map(slow).collect();
    let wiring = Wiring::<MarkedKind>::new(&objects).awaits(cleaners.filled(None));
    let marked = MarkedKind::new(resource, cleaners, &setup);
    let controllers = wiring.run(&slow, marked);
    lock(&owners).push(objects.clone());
    future::select(controllers.boxed(), objects.fill()).await;
}

/// Finds a kind, and asks again until it is there.
async fn served(client: &Client, kind: &GroupResource) -> ApiResource {
    let mut said = None;
    loop {
        let problem = match timeout(REQUEST_TIMEOUT, find(client, kind)).await {
            Ok(Ok(resource)) => return resource,
            Ok(Err(problem)) => problem,
            Err(_) => "the API server does not answer".to_owned(),
        };
        if said.as_ref() != Some(&problem) {
            tracing::warn!(%kind, error = problem, "lifetimes of objects of this kind do not count for now, by --cleaner-ttl-kinds");
            said = Some(problem);
        }
        sleep(MISS).await;
    }
}

async fn find(client: &Client, kind: &GroupResource) -> Result<ApiResource, String> {
    let found = group(client, &kind.group).await;
    let found = found
        .map_err(|error| plain(&error))?
        .resources_by_stability();
    let found = found.into_iter().find(|(it, _)| it.plural == kind.plural);
    match found {
        None => Err("the API server serves no such kind".to_owned()),
        Some((_, capabilities)) if capabilities.scope == Scope::Cluster => Err(
            "its objects are in no namespace: list only kinds whose objects are in one".to_owned(),
        ),
        Some((resource, _)) => Ok(resource),
    }
}
