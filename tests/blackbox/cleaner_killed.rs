//! The controller of Cleaners is killed in any of its writes, or loses the answer to it: still exactly what was named is deleted.

use podloom_tests::cleaner::{Cleaners, map_targets};
use podloom_tests::faults::{Fault, Proxy, RequestFilter, Rule};
use podloom_tests::lives::stride;
use podloom_tests::{Cluster, Operator, blackbox_on, eventually};
use serde_json::json;

/// More writes than a deletion needs.
const WRITES: u64 = 25;

/// A fault in one of the writes to a Cleaner and its targets.
fn at_write(number: u64, fault: Fault) -> Rule {
    let resources = ["cleaners", "cleaners/status", "configmaps"];
    Rule {
        on: RequestFilter {
            verbs: vec!["write".to_owned()],
            resources: resources.map(str::to_owned).into(),
            path: String::new(),
        },
        after: number,
        times: Some(1),
        fault,
    }
}

/// Creates what a Cleaner of this name deletes, and what it must not touch.
async fn set_up(cleaners: &Cleaners<'_>, name: &str) {
    for suffix in ["a", "b"] {
        cleaners
            .map(&format!("{name}-{suffix}"), json!({ "app": name }), "idle")
            .await;
    }
    cleaners
        .map(&format!("{name}-other"), json!({ "app": "other" }), "idle")
        .await;
    let spec = json!({ "retry": { "period": "2s" }, "targets": [map_targets("all", &json!({ "app": name }))] });
    cleaners.create(name, spec).await;
}

async fn is_gone(cleaners: &Cleaners<'_>, name: &str) -> bool {
    cleaners.api().get_opt(name).await.unwrap().is_none()
}

/// Waits until the operator met the fault, or the Cleaner is gone without it. Returns whether it met it.
async fn met(cleaners: &Cleaners<'_>, proxy: &Proxy, name: &str) -> bool {
    eventually("the operator meets the fault or is done", async || {
        if proxy.hits() == [1] {
            return Ok(true);
        }
        is_gone(cleaners, name)
            .await
            .then_some(false)
            .ok_or_else(|| "neither".to_owned())
    })
    .await
}

async fn restarted(operator: &mut Operator, proxy: &Proxy) {
    operator.kill();
    proxy.set_rules(&[]);
    operator.restart();
    operator.ready().await;
}

/// Makes one deletion after another, each with this fault in another of its writes. Returns how many writes there are.
async fn with_each_write(scene: &podloom_tests::Scene, fault: Fault, kills: bool) -> u64 {
    let cleaners = Cleaners::new(scene);
    let proxy = cleaners.proxy();
    let mut operator = cleaners.operator_behind(&proxy, &[]).await;
    for number in 0..WRITES {
        let name = format!("shop{number}");
        proxy.set_rules(&[at_write(number, fault.clone())]);
        set_up(&cleaners, &name).await;
        let has_met = met(&cleaners, &proxy, &name).await;
        if kills {
            restarted(&mut operator, &proxy).await;
        }
        let (a, b) = (format!("{name}-a"), format!("{name}-b"));
        cleaners.until_gone(&name, &[&a, &b]).await;
        assert!(cleaners.has_map(&format!("{name}-other")).await, "{name}");
        if !has_met {
            return number;
        }
    }
    unreachable!("there are never so many writes")
}

#[test]
fn killed_in_any_write_it_goes_on() {
    blackbox_on(Cluster::without_operator, "cleaner-killed", async |scene| {
        let writes = with_each_write(&scene, Fault::Stall, true).await;
        // The finalizer, the plan, the deletion of the Cleaner, those of two objects, a status, and the finalizer again. A pass over a
        // cache that is late may add one that finds nothing.
        assert!((7..10).contains(&writes), "{writes}");
    });
}

#[test]
fn killed_after_any_write_whose_answer_was_lost_it_goes_on() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-killed-cut",
        async |scene| {
            let writes = with_each_write(&scene, Fault::Cut, true).await;
            assert!(writes >= 7, "{writes}");
        },
    );
}

#[test]
fn a_lost_answer_changes_nothing() {
    blackbox_on(Cluster::without_operator, "cleaner-cut", async |scene| {
        let writes = with_each_write(&scene, Fault::Cut, false).await;
        assert!(writes >= 7, "{writes}");
    });
}

/// The watch of Cleaners breaks before any of its changes, and lists again only when another object has the name of a target.
#[test]
fn what_no_watch_shows_changes_nothing() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-unobserved",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let proxy = cleaners.proxy();
            let _operator = cleaners.operator_behind(&proxy, &[]).await;
            let mut unseen = 0;
            for number in (0..WRITES).step_by(stride()) {
                let name = format!("shop{number}");
                let (a, b) = (format!("{name}-a"), format!("{name}-b"));
                proxy.set_rules(&Rule::unobserved("cleaners", number));
                set_up(&cleaners, &name).await;
                let is_unseen = eventually("the watch is broken, or it is done", async || {
                    let is_unseen = proxy.hits()[1] > 0;
                    (is_unseen || is_gone(&cleaners, &name).await)
                        .then_some(is_unseen)
                        .ok_or_else(|| "neither".to_owned())
                })
                .await;
                // It may have been deleted already.
                let _gone = cleaners.maps().delete(&b, &Default::default()).await;
                cleaners.map(&b, json!({ "app": "other" }), "idle").await;
                proxy.set_rules(&[]);
                cleaners.until_gone(&name, &[&a]).await;
                for other in [b, format!("{name}-other")] {
                    assert!(cleaners.has_map(&other).await, "{other}");
                }
                unseen += u64::from(is_unseen);
                // A busy operator may see the first changes in a list, which no watch shows.
                if !is_unseen && number >= 4 {
                    break;
                }
            }
            assert!(unseen > 0, "no watch was broken");
        },
    );
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
            proxy.set_rules(&[at_write(number, Fault::Stall)]);
            set_up(&cleaners, &name).await;
            assert!(met(&cleaners, &proxy, &name).await);
            let cleaner = cleaners.api().get(&name).await.unwrap();
            assert_eq!(
                cleaner.metadata.finalizers.is_some(),
                has_finalizer,
                "{name}"
            );
            operator.kill();
            cleaners.delete(&name).await;
            restarted(&mut operator, &proxy).await;
            cleaners.until_gone(&name, &[]).await;
            cleaners.for_a_while().await;
            for suffix in ["a", "b", "other"] {
                assert!(
                    cleaners.has_map(&format!("{name}-{suffix}")).await,
                    "{name}-{suffix}"
                );
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
        proxy.set_rules(&[at_write(1, Fault::Hold)]);
        set_up(&cleaners, "shop").await;
        assert!(met(&cleaners, &proxy, "shop").await);
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
        let spec = json!({
            "retry": { "period": "2s" }, "dryRun": true, "targets": [map_targets("all", &json!({ "app": "x" }))],
        });
        cleaners.create("shop", spec).await;
        cleaners.until_ready("shop", "DryRun").await;
        proxy.set_rules(&[at_write(0, Fault::Hold)]);
        assert!(met(&cleaners, &proxy, "shop").await);
        let edit = json!({ "dryRun": false, "conditions": ["false"] });
        cleaners.edit("shop", edit).await;
        proxy.set_rules(&[]);
        cleaners.until_ready("shop", "WaitingForConditions").await;
        cleaners.for_a_while().await;
        assert!(cleaners.has_map("a").await);
    });
}
