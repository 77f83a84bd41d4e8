//! The controller of Cleaners is killed in any of its writes, or loses the answer to it: still exactly what was named is deleted.

use std::cell::Cell;

use kube::api::DeleteParams;
use podloom_api::Cleaner;
use podloom_tests::cleaner::{Cleaners, map_targets};
use podloom_tests::faults::{Fault, Proxy, Rule};
use podloom_tests::lives::{Blow, Life, Place, strike};
use podloom_tests::{Cluster, Operator, Watched, blackbox_on, eventually};
use serde_json::json;

/// The controller writes to Cleaners and their targets.
const WRITES: &str = "write cleaners cleaners/status configmaps";

/// Creates what a Cleaner of this name deletes, and what it must not touch.
async fn set_up(cleaners: &Cleaners<'_>, name: &str) {
    for (suffix, app) in [("a", name), ("b", name), ("other", "other")] {
        let labels = json!({ "app": app });
        cleaners
            .map(&format!("{name}-{suffix}"), labels, "idle")
            .await;
    }
    let targets = map_targets("all", &json!({ "app": name }));
    let spec = json!({ "retry": { "period": "2s" }, "targets": [targets] });
    cleaners.create(name, spec).await;
}

/// A Cleaner, and what has become of it.
struct Cleaning {
    cleaners: Cleaners<'static>,
    seen: Watched<Cleaner>,
    /// Whether an object that must not be deleted has the name of a target.
    is_replaced: Cell<bool>,
}

impl Cleaning {
    async fn new(place: Place) -> Self {
        let cleaners = Cleaners::new(place.scene);
        Self {
            seen: cleaners.watch().await,
            cleaners,
            is_replaced: Cell::default(),
        }
    }
}

impl Life for Cleaning {
    async fn operator(&self, flags: &[&str]) -> (Proxy, Operator) {
        let proxy = self.cleaners.proxy();
        let operator = self.cleaners.operator_behind(&proxy, flags).await;
        (proxy, operator)
    }

    async fn begins(&self) {
        set_up(&self.cleaners, "shop").await;
    }

    async fn goes_on(&self) -> Result<(), String> {
        let is_over = self.seen.is_gone("shop");
        is_over
            .then_some(())
            .ok_or_else(|| format!("{:?}", self.seen.last("shop")))
    }

    async fn meanwhile(&self, blow: Blow) {
        if blow == Blow::Unobserved {
            // It may have been deleted already.
            drop(
                self.cleaners
                    .maps()
                    .delete("shop-b", &DeleteParams::default())
                    .await,
            );
            self.cleaners
                .map("shop-b", json!({ "app": "other" }), "idle")
                .await;
            self.is_replaced.set(true);
        }
    }

    async fn ends(&self) {
        self.cleaners.until_gone("shop", &["shop-a"]).await;
        assert!(self.cleaners.has_map("shop-other").await);
        let has_b = self.cleaners.has_map("shop-b").await;
        assert_eq!(has_b, self.is_replaced.get());
    }
}

fn each_write(name: &str, blow: Blow) {
    // The finalizer, the plan, the deletion of the Cleaner, those of two objects, a status, and the finalizer again. A pass over a cache
    // that is late may add one that finds nothing.
    let writes = (WRITES.into(), 7..10);
    strike(name, blow, &[writes], Cleaning::new);
}

#[test]
fn killed_in_any_write_it_goes_on() {
    each_write("cleaner-killed", Blow::KilledIn);
}

#[test]
fn killed_after_any_write_whose_answer_was_lost_it_goes_on() {
    each_write("cleaner-killed-cut", Blow::KilledAfter);
}

#[test]
fn a_lost_answer_changes_nothing() {
    each_write("cleaner-cut", Blow::Unanswered);
}

/// The watch of Cleaners breaks before any of its changes, and lists again only when another object has the name of a target.
#[test]
fn what_no_watch_shows_changes_nothing() {
    let changes = ("change cleaners".into(), 1..10);
    strike(
        "cleaner-unobserved",
        Blow::Unobserved,
        &[changes],
        Cleaning::new,
    );
}

/// The write of this number meets a fault.
async fn meets(proxy: &Proxy, number: u64, fault: Fault, what: impl AsyncFnOnce()) {
    proxy.set_rules(&[Rule::once(WRITES, number, fault)]);
    what().await;
    eventually("the operator meets the fault", async || {
        let hits = proxy.hits();
        (hits == [1]).then_some(()).ok_or(format!("{hits:?}"))
    })
    .await;
}

/// Before the plan is written, a user's deletion of the Cleaner deletes nothing else, whatever has happened before.
#[test]
fn deleted_by_a_user_before_the_plan_is_written_its_targets_stay() {
    blackbox_on(Cluster::without_operator, "cleaner-early", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let proxy = cleaners.proxy();
        let mut operator = cleaners.operator_behind(&proxy, &[]).await;
        for (number, has_finalizer) in [(0, false), (1, true)] {
            let name = format!("shop{number}");
            let begin = async || set_up(&cleaners, &name).await;
            meets(&proxy, number, Fault::Stall, begin).await;
            let cleaner = cleaners.api().get(&name).await.unwrap();
            let finalizers = cleaner.metadata.finalizers;
            assert_eq!(finalizers.is_some(), has_finalizer, "{name}");
            operator.kill();
            cleaners.delete(&name).await;
            proxy.set_rules(&[]);
            operator.restart();
            operator.ready().await;
            cleaners.until_gone(&name, &[]).await;
            cleaners.for_a_while().await;
            for suffix in ["a", "b", "other"] {
                let map = format!("{name}-{suffix}");
                assert!(cleaners.has_map(&map).await, "{map}");
            }
        }
    });
}

/// A user is faster than the write of the plan: that write was for another version, so it fails, and nothing is deleted.
#[test]
fn a_deletion_between_the_finalizer_and_the_plan_wins() {
    blackbox_on(Cluster::without_operator, "cleaner-race", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let proxy = cleaners.proxy();
        let _operator = cleaners.operator_behind(&proxy, &[]).await;
        let begin = async || set_up(&cleaners, "shop").await;
        meets(&proxy, 1, Fault::Hold, begin).await;
        cleaners.delete("shop").await;
        proxy.set_rules(&[]);
        cleaners.until_gone("shop", &[]).await;
        cleaners.for_a_while().await;
        assert!(cleaners.has_map("shop-a").await && cleaners.has_map("shop-b").await);
    });
}

/// A user ends a dry run and adds a condition, while the operator writes when it looks again: the old spec was met, the new one is not.
#[test]
fn an_edit_during_a_look_is_evaluated_before_anything_is_deleted() {
    blackbox_on(Cluster::without_operator, "cleaner-edited", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let proxy = cleaners.proxy();
        let _operator = cleaners.operator_behind(&proxy, &[]).await;
        cleaners.map("a", json!({ "app": "x" }), "idle").await;
        let targets = map_targets("all", &json!({ "app": "x" }));
        let spec = json!({ "retry": { "period": "2s" }, "dryRun": true, "targets": [targets] });
        cleaners.create("shop", spec).await;
        cleaners.until_ready("shop", "DryRun").await;
        meets(&proxy, 0, Fault::Hold, async || {}).await;
        let edit = json!({ "dryRun": false, "conditions": ["false"] });
        cleaners.edit("shop", edit).await;
        proxy.set_rules(&[]);
        cleaners.until_ready("shop", "WaitingForConditions").await;
        cleaners.for_a_while().await;
        assert!(cleaners.has_map("a").await);
    });
}
