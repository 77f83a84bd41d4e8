//! One pass at a time, with a kind of the tests' own and an API server that answers as the test says.

mod drive;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::core::ObjectMeta;
use podloom_scripted::{client, scripted};
use serde_json::{Value, json};

use super::{Action, Next, Passes, Recent};
use crate::error::Error;
use crate::events::{self, Events, Notice};
use crate::kind::{Context, Done, Kind, Remains, Source, Traits, Unreadable};
use crate::plan::{Plan, Then};
use crate::readable::Readable;
use crate::testing::{alone, context};
use crate::tests::{Lamp, lamp, lamps};

const LAMPS: &str = "GET /apis/example.com/v1/namespaces/team/lamps";

/// Plans what the test says, in turn; its actions set the version of its object.
#[derive(Default)]
struct Scripted {
    plans: Mutex<VecDeque<Plan<u32>>>,
    /// Where objects were read, and each action that was done.
    seen: Mutex<Vec<String>>,
    /// Says of each action which Events are published.
    is_silent: bool,
    is_heavy: bool,
    left: Option<Remains>,
    /// The version that an event shows while an action is done, and to whom.
    meanwhile: Mutex<Option<(Arc<Recent>, &'static str)>>,
}

impl Kind for Scripted {
    type Object = Lamp;
    type World = Lamp;
    type Action = u32;
    type Outcome = u32;

    const TRAITS: Traits = Traits {
        finalizer: Some("example.com/lamp"),
        steps: 3,
        ..Traits::of("Lamp", "lamp", "test")
    };

    async fn observe(&self, _: &Context, lamp: &Lamp, source: Source) -> Result<Lamp, Error> {
        self.seen.lock().unwrap().push(format!("{source:?}"));
        Ok(lamp.clone())
    }

    fn plan(&self, _: &Lamp, _: Timestamp) -> Plan<u32> {
        if self.is_heavy {
            let thread = std::thread::current().id();
            self.seen.lock().unwrap().push(format!("{thread:?}"));
        }
        let next = self.plans.lock().unwrap().pop_front();
        next.unwrap_or_else(|| Plan::wait(Then::Change))
    }

    fn is_heavy(&self, _: &Lamp) -> bool {
        self.is_heavy
    }

    async fn act(&self, _: &Context, _: &Lamp, action: &u32) -> Result<u32, Error> {
        self.seen.lock().unwrap().push(action.to_string());
        if let Some((recent, version)) = &*self.meanwhile.lock().unwrap() {
            assert!(recent.is_idle(&at_version(version).metadata));
        }
        Ok(*action)
    }

    fn report(&self, _: &Done<'_, Self>, notices: Vec<Notice>) -> Vec<Notice> {
        if self.is_silent { Vec::new() } else { notices }
    }

    fn learn(&self, lamp: &mut Lamp, version: u32) -> Remains {
        lamp.metadata.resource_version = Some(version.to_string());
        self.left.unwrap_or(Remains::Object)
    }

