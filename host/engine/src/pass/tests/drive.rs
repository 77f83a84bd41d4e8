//! What becomes of passes that fail, panic or hang, with a kind of the tests' own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::channel::mpsc;
use futures::{FutureExt, SinkExt, StreamExt, future, stream};
use jiff::Timestamp;
use kube::core::ObjectMeta;
use kube::runtime::Controller;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use podloom_scripted::{client, status};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::super::drive;
use crate::error::{Attempt, Error};
use crate::kind::{Context, Kind, Remains, Source, Traits};
use crate::pass::Passes;
use crate::permits::PassPermits;
use crate::plan::{Plan, Then};
use crate::readable::Readable;
use crate::testing::{alone, context};
use crate::tests::{Lamp, lamp, lamps};

/// What a pass comes to.
type Pass = Box<dyn Fn(&Lamp) -> Result<Plan<()>, Error> + Send + Sync>;

/// Notes each pass, and does what the test says.
struct Scripted {
    pass: Pass,
    passes: Made,
    lasts: Duration,
}

/// The name of the object of each pass, and when it was.
#[derive(Clone, Default)]
struct Made(Arc<Mutex<Vec<(String, Instant)>>>);

impl Made {
    fn of(&self, name: &str) -> Vec<Instant> {
        let passes = self.0.lock().unwrap();
        let of = passes.iter().filter(|(object, _)| object == name);
        of.map(|(_, at)| *at).collect()
    }
}

impl Kind for Scripted {
    type Object = Lamp;
    type World = (Lamp, Plan<()>);
    type Action = ();
    type Outcome = ();

    const TRAITS: Traits = Traits {
        finalizer: Some("example.com/lamp"),
        ..Traits::of("Lamp", "lamp", "test")
    };

    async fn observe(&self, _: &Context, lamp: &Lamp, _: Source) -> Result<Self::World, Error> {
        let name = lamp.metadata.name.clone().unwrap();
        self.passes.0.lock().unwrap().push((name, Instant::now()));
        sleep(self.lasts).await;
        Ok((lamp.clone(), (self.pass)(lamp)?))
    }

    fn plan(&self, (_, plan): &Self::World, _: Timestamp) -> Plan<()> {
        plan.clone()
    }

    async fn act(&self, _: &Context, _: &Self::World, (): &()) -> Result<(), Error> {
        Ok(())
    }

    fn learn(&self, _: &mut Self::World, (): ()) -> Remains {
        Remains::Object
    }

    fn metadata((lamp, _): &Self::World) -> &ObjectMeta {
        &lamp.metadata
    }
}

/// Waits until something changes.
fn rests() -> Pass {
    Box::new(|_| Ok(Plan::wait(Then::Change)))
}

type Stored = Readable<Lamp>;

fn object(name: &str, generation: i64) -> Lamp {
    lamp("team", name, generation)
}

fn deleted(mut object: Lamp) -> Lamp {
    object.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    object
}

/// A controller at work, until the handle is dropped.
struct Work {
    passes: Made,
    events: mpsc::Sender<Lamp>,
}

impl Work {
    /// Shows the controller the object as it is now.
    async fn see(&mut self, object: Lamp) {
        self.events.send(object).await.unwrap();
        // One turn of everybody, and a time that no wait of an object comes near.
        sleep(Duration::from_millis(1)).await;
    }

    /// Wakes an object twenty times a second for so long, as its own status writes and its neighbours would.
    async fn keep_waking(&mut self, object: &Lamp, seconds: u32) {
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
    permits: usize,
    lasts: Duration,
    pass: Pass,
    stop: CancellationToken,
) -> (Work, impl Future<Output = ()>) {
    let resource = lamps();
    let mut writer = Writer::<Stored>::new(resource.clone());
    let store = writer.as_reader();
    for event in [Event::Init, Event::InitDone] {
        writer.apply_watcher_event(&event);
    }
    let (events, seen) = mpsc::channel::<Lamp>(16);
    let wakes = seen
        .map(move |object| {
            writer.apply_watcher_event(&Event::Apply(Readable(Ok(object.clone()))));
            Ok(Readable(Ok(object)))
        })
        .chain(stream::pending());
    let (permits, free) = PassPermits::new(permits, permits);
    let of_places = resource.clone();
    let free = free.map(move |(namespace, name)| {
        ObjectRef::new_with(&name, of_places.clone()).within(&namespace)
    });
    let controller = Controller::for_stream_with(wakes, store, resource.clone()).reconcile_on(free);
    let passes = Made::default();
    let scripted = Scripted {
        pass,
        passes: passes.clone(),
        lasts,
    };
    let (client, _) = client(200, json!({}));
    let driven = Passes {
        permits,
        ..alone(Arc::new(scripted), &resource, context(client))
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

fn refused() -> Result<Plan<()>, Error> {
    Err(Error::Retry {
        reason: "PodForbidden",
        message: "quota".to_owned(),
        within: Duration::from_mins(5),
    })
}

fn conflict() -> Result<Plan<()>, Error> {
    let answer = serde_json::from_value(status(409, "Conflict", "somebody else wrote")).unwrap();
    Err(Error::Request {
        attempt: Attempt::WRITE_STATUS,
        name: "a".to_owned(),
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
        _ => Ok(Plan::wait(Then::Change)),
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
    let (mut work, driving) = work(Duration::from_hours(1), rests());
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

/// With the watches go the caches, and a pass would take an empty one for an empty cluster.
#[tokio::test(start_paused = true)]
async fn no_pass_begins_after_a_stop() {
    let stop = CancellationToken::new();
    stop.cancel();
    let (mut work, driving) = work_until(AT_ONCE, rests(), stop);
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
    let (mut work, driving) = work_at(2, lasts, rests(), stop);
    let passes = work.passes.clone();
    play(driving, async move {
        for name in ["a", "b", "c", "d", "e"] {
            work.see(lamp("slow", name, 1)).await;
        }
        work.see(lamp("quick", "f", 1)).await;
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
    let (mut work, driving) = work_until(lasts, rests(), stop.clone());
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

/// A stop while the first lists are on their way, as when the API server does not answer.
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_caches_that_nobody_fills_any_more() {
    let resource = lamps();
    let mut writer = Writer::new(resource.clone());
    let store = writer.as_reader();
    for event in [
        Event::Init,
        Event::InitApply(Readable(Ok(object("a", 1)))),
        Event::InitDone,
    ] {
        writer.apply_watcher_event(&event);
    }
    let stop = CancellationToken::new();
    let wakes = stream::iter([Ok(Readable(Ok(object("a", 1))))]).chain(stream::pending());
    let controller = Controller::for_stream_with(wakes, store, resource.clone())
        .graceful_shutdown_on(stop.clone().cancelled_owned());
    let (client, _) = client(500, json!({}));
    let kind = Scripted {
        pass: Box::new(|_| panic!("a pass was made though the caches are not filled")),
        passes: Made::default(),
        lasts: AT_ONCE,
    };
    let driven = Passes {
        caches: future::pending().boxed().shared(),
        ..alone(Arc::new(kind), &resource, context(client))
    };
    let mut driving = std::pin::pin!(drive(controller, driven, stop.clone()));
    let begun = timeout(Duration::from_secs(1), driving.as_mut()).await;
    assert!(begun.is_err(), "it ended by itself");
    stop.cancel();
    let ended = timeout(Duration::from_secs(1), driving).await;
    assert!(ended.is_ok(), "the stop waits for the caches");
}
