//! A watch that begins with a list: one request brings all objects and goes on with their changes (Kubernetes 1.34 and later).
//!
//! The API server sends from its cache, once that is as new as the request, and builds no list for it. kube has this too, but asks for
//! objects of any age, and drops deletions that come before the end of the list.

use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use kube::api::WatchParams;
use kube::core::{Status, WatchEvent};
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, Resource};
use tokio::time::timeout;

use super::Watchable;

/// The annotation of the bookmark that ends the list.
const END: &str = "k8s.io/initial-events-end";
/// How long the API server may send nothing before the list ends. One that lags waits for its cache; a list in pages waits for nothing.
const LIST_SILENCE: Duration = Duration::from_secs(5);
/// How long it may send nothing after the time at which it ends each watch.
const GRACE: Duration = Duration::from_secs(5);

/// Returns the events of a kind, as [`watcher`] does. If the API server does not list by streams, or not in time, `watcher` lists in pages
/// from then on.
pub(super) fn listed_by_stream<K: Watchable>(
    api: Api<K>,
    config: Config,
) -> impl Stream<Item = Result<Event<K>, Error>> + Send {
    let paged = watcher(api.clone(), config.clone());
    let watch = Watch { api, config };
    let streamed = stream::unfold((watch, State::Unlisted), async |(watch, mut state)| {
        loop {
            let (event, next) = watch.step(state).await;
            match (event, next) {
                (Some(event), next) => return Some((event, (watch, next))),
                (None, State::Refused) => return None,
                (None, next) => state = next,
            }
        }
    });
    streamed.chain(paged)
}

type Events<K> = BoxStream<'static, Result<WatchEvent<K>, kube::Error>>;

enum State<K> {
    /// The next request lists.
    Unlisted,
    /// The list is on its way. `gone` went meanwhile.
    Listing { events: Events<K>, gone: Vec<K> },
    /// The list is complete, but for those that went meanwhile.
    Listed {
        events: Events<K>,
        gone: Vec<K>,
        version: String,
    },
    /// The objects change.
    Watching { events: Events<K>, version: String },
    /// The watch ended, and goes on from this resourceVersion.
    Ended { version: String },
    /// There are no lists by stream.
    Refused,
}

struct Watch<K> {
    api: Api<K>,
    config: Config,
}

/// An event, if there is one, and what comes next.
type Step<K> = (Option<Result<Event<K>, Error>>, State<K>);

impl<K: Watchable> Watch<K> {
    async fn step(&self, state: State<K>) -> Step<K> {
        match state {
            State::Unlisted => match self.request("").await {
                Ok(events) => {
                    let gone = Vec::new();
                    (Some(Ok(Event::Init)), State::Listing { events, gone })
                }
                Err(kube::Error::Api(status)) if is_final(&status) => (None, State::Refused),
                Err(error) => (Some(Err(Error::WatchStartFailed(error))), State::Unlisted),
            },
            State::Listing { mut events, gone } => {
                let event = timeout(LIST_SILENCE, events.next()).await.ok().flatten();
                listing(event, events, gone)
            }
            State::Listed {
                events,
                mut gone,
                version,
            } => match gone.pop() {
                Some(object) => {
                    let state = State::Listed {
                        events,
                        gone,
                        version,
                    };
                    (Some(Ok(Event::Delete(object))), state)
                }
                None => (None, State::Watching { events, version }),
            },
            State::Watching {
                mut events,
                version,
            } => {
                let longest = Duration::from_secs(self.config.timeout.unwrap_or(290).into());
                let event = timeout(longest + GRACE, events.next()).await.ok().flatten();
                watching(event, events, version)
            }
            State::Ended { version } => match self.request(&version).await {
                Ok(events) => (None, State::Watching { events, version }),
                Err(error) => {
                    let is_too_old = matches!(&error, kube::Error::Api(it) if it.code == 410);
                    let next = match is_too_old {
                        true => State::Unlisted,
                        false => State::Ended { version },
                    };
                    (Some(Err(Error::WatchStartFailed(error))), next)
                }
            },
            State::Refused => (None, State::Refused),
        }
    }

    /// Watches from a resourceVersion; without one, from a list that is as new as the request.
    async fn request(&self, version: &str) -> Result<Events<K>, kube::Error> {
        let params = WatchParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            timeout: self.config.timeout,
            bookmarks: true,
            send_initial_events: version.is_empty(),
        };
        Ok(self.api.watch(&params, version).await?.boxed())
    }
}

/// Whether asking again would be answered the same: the API server does not know such lists, or allows lists and no watches.
fn is_final(status: &Status) -> bool {
    (400..500).contains(&status.code) && status.code != 429
}

fn listing<K: Watchable>(
    event: Option<Result<WatchEvent<K>, kube::Error>>,
    events: Events<K>,
    mut gone: Vec<K>,
) -> Step<K> {
    match event {
        Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
            gone.retain(|it| !is_named_alike(it, &object));
            let next = State::Listing { events, gone };
            (Some(Ok(Event::InitApply(object))), next)
        }
        Some(Ok(WatchEvent::Deleted(object))) => {
            gone.push(object);
            (None, State::Listing { events, gone })
        }
        Some(Ok(WatchEvent::Bookmark(mark))) => {
            if !mark.metadata.annotations.contains_key(END) {
                return (None, State::Listing { events, gone });
            }
            let version = mark.metadata.resource_version;
            let next = State::Listed {
                events,
                gone,
                version,
            };
            (Some(Ok(Event::InitDone)), next)
        }
        // Broken, ended or silent. A list in pages comes through where a long answer does not.
        Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => (None, State::Refused),
    }
}

fn watching<K: Watchable>(
    event: Option<Result<WatchEvent<K>, kube::Error>>,
    events: Events<K>,
    version: String,
) -> Step<K> {
    let known = |object: &K| object.meta().resource_version.clone();
    match event {
        Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
            let version = known(&object).unwrap_or(version);
            let next = State::Watching { events, version };
            (Some(Ok(Event::Apply(object))), next)
        }
        Some(Ok(WatchEvent::Deleted(object))) => {
            let version = known(&object).unwrap_or(version);
            let next = State::Watching { events, version };
            (Some(Ok(Event::Delete(object))), next)
        }
        Some(Ok(WatchEvent::Bookmark(mark))) => {
            let version = mark.metadata.resource_version;
            (None, State::Watching { events, version })
        }
        Some(Ok(WatchEvent::Error(status))) => {
            let next = match status.code {
                410 => State::Unlisted,
                _ => State::Watching { events, version },
            };
            (Some(Err(Error::WatchError(status.boxed()))), next)
        }
        Some(Err(error)) => {
            let next = State::Watching { events, version };
            (Some(Err(Error::WatchFailed(error))), next)
        }
        None => (None, State::Ended { version }),
    }
}

fn is_named_alike<K: Resource>(one: &K, other: &K) -> bool {
    let (one, other) = (one.meta(), other.meta());
    one.name == other.name && one.namespace == other.namespace
}

#[cfg(test)]
mod tests;