    fn metadata(lamp: &Lamp) -> &ObjectMeta {
        &lamp.metadata
    }
}

impl Scripted {
    fn planning(plans: impl IntoIterator<Item = Plan<u32>>) -> Self {
        Self {
            plans: Mutex::new(plans.into_iter().collect()),
            ..Self::default()
        }
    }
}

fn at_version(version: &str) -> Lamp {
    let mut seen = lamp("team", "a", 1);
    seen.metadata.resource_version = Some(version.to_owned());
    seen
}

fn passes(kind: Scripted) -> (Arc<Scripted>, Passes<Scripted>) {
    let kind = Arc::new(kind);
    let (client, _) = client(500, json!({}));
    (kind.clone(), alone(kind, &lamps(), context(client)))
}

fn seen(kind: &Scripted) -> Vec<String> {
    kind.seen.lock().unwrap().clone()
}

#[tokio::test]
async fn a_pass_goes_on_until_the_plan_has_no_action() {
    let (kind, passes) = passes(Scripted::planning([Plan::act(8), Plan::act(9)]));
    let next = passes.reconcile(&at_version("7")).await.unwrap();
    assert_eq!(next, Next::Resync);
    assert_eq!(seen(&kind), ["Cache", "8", "9"]);
}

#[tokio::test]
async fn a_pass_ends_with_an_action_whose_own_event_begins_the_next() {
    let last = Plan {
        then: Then::Change,
        ..Plan::act(8)
    };
    let (kind, passes) = passes(Scripted::planning([last, Plan::act(9)]));
    let next = passes.reconcile(&at_version("7")).await.unwrap();
    assert_eq!(next, Next::Resync);
    assert_eq!(seen(&kind), ["Cache", "8"]);
    assert!(!passes.recent.is_idle(&at_version("8").metadata));
}

#[tokio::test]
async fn the_own_event_of_a_pass_that_went_on_begins_no_other() {
    let (_, passes) = passes(Scripted::planning([Plan::act(8), Plan::act(9)]));
    passes.reconcile(&at_version("7")).await.unwrap();
    for (version, is_idle) in [("8", true), ("9", true), ("10", false)] {
        let event = at_version(version).metadata;
        assert_eq!(passes.recent.is_idle(&event), is_idle, "{version}");
    }
}

#[tokio::test]
async fn a_pass_that_the_event_of_somebody_else_overtook_is_followed_by_another_at_once() {
    for (version, is_followed) in [("8", false), ("9", true)] {
        let (kind, passes) = passes(Scripted::planning([Plan::act(8)]));
        *kind.meanwhile.lock().unwrap() = Some((Arc::clone(&passes.recent), version));
        let next = passes.pass(&Readable(Ok(at_version("7")))).await;
        let at_once = Action::requeue(Duration::ZERO);
        assert_eq!(next == at_once, is_followed, "{version}: {next:?}");
    }
}

#[tokio::test]
async fn a_plan_that_never_ends_is_an_error() {
    let (_, passes) = passes(Scripted::planning((0..9).map(Plan::act)));
    let error = passes.reconcile(&at_version("7")).await.unwrap_err();
    assert_eq!(error.reason(), "Endless");
}

#[tokio::test]
async fn a_heavy_plan_is_made_aside_and_counts_all_the_same() {
    let (kind, passes) = passes(Scripted {
        is_heavy: true,
        ..Scripted::planning([Plan::act(8)])
    });
    passes.reconcile(&at_version("7")).await.unwrap();
    let seen = seen(&kind);
    // Its thread is not this one, which the operator's tasks share.
    assert!(!seen.contains(&format!("{:?}", std::thread::current().id())));
    let done: Vec<_> = seen
        .iter()
        .filter(|line| !line.starts_with("Thread"))
        .collect();
    assert_eq!(done, ["Cache", "8"]);
    assert_eq!(seen.len(), 4);
}

#[tokio::test]
async fn what_is_left_says_how_to_go_on() {
    for (left, expected) in [
        (Remains::Nothing, Next::Change),
        (Remains::Unknown, Next::Resync),
    ] {
        let (kind, passes) = passes(Scripted {
            left: Some(left),
            ..Scripted::planning([Plan::act(8), Plan::act(9)])
        });
        assert_eq!(
            passes.reconcile(&at_version("7")).await.unwrap(),
            expected,
            "{left:?}"
        );
        assert_eq!(seen(&kind), ["Cache", "8"]);
        // It is forgotten: nothing is waited for.
        passes.reconcile(&at_version("7")).await.unwrap();
    }
}

#[tokio::test]
async fn waits_end_when_the_plan_says() {
    let soon = Timestamp::now() + SignedDuration::from_secs(5);
    let (_, passes) = passes(Scripted::planning([Plan::wait(Then::At(soon))]));
    let next = passes.reconcile(&at_version("7")).await.unwrap();
    assert!(matches!(next, Next::Within(wait) if wait <= Duration::from_secs(5)));
    let retry = Plan::wait(Then::Retry {
        reason: "Refused",
        message: "quota".to_owned(),
        until: soon,
    });
    passes.kind.plans.lock().unwrap().push_back(retry);
    let error = passes.reconcile(&at_version("7")).await.unwrap_err();
    assert_eq!(error.reason(), "Refused");
    assert!(error.to_string().contains("quota"));
}

/// The watch is behind, then dead: our own write never comes back.
#[tokio::test(start_paused = true)]
async fn an_object_whose_cache_stays_behind_is_read() {
    let live = serde_json::to_value(at_version("9")).unwrap();
    let list = json!({ "metadata": {}, "items": [live] });
    let (client, requests) = scripted(move |_, _| (200, list.clone()));
    let kind = Arc::new(Scripted::planning([Plan::act(8)]));
    let passes = alone(kind.clone(), &lamps(), context(client));
    passes.reconcile(&at_version("7")).await.unwrap();
    let next = passes.reconcile(&at_version("7")).await.unwrap();
    assert_eq!(next, Next::CatchUp);
    assert_eq!(seen(&kind), ["Cache", "8"]);
    tokio::time::advance(Duration::from_secs(31)).await;
    passes.reconcile(&at_version("7")).await.unwrap();
    assert_eq!(requests.made(), [LAMPS]);
    assert_eq!(seen(&kind)[2..], ["Live"]);
    // Once the cache shows it, nobody is asked any more.
    passes.reconcile(&at_version("8")).await.unwrap();
    assert_eq!(requests.made().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_when_it_is_read_makes_no_pass() {
    let (client, _) = scripted(|_, _| (200, json!({ "metadata": {}, "items": [] })));
    let kind = Arc::new(Scripted::planning([Plan::act(8)]));
    let passes = alone(kind.clone(), &lamps(), context(client));
    passes.reconcile(&at_version("7")).await.unwrap();
    tokio::time::advance(Duration::from_secs(31)).await;
    let next = passes.reconcile(&at_version("7")).await.unwrap();
    assert_eq!(next, Next::Resync);
    assert_eq!(seen(&kind), ["Cache", "8"]);
}

/// Nothing was decided, so an object that failed is as bad as before.
#[tokio::test(start_paused = true)]
async fn a_pass_that_decides_nothing_forgets_no_failure() {
    let (_, passes) = passes(Scripted::planning((8..11).map(Plan::act)));
    let object = Readable(Ok(at_version("7")));
    // It fails as endless, and its cache is behind from now on.
    passes.pass(&object).await;
    let waits = passes.backoff.rest(&at_version("7").metadata).unwrap();
    tokio::time::advance(waits).await;
    passes.pass(&object).await;
    assert!(
        passes
            .backoff
            .failed(&at_version("7").metadata, Duration::MAX)
            > waits
    );
}

/// How many Events were handed in.
async fn told(kind: Scripted) -> usize {
    notices_while(kind, async |passes| {
        passes.reconcile(&at_version("7")).await.unwrap();
    })
    .await
}

async fn notices_while(kind: Scripted, work: impl AsyncFnOnce(&Passes<Scripted>)) -> usize {
    let (client, requests) = client(201, json!({}));
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = events::metrics(&mut registry);
    let (events, sending) = Events::new(&client, None, "Reconcile", metrics);
    let ctx = Context {
        events,
        ..context(client)
    };
    let passes = alone(Arc::new(kind), &lamps(), ctx);
    work(&passes).await;
    drop(passes);
    sending.await;
    requests.made().len()
}

/// Each list request shows all objects again.
#[tokio::test]
async fn each_version_of_an_unreadable_object_has_one_event() {
    let unreadable = |uid: &str, version: &str| -> Readable<Lamp> {
        let metadata =
            json!({ "name": "a", "namespace": "team", "uid": uid, "resourceVersion": version });
        let object = json!({ "metadata": metadata, "spec": "no spec" });
        serde_json::from_value(object).unwrap()
    };
    let told = notices_while(Scripted::default(), async |passes| {
        for (uid, version) in [("a", "7"), ("b", "7"), ("a", "7"), ("b", "7"), ("a", "8")] {
            passes.pass(&unreadable(uid, version)).await;
        }
    });
    assert_eq!(told.await, 3);
}

#[tokio::test]
async fn a_plan_may_have_several_events_and_the_kind_may_keep_them() {
    let plan = || {
        Plan::act(8).with_notices([
            Notice::normal("Created", "one"),
            Notice::warning("Degraded", "two"),
        ])
    };
    assert_eq!(told(Scripted::planning([plan()])).await, 2);
    let silent = Scripted {
        is_silent: true,
        ..Scripted::planning([plan()])
    };
    assert_eq!(told(silent).await, 0);
}

/// Keeps what it cannot read.
struct Keeper;

impl Kind for Keeper {
    type Object = Lamp;
    type World = Lamp;
    type Action = u32;
    type Outcome = u32;

    const TRAITS: Traits = Traits {
        unreadable: Unreadable::Keep,
        ..Scripted::TRAITS
    };

    async fn observe(&self, _: &Context, lamp: &Lamp, _: Source) -> Result<Lamp, Error> {
        Ok(lamp.clone())
    }

    fn plan(&self, _: &Lamp, _: Timestamp) -> Plan<u32> {
        Plan::wait(Then::Change)
    }

    async fn act(&self, _: &Context, _: &Lamp, action: &u32) -> Result<u32, Error> {
        Ok(*action)
    }

    fn learn(&self, _: &mut Lamp, _: u32) -> Remains {
        Remains::Object
    }

    fn metadata(lamp: &Lamp) -> &ObjectMeta {
        &lamp.metadata
    }
}

/// How often the API server is asked about an object that our types cannot hold.
async fn check_unreadable<K: Kind<Object = Lamp>>(kind: K, metadata: &Value, expected: &[&str]) {
    let object: Readable<Lamp> = serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "Lamp", "metadata": metadata, "spec": "no spec",
    }))
    .unwrap();
    assert!(object.0.is_err());
    let (client, requests) = client(200, json!({}));
    alone(Arc::new(kind), &lamps(), context(client))
        .pass(&object)
        .await;
    assert_eq!(requests.made(), expected);
}

#[tokio::test]
async fn an_unreadable_object_is_left_alone_and_not_held() {
    let name = json!({ "name": "a", "namespace": "team", "uid": "u" });
    check_unreadable(Scripted::default(), &name, &[]).await;
    let mut deleted = name;
    deleted["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    check_unreadable(Scripted::default(), &deleted, &[]).await;
    deleted["finalizers"] = json!(["example.com/billing", "example.com/lamp"]);
    let released = ["PATCH /apis/example.com/v1/namespaces/team/lamps/a"];
    check_unreadable(Scripted::default(), &deleted, &released).await;
    check_unreadable(Keeper, &deleted, &[]).await;
}
