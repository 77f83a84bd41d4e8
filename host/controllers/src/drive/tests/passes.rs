//! What becomes of passes that fail, panic or hang, with a controller of the tests' own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::channel::mpsc;
use futures::{FutureExt, SinkExt, StreamExt, future, stream};
use kube::runtime::Controller;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use podloom_api::{BrowserObject, Kind, SelenosisApi, names};
use prometheus_client::metrics::gauge::Gauge;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::drive::{Context, Driven, Next, Places, Queue, Reconcile, drive};
use crate::error::ReconcileError;
use crate::fixtures::{client, context, status};
use crate::readable::Readable;

type Pass = Box<dyn Fn(&BrowserObject) -> Result<Next, ReconcileError> + Send + Sync>;

/// Notes each pass, and does what the test says.
struct Scripted {
    pass: Pass,
    passes: Passes,
    lasts: Duration,
}

/// The name of the object of each pass, and when it was.
#[derive(Clone, Default)]
struct Passes(Arc<Mutex<Vec<(String, Instant)>>>);

impl Passes {
    fn of(&self, name: &str) -> Vec<Instant> {
        let passes = self.0.lock().unwrap();
        let of = passes.iter().filter(|(object, _)| object == name);
        of.map(|(_, at)| *at).collect()
    }
}

impl Reconcile for Scripted {
    type Object = BrowserObject;

    const FINALIZER: &'static str = names::finalizer::BROWSER;
    const FIELD_MANAGER: &'static str = names::field_manager::BROWSER;

    async fn reconcile(&self, _: &Context, object: &BrowserObject) -> Result<Next, ReconcileError> {
        let name = object.metadata.name.clone().unwrap();
        self.passes.0.lock().unwrap().push((name, Instant::now()));
        sleep(self.lasts).await;
        (self.pass)(object)
    }
}

type Stored = Readable<BrowserObject>;

fn object(name: &str, generation: i64) -> BrowserObject {
    object_in("team", name, generation)
}

fn object_in(namespace: &str, name: &str, generation: i64) -> BrowserObject {
    let object = json!({
        "metadata": { "name": name, "namespace": namespace, "uid": name, "generation": generation },
        "spec": { "browserName": "chrome", "browserVersion": "1" },
    });
    serde_json::from_value(object).unwrap()
}

fn deleted(mut object: BrowserObject) -> BrowserObject {
    object.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    object
}

/// A controller at work, until the handle is dropped.
struct Work {
    passes: Passes,
    events: mpsc::Sender<BrowserObject>,
}

impl Work {
    /// Shows the controller the object as it is now.
    async fn see(&mut self, object: BrowserObject) {
        self.events.send(object).await.unwrap();
        // One turn of everybody, and a time that no wait of an object comes near.
        sleep(Duration::from_millis(1)).await;
    }

    /// Wakes an object twenty times a second for so long, as its own status writes and its neighbours would.
    async fn keep_waking(&mut self, object: &BrowserObject, seconds: u32) {
        for _ in 0..seconds * 20 {
            self.see(object.clone()).await;
            sleep(Duration::from_millis(49)).await;
        }
    }
}

fn work(lasts: Duration, pass: Pass) -> (Work, impl Future<Output = ()>) {
    work_until(lasts, pass, CancellationToken::new())
}

fn work_until(
    lasts: Duration,
    pass: Pass,
    stop: CancellationToken,
) -> (Work, impl Future<Output = ()>) {
    work_at(usize::MAX, lasts, pass, stop)
}

