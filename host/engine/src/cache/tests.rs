use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::watcher::Event;
use kube::{Api, Client, Resource};
use podloom_scripted::{Requests, SILENCE, scripted, status};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::{Cache, Change, Seen, Watch, WhenRefused};
use crate::kind::ResourceScope;
use crate::metrics::EngineMetrics;
use crate::readable::Readable;
use crate::tests::{Lamp, lamp, lamps};

/// An API server that begins to answer with a list once it is allowed to, and its client.
fn server(allowed: &'static AtomicBool) -> (Client, Requests) {
    scripted(move |request, _| {
        assert!(request.starts_with("GET /api/v1/namespaces"), "{request}");
        match allowed.load(Ordering::Relaxed) {
            false => (403, status(403, "Forbidden", "no right")),
            true => (200, answer()),
        }
    })
}

fn answer() -> Value {
    let namespace = json!({ "metadata": { "name": "team-a", "resourceVersion": "1" } });
    json!({ "kind": "NamespaceList", "apiVersion": "v1", "metadata": { "resourceVersion": "1" }, "items": [namespace] })
}

/// A cache of namespaces that may perhaps not be read.
fn namespaces(client: &Client) -> Cache<Namespace> {
    let metrics = EngineMetrics::collected(&mut Registry::default());
    let watch = Watch {
        kind: "Namespace",
        cache: "namespaces",
        resource: (),
        scope: ResourceScope::Cluster,
        api: |client, _, ()| Api::all(client),
        label: "",
        prune: |_| {},
        refused: WhenRefused::Forgotten,
    };
    Cache::watching(client, &metrics, watch, [None])
}

/// How many objects are known.
fn known(cache: &Cache<Namespace>) -> Option<usize> {
    cache.is_known(None).then(|| cache.all().len())
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_asked_for_seldom_and_cached_once_it_may() {
    static ALLOWED: AtomicBool = AtomicBool::new(false);
    let (client, requests) = server(&ALLOWED);
    let cache = namespaces(&client);
    let work = tokio::spawn(cache.fill());
    // Whoever waits for the cache goes on without the objects.
    cache.filled(None).await;
    assert!(cache.may_be_hidden(), "the right may come in a moment");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(known(&cache).is_none());
    assert!(!cache.may_be_hidden(), "the right is not given");
    let asked = requests.made().len();
    // Soon at first, then every 30 to 60 seconds.
    assert!((14..=28).contains(&asked), "{asked} requests");
    ALLOWED.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(known(&cache), Some(1));
    work.abort();
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_any_more_is_forgotten_and_asked_for_seldom() {
    static ALLOWED: AtomicBool = AtomicBool::new(true);
    let (client, requests) = server(&ALLOWED);
    let cache = namespaces(&client);
    let work = tokio::spawn(cache.fill());
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(known(&cache), Some(1));
    ALLOWED.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(known(&cache).is_none());
    assert!(cache.all().is_empty());
    let before = requests.made().len();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let asked = requests.made().len() - before;
    assert!((9..=21).contains(&asked), "{asked} requests");
    ALLOWED.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(known(&cache), Some(1));
    work.abort();
}

/// A watch shows each object twice: while it comes, and when the cache has it.
#[tokio::test(start_paused = true)]
async fn listeners_hear_of_a_list_when_the_cache_has_it() {
    static ALLOWED: AtomicBool = AtomicBool::new(true);
    let (client, requests) = server(&ALLOWED);
    let cache = namespaces(&client);
    let told = Arc::new(Mutex::new(Vec::new()));
    let (noted, known) = (Arc::clone(&told), cache.clone());
    cache.listen(move |seen| noted.lock().unwrap().push((name(seen), known.all().len())));
    let work = tokio::spawn(cache.fill());
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        *told.lock().unwrap(),
        [("coming".to_owned(), 0), ("listed".to_owned(), 1)]
    );
    assert!(requests.made().len() > 1);
    work.abort();
}

#[tokio::test]
async fn a_cache_that_nothing_fills_is_empty_and_holds_nobody_up() {
    let (client, _) = scripted(|_, _| (SILENCE, Value::Null));
    let cache = namespaces(&client);
    let mut work = cache.fill();
    assert!(work.as_mut().now_or_never().is_none());
    assert!(known(&cache).is_none());
    drop(work);
    assert!(known(&cache).is_none());
}

/// What is told, in a word and a name.
fn name<K: Resource>(seen: &Seen<'_, K>) -> String {
    let of = |object: &K| object.meta().uid.clone().unwrap_or_default();
    match seen {
        Seen::Coming(_) => "coming".to_owned(),
        Seen::Changed(Change { before, after, .. }) => {
            let uids = [before, after].map(|it| it.map(of).unwrap_or_default());
            uids.join(" -> ")
        }
        Seen::Listed(None) => "listed".to_owned(),
        Seen::Listed(Some(namespace)) => format!("listed {namespace}"),
    }
}

type Stored = Readable<Lamp>;

/// A cache of two namespaces, and what it tells.
fn two() -> (Cache<Stored>, Arc<Mutex<Vec<String>>>) {
    let watch = Watch::ours("Lamp", "lamps", &lamps());
    let namespaces = ["a", "b"].map(|name| Some(name.to_owned()));
    let cache = Cache::unwatched(watch, namespaces);
    let told = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&told);
    cache.listen(move |seen| noted.lock().unwrap().push(name(seen)));
    (cache, told)
}

