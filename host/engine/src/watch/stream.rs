//! A watch that begins with a list: one request brings all objects and goes on with their changes (Kubernetes 1.34 and later).
//!
//! The API server sends from its cache, once that is as new as the request, and builds no list for it. kube has this too, but asks for
//! objects of any age, and drops deletions that come before the end of the list.

use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use kube::api::WatchParams;
use kube::core::WatchEvent;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, Resource};
use tokio::time::{Instant, timeout, timeout_at};

use super::Watchable;

/// The annotation of the bookmark that ends the list.
const END: &str = "k8s.io/initial-events-end";
/// How long the API server may take for its first answer. It waits until its cache is new enough, or asks to come again.
const FIRST: Duration = Duration::from_secs(10);
/// How long it may send nothing before the list ends.
const LIST_SILENCE: Duration = Duration::from_secs(5);
/// How long it may send nothing after the time at which it ends each watch.
const GRACE: Duration = Duration::from_secs(5);

/// Returns the events of a kind, as [`watcher`] does. If the API server refuses to list by streams, or a list breaks off or takes too
/// long, `watcher` lists in pages from then on: that may come through where a long answer does not.
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
                (None, State::Refused) => {
                    let kind = watch.api.resource_url();
                    tracing::debug!(kind, "no list by stream, so lists come in pages");
                    return None;
                }
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
    /// The list is on its way, until an instant at most. `gone` went meanwhile.
    Listing {
        events: Events<K>,
        gone: Vec<K>,
        until: Instant,
    },
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
            State::Unlisted => self.list().await,
            State::Listing {
                mut events,
                gone,
                until,
            } => {
                let end = until.min(Instant::now() + LIST_SILENCE);
                let event = timeout_at(end, events.next()).await.ok().flatten();
                listing(event, events, (gone, until))
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
                let event = timeout(self.longest(), events.next()).await;
                let event = event.ok().flatten();
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

    /// Begins a watch with a list.
    async fn list(&self) -> Step<K> {
        match timeout(FIRST, self.request("")).await {
            Ok(Ok(events)) => {
                let next = State::Listing {
                    events,
                    gone: Vec::new(),
                    until: Instant::now() + self.longest(),
                };
                (Some(Ok(Event::Init)), next)
            }
            // Perhaps it does not know this. If something else is wrong, the watch with pages says what.
            Ok(Err(kube::Error::Api(_))) | Err(_) => (None, State::Refused),
            Ok(Err(error)) => (Some(Err(Error::WatchStartFailed(error))), State::Unlisted),
        }
    }

    /// How long a watch may last, or be silent.
    fn longest(&self) -> Duration {
        Duration::from_secs(self.config.timeout.unwrap_or(290).into()) + GRACE
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

fn listing<K: Watchable>(
    event: Option<Result<WatchEvent<K>, kube::Error>>,
    events: Events<K>,
    (mut gone, until): (Vec<K>, Instant),
) -> Step<K> {
    let goes_on = |events, gone| State::Listing {
        events,
        gone,
        until,
    };
    match event {
        Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
            gone.retain(|it| !is_named_alike(it, &object));
            (Some(Ok(Event::InitApply(object))), goes_on(events, gone))
        }
        Some(Ok(WatchEvent::Deleted(object))) => {
            gone.push(object);
            (None, goes_on(events, gone))
        }
        Some(Ok(WatchEvent::Bookmark(mark))) => {
            if !mark.metadata.annotations.contains_key(END) {
                return (None, goes_on(events, gone));
            }
            let version = mark.metadata.resource_version;
            if version.is_empty() {
                return (None, State::Refused);
            }
            let next = State::Listed {
                events,
                gone,
                version,
            };
            (Some(Ok(Event::InitDone)), next)
        }
        Some(Ok(WatchEvent::Error(status))) => {
            (Some(Err(Error::WatchError(status.boxed()))), State::Refused)
        }
        Some(Err(error)) => (Some(Err(Error::WatchFailed(error))), State::Refused),
        // Ended or silent.
        None => (None, State::Refused),
    }
}

fn watching<K: Watchable>(
    event: Option<Result<WatchEvent<K>, kube::Error>>,
    events: Events<K>,
    version: String,
) -> Step<K> {
    let known = |object: &K| {
        let version = object.meta().resource_version.clone();
        version.filter(|version| !version.is_empty())
    };
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
            let new = mark.metadata.resource_version;
            let version = if new.is_empty() { version } else { new };
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