fn work_at(
    places: usize,
    lasts: Duration,
    pass: Pass,
    stop: CancellationToken,
) -> (Work, impl Future<Output = ()>) {
    let resource = Arc::new(SelenosisApi::Seed.resource(Kind::Browser));
    let mut writer = Writer::<Stored>::new(resource.clone());
    let store = writer.as_reader();
    for event in [Event::Init, Event::InitDone] {
        writer.apply_watcher_event(&event);
    }
    let (events, seen) = mpsc::channel::<BrowserObject>(16);
    let wakes = seen
        .map(move |object| {
            writer.apply_watcher_event(&Event::Apply(Readable(Ok(object.clone()))));
            Ok(Readable(Ok(object)))
        })
        .chain(stream::pending());
    let (places, free) = Places::new(places);
    let of_places = resource.clone();
    let free = free.map(move |(namespace, name)| {
        ObjectRef::new_with(&name, of_places.clone()).within(&namespace)
    });
    let controller = Controller::for_stream_with(wakes, store, resource.clone()).reconcile_on(free);
    let passes = Passes::default();
    let scripted = Scripted {
        pass,
        passes: passes.clone(),
        lasts,
    };
    let (client, _) = client(200, json!({}));
    let driven = Driven {
        name: "browser",
        resource,
        ctx: Arc::new(context(client)),
        controller: scripted,
        caches: future::ready(()).boxed().shared(),
        backoff: Backoff::new(),
        queue: Queue::new(Gauge::default()),
        places,
    };
    (Work { passes, events }, drive(controller, driven, stop))
}

/// Runs the script beside the controller.
async fn play(driving: impl Future<Output = ()>, script: impl Future<Output = ()>) {
    tokio::select! {
        () = driving => panic!("the controller ended"),
        played = timeout(Duration::from_hours(2), script) => played.unwrap(),
    }
}

fn refused() -> Result<Next, ReconcileError> {
    Err(ReconcileError::Refused {
        reason: "PodForbidden",
        message: "quota".to_owned(),
        deadline: Duration::from_mins(5),
    })
}

fn conflict() -> Result<Next, ReconcileError> {
    let answer = serde_json::from_value(status(409, "Conflict", "somebody else wrote")).unwrap();
    Err(ReconcileError::WriteStatus {
        source: Box::new(kube::Error::Api(Box::new(answer))),
    })
}

const AT_ONCE: Duration = Duration::ZERO;

#[tokio::test(start_paused = true)]
async fn a_refused_object_waits_its_time_out_whatever_wakes_it() {
    let (mut work, driving) = work(AT_ONCE, Box::new(|_| refused()));
    let passes = work.passes.clone();
    play(driving, async move {
        work.keep_waking(&object("a", 1), 20).await
    })
    .await;
    let tries = passes.of("a").len();
    assert!((6..=8).contains(&tries), "{tries} tries in 20 s");
}