fn stored(namespace: &str, name: &str, uid: &str) -> Stored {
    let mut lamp = lamp(namespace, name, 1);
    lamp.metadata.uid = Some(uid.to_owned());
    Readable(Ok(lamp))
}

fn list(objects: &[Stored]) -> Vec<Event<Stored>> {
    let objects = objects.iter().cloned().map(Event::InitApply);
    let list = std::iter::once(Event::Init).chain(objects);
    list.chain([Event::InitDone]).collect()
}

/// An object that was deleted, or replaced by another of its name, while the watch was broken shows in no event.
#[test]
fn what_went_while_a_watch_was_broken_is_told() {
    let (cache, told) = two();
    let first = [("x", "x1"), ("y", "y1"), ("z", "z1")].map(|(name, uid)| stored("a", name, uid));
    for event in list(&first) {
        cache.show(Some("a"), &event);
    }
    cache.show(Some("b"), &Event::Apply(stored("b", "x", "other")));
    told.lock().unwrap().clear();
    // The first list is interrupted.
    let second = [("y", "y2"), ("z", "z1")].map(|(name, uid)| stored("a", name, uid));
    cache.show(Some("a"), &Event::Init);
    for event in list(&second) {
        cache.show(Some("a"), &event);
    }
    let mut told = told.lock().unwrap().split_off(2);
    assert_eq!(told.pop().unwrap(), "listed a");
    told.sort();
    assert_eq!(told, ["x1 -> ", "y1 -> "]);
    assert!(cache.get(Some("b"), "x").is_some());
}

#[test]
fn a_change_has_what_was_before() {
    let (cache, told) = two();
    cache.show(Some("a"), &Event::Apply(stored("a", "x", "1")));
    cache.show(Some("a"), &Event::Apply(stored("a", "x", "2")));
    cache.show(Some("a"), &Event::Delete(stored("a", "x", "2")));
    let told = told.lock().unwrap();
    assert_eq!(*told, ["coming", " -> 1", "coming", "1 -> 2", "2 -> "]);
    assert!(cache.all().is_empty());
}

#[test]
fn an_object_is_woken_where_its_namespace_is_watched() {
    let (cache, _) = two();
    for namespace in ["a", "b"] {
        for event in list(&[stored(namespace, &format!("{namespace}1"), "")]) {
            cache.show(Some(namespace), &event);
        }
    }
    cache.wake(Some("a"), "a1");
    cache.wake(Some("c"), "c1");
    assert_eq!(cache.noted(), ["a1"]);
    cache.wake_in(Some("b"));
    assert_eq!(cache.noted(), ["b1"]);
    cache.wake_in(None);
    assert_eq!(cache.noted(), ["a1", "b1"]);
    cache.wake_if(|it| it.meta().name.as_deref() == Some("b1"));
    assert_eq!(cache.noted(), ["b1"]);
    assert!(cache.noted().is_empty());
}

/// A listener that knows its own cache would keep it for ever.
#[test]
fn listeners_go_with_the_work_although_nothing_is_watched() {
    let (cache, seen) = two();
    let own = cache.clone();
    cache.listen(move |_| drop(own.all()));
    drop(cache.fill());
    drop(cache);
    assert_eq!(Arc::strong_count(&seen), 1, "a listener is still there");
}

#[test]
fn a_namespace_is_filled_by_itself() {
    let (cache, _) = two();
    for event in list(&[]) {
        cache.show(Some("a"), &event);
    }
    assert!(cache.filled(Some("a")).now_or_never().is_some());
    assert!(cache.filled(None).now_or_never().is_none());
    assert!(cache.is_known(Some("a")) && !cache.is_known(Some("b")));
    for event in list(&[]) {
        cache.show(Some("b"), &event);
    }
    assert!(cache.filled(None).now_or_never().is_some());
}

/// A controller waits for a cache in many passes at once, and each in a task of its own.
#[tokio::test]
async fn all_that_wait_for_a_cache_go_on_when_it_is_filled() {
    let (cache, _) = two();
    let tasks: Vec<_> = (0..3)
        .map(|_| tokio::spawn(cache.filled(Some("a"))))
        .collect();
    // Each has looked, and waits.
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    cache.show(Some("a"), &Event::Init);
    cache.show(Some("a"), &Event::InitDone);
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(30), task)
            .await
            .expect("it was never woken")
            .unwrap();
    }
}
