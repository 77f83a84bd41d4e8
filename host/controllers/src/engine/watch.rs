//! Watches: what fills the caches and wakes the controllers.

use std::fmt::Debug;
use std::hash::Hash;

use futures::channel::mpsc;
use futures::{Stream, StreamExt, TryStreamExt, future};
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::utils::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::backoff::watch_backoff;

/// How many seconds a watch lasts. kube takes one that is silent for five more to be dead.
///
/// Shortly before its end the API server sends the version that a watch has come to, so the next one goes on from there and lists
/// nothing.
const WATCH: u32 = 30;
/// How many objects a page of a list has.
const PAGE: u32 = 100;

/// Watches a kind into a cache, and returns the events too. `prune` drops what nobody reads before it is kept.
pub fn watch_into_cache<K>(
    api: Api<K>,
    config: watcher::Config,
    dyntype: K::DynamicType,
    prune: impl FnMut(&mut K) + Send + 'static,
    broke: impl Fn(&watcher::Error) + Send + 'static,
) -> (
    Store<K>,
    impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send + 'static,
)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Debug + Send + Sync + Unpin,
{
    let writer = Writer::new(dyntype);
    let reader = writer.as_reader();
    (
        reader,
        watch_events(api, config, prune, broke).reflect(writer),
    )
}

/// Watches a kind and returns its events, for a cache that the caller keeps.
pub fn watch_events<K>(
    api: Api<K>,
    config: watcher::Config,
    prune: impl FnMut(&mut K) + Send + 'static,
    broke: impl Fn(&watcher::Error) + Send + 'static,
) -> impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send + 'static
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    watcher(api, config)
        .backoff(watch_backoff())
        .modify(prune)
        .inspect_err(broke)
        // Logged, and waited for here: an error would make the controller hold back all of its other streams too.
        .filter(|event| future::ready(event.is_ok()))
}

/// How every watch is made: it ends often, so that one whose connection died without a word is noticed, and it lists in pages, so
/// that starting with many objects takes little memory.
pub fn watch_config() -> watcher::Config {
    watcher::Config::default().page_size(PAGE).timeout(WATCH)
}

/// Signals each time that a watch has listed everything; one that was broken for too long lists again.
///
/// Objects that went in the meantime show in no event. Objects that came show in one before the cache has them: the pages of a list
/// come one by one, and the cache changes with the last. So after each list all objects are looked at, or both would be missed.
pub fn signal_lists<K, E>(
    events: impl Stream<Item = Result<watcher::Event<K>, E>> + Send + 'static,
    mut listed: mpsc::Sender<()>,
) -> impl Stream<Item = Result<watcher::Event<K>, E>> + Send + 'static
where
    K: 'static,
    E: 'static,
{
    events.inspect(move |event| {
        if matches!(event, Ok(watcher::Event::InitDone)) {
            // If it is full, it was signalled before and nobody has looked yet.
            let _ = listed.try_send(());
        }
    })
}

#[cfg(test)]
mod tests;