#[tokio::test(start_paused = true)]
async fn a_refused_object_is_tried_again_though_nothing_wakes_it() {
    let (mut work, driving) = work(AT_ONCE, Box::new(|_| refused()));
    let passes = work.passes.clone();
    play(driving, async move {
        work.see(object("a", 1)).await;
        sleep(Duration::from_secs(20)).await;
    })
    .await;
    let tries = passes.of("a").len();
    assert!((6..=8).contains(&tries), "{tries} tries in 20 s");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_and_an_edit_are_tried_at_once_and_then_wait() {
    let (mut work, driving) = work(AT_ONCE, Box::new(|_| refused()));
    let passes = work.passes.clone();
    play(driving, async move {
        work.keep_waking(&object("a", 1), 10).await;
        let before = work.passes.of("a").len();
        work.see(object("a", 2)).await;
        assert_eq!(work.passes.of("a").len(), before + 1, "the edit waits");
        work.see(deleted(object("a", 2))).await;
        assert_eq!(work.passes.of("a").len(), before + 2, "the deletion waits");
        work.keep_waking(&deleted(object("a", 2)), 10).await;
        let tries = work.passes.of("a").len() - before - 1;
        assert!((5..=7).contains(&tries), "{tries} tries in 10 s");
    })
    .await;
    drop(passes);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_looked_at_with_the_event_that_made_it() {
    let (mut work, driving) = work(AT_ONCE, Box::new(|_| conflict()));
    let passes = work.passes.clone();
    play(driving, async move {
        work.see(object("a", 1)).await;
        work.see(object("a", 1)).await;
        work.see(object("a", 1)).await;
    })
    .await;
    assert_eq!(passes.of("a").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_panic_costs_its_pass_and_holds_back_its_object_alone() {
    let poisoned: Pass = Box::new(|object| match object.metadata.name.as_deref() {
        Some("poisoned") => panic!("boom"),
        _ => Ok(Next::Resync),
    });
    let (mut work, driving) = work(AT_ONCE, poisoned);
    let passes = work.passes.clone();
    play(driving, async move {
        work.keep_waking(&object("poisoned", 1), 10).await;
        work.see(object("sound", 1)).await;
        work.see(object("sound", 1)).await;
    })
    .await;
    let tries = passes.of("poisoned").len();
    assert!((5..=7).contains(&tries), "{tries} tries in 10 s");
    assert_eq!(passes.of("sound").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_hangs_is_given_up() {
    let (mut work, driving) = work(Duration::from_hours(1), Box::new(|_| Ok(Next::Resync)));
    let passes = work.passes.clone();
    play(driving, async move {
        work.see(object("a", 1)).await;
        sleep(Duration::from_mins(5)).await;
    })
    .await;
    let tries = passes.of("a");
    assert!(tries.len() >= 2, "it hangs for ever");
    assert!(tries[1] - tries[0] >= Duration::from_mins(2));
}

/// Nothing was decided, so an object that failed is as bad as before.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_cache_ends_no_backoff() {
    let passed = Mutex::new(0);
    let (mut work, driving) = work(
        AT_ONCE,
        Box::new(move |_| {
            let mut passed = passed.lock().unwrap();
            *passed += 1;
            match *passed % 2 {
                1 => refused(),
                _ => Ok(Next::CatchUp),
            }
        }),
    );
    let passes = work.passes.clone();
    play(driving, async move {
        work.keep_waking(&object("a", 1), 20).await;
    })
    .await;
    let tries = passes.of("a").len().div_ceil(2);
    assert!((6..=8).contains(&tries), "{tries} tries in 20 s");
}

/// With the watches go the caches, and a pass would take an empty one for an empty cluster.
#[tokio::test(start_paused = true)]
async fn no_pass_begins_after_a_stop() {
    let stop = CancellationToken::new();
    stop.cancel();
    let (mut work, driving) = work_until(AT_ONCE, Box::new(|_| Ok(Next::Resync)), stop);
    let passes = work.passes.clone();
    play(driving, async move {
        work.see(object("a", 1)).await;
    })
    .await;
    assert!(passes.of("a").is_empty());
}

/// Its namespace's webhook hangs, say; those of another namespace do not wait for it, and each of its own has a turn.
#[tokio::test(start_paused = true)]
async fn a_namespace_whose_passes_last_holds_up_no_other() {
    let lasts = Duration::from_secs(30);
    let stop = CancellationToken::new();
    let (mut work, driving) = work_at(2, lasts, Box::new(|_| Ok(Next::Resync)), stop);
    let passes = work.passes.clone();
    play(driving, async move {
        for name in ["a", "b", "c", "d", "e"] {
            work.see(object_in("slow", name, 1)).await;
        }
        work.see(object_in("quick", "f", 1)).await;
        assert_eq!(work.passes.of("f").len(), 1, "it waits for others");
        assert!(work.passes.of("c").is_empty());
        sleep(lasts * 3).await;
    })
    .await;
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(passes.of(name).len(), 1, "{name}");
    }
    let waits = |name: &str| passes.of(name)[0] - passes.of("a")[0];
    assert!(waits("c") < lasts * 2 && waits("e") >= lasts * 2 - lasts / 10);
}

/// Whoever leads next waits for it.
#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_passes_but_not_for_ever() {
    let stop = CancellationToken::new();
    let lasts = Duration::from_mins(1);
    let (mut work, driving) = work_until(lasts, Box::new(|_| Ok(Next::Resync)), stop.clone());
    let begun = Instant::now();
    let script = async move {
        work.see(object("a", 1)).await;
        stop.cancel();
        work
    };
    let (_work, ()) = tokio::join!(script, driving);
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(9) && took < Duration::from_secs(12),
        "{took:?}"
    );
}
