//! Faults at random times while Cleaners delete: whatever happens, nothing is deleted that the conditions did not name.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use podloom_api::{Cleaner, DeletionProgress};
use podloom_tests::cleaner::{Cleaners, map_targets};
use podloom_tests::faults::{Fault, Proxy, Rule};
use podloom_tests::{Change, Cluster, Operator, Scene, Seed, Watched, blackbox_within, eventually};
use serde_json::{Value, json};
use tokio::time::sleep;

/// How many runs there are; `cargo xtask soak --only cleaner` asks for more.
const RUNS: usize = 20;
/// How long a run may take at most, and the start of all.
const PATIENCE: Duration = Duration::from_secs(30);

/// The objects of a run that its Cleaner names.
const DOOMED: usize = 3;
/// More writes than the operator needs for one Cleaner.
const WRITES: usize = 10;

/// The label that conditions and targets do not look at.
const RUN: &str = "storm";
/// The label by which a Cleaner finds its objects.
const FATE: &str = "fate";

/// What the test does to the objects of a run, besides making its condition true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    /// An object gets another label, so it is no longer a target.
    Released,
    /// An object is deleted, and another one with its name is no target.
    Replaced,
    /// One more object is a target.
    Added,
    /// The Cleaner is deleted by hand.
    Cancelled,
}

const TROUBLES: [Trouble; 5] = [
    Trouble::None,
    Trouble::Released,
    Trouble::Replaced,
    Trouble::Added,
    Trouble::Cancelled,
];

struct Storm<'s> {
    scene: &'s Scene,
    cleaners: Cleaners<'s>,
    proxy: Proxy,
    operator: Operator,
    seed: Seed,
    seen: Watched<Cleaner>,
    objects: Watched<ConfigMap>,
    /// The UIDs of objects that the test itself has deleted.
    ours: BTreeSet<String>,
}

#[test]
fn whatever_fails_nothing_is_deleted_that_the_conditions_did_not_name() {
    let more = std::env::var("PODLOOM_CLEANER_RUNS").ok();
    // A test run has always the same ones, so that what fails is what was changed.
    let seed = match more {
        None => Seed::or("cleaner-storm", 1),
        Some(_) => Seed::new("cleaner-storm"),
    };
    let runs = more.map_or(RUNS, |runs| runs.parse().unwrap());
    let deadline = PATIENCE * u32::try_from(runs).unwrap();
    let cluster = Cluster::without_operator;
    blackbox_within(deadline, cluster, "cleaner-storm", async |scene| {
        let mut storm = Storm::begin(&scene, seed).await;
        let mut triggered = 0;
        for number in 0..runs {
            let run = format!("run{number}");
            storm.rage(&run).await;
            triggered += usize::from(storm.judge(&run).await);
        }
        // Only one trouble of five can keep a Cleaner from deleting.
        assert!(triggered * 2 > runs, "{triggered} of {runs} were triggered");
    });
}

/// The name of one of the objects of a run.
fn member(run: &str, number: usize) -> String {
    format!("{run}-{number}")
}

/// What is being deleted, if it is decided.
fn plan(cleaner: &Cleaner) -> Option<&DeletionProgress> {
    cleaner.status.as_ref()?.deletion.as_ref()
}

fn is_of(run: &str) -> impl Fn(&ConfigMap) -> bool {
    move |object| object.labels().get(RUN).is_some_and(|own| own == run)
}

/// Whether the condition and the target name this state of an object.
fn is_named(object: &ConfigMap) -> bool {
    let is = |map: Option<&BTreeMap<String, String>>, key: &str, value: &str| {
        map.and_then(|map| map.get(key))
            .is_some_and(|own| own == value)
    };
    is(object.metadata.labels.as_ref(), FATE, "doomed") && is(object.data.as_ref(), "done", "yes")
}

impl<'s> Storm<'s> {
    async fn begin(scene: &'s Scene, seed: Seed) -> Self {
        let cleaners = Cleaners::new(scene);
        let proxy = cleaners.proxy();
        Self {
            scene,
            operator: cleaners.operator_behind(&proxy, &[]).await,
            proxy,
            seed,
            seen: cleaners.watch().await,
            objects: Watched::new(cleaners.maps()).await,
            cleaners,
            ours: BTreeSet::new(),
        }
    }

    /// One Cleaner, a few objects, one fault and one trouble, all at random times, until the Cleaner is gone.
    async fn rage(&mut self, run: &str) {
        let trouble = *self.seed.pick(&TROUBLES);
        let fault = self.fault();
        let is_killed = fault.fault == Fault::Stall || self.seed.below(4) == 0;
        eprintln!("{run}: {trouble:?}, {fault:?}, killed: {is_killed}");
        self.create(run).await;
        self.proxy.set_rules(&[fault]);
        let mut steps: Vec<Option<usize>> = (0..DOOMED).map(Some).chain([None]).collect();
        while !steps.is_empty() {
            let step = steps.swap_remove(self.seed.below(steps.len()));
            self.pause(150).await;
            match step {
                Some(number) => self.finish(&member(run, number)).await,
                None => self.trouble(run, trouble).await,
            }
        }
        if is_killed {
            self.pause(1200).await;
            self.operator.kill();
            self.operator.restart();
        }
        self.pause(300).await;
        self.proxy.set_rules(&[]);
        if trouble == Trouble::Added {
            self.finish(&format!("{run}-added")).await;
        }
        self.operator.ready().await;
        self.seen.was_gone(run).await;
    }

    /// One of the operator's next writes fails somehow.
    fn fault(&mut self) -> Rule {
        let seconds = 0.4;
        let faults = [
            Fault::Stall,
            Fault::Drop,
            Fault::Cut,
            Fault::Delay { seconds },
            Fault::api_error(500, "InternalError", "a fault of the test"),
            Fault::api_error(409, "Conflict", "a fault of the test"),
        ];
        let requests = "write cleaners cleaners/status configmaps";
        let after = u64::try_from(self.seed.below(WRITES)).unwrap();
        let fault = self.seed.pick(&faults).clone();
        Rule::once(requests, after, fault)
    }

    async fn pause(&mut self, milliseconds: usize) {
        let pause = u64::try_from(self.seed.below(milliseconds)).unwrap();
        sleep(Duration::from_millis(pause)).await;
    }

    async fn create(&self, run: &str) {
        for number in 0..DOOMED {
            self.make(run, &member(run, number), "doomed", "no").await;
        }
        // It looks like the others, and is not named.
        let bystander = format!("{run}-bystander");
        self.make(run, &bystander, "kept", "yes").await;
        let spec = json!({
            "retry": { "period": "1s" },
            "targets": [map_targets("things", &json!({ RUN: run, FATE: "doomed" }))],
            "conditions": ["things.items.all(it, it.data.done == 'yes')"],
        });
        self.cleaners.create(run, spec).await;
    }

    async fn make(&self, run: &str, name: &str, fate: &str, done: &str) {
        let metadata = json!({ "name": name, "labels": { RUN: run, FATE: fate } });
        let map = json!({ "metadata": metadata, "data": { "done": done } });
        self.scene.create(self.cleaners.maps(), map).await;
    }

    /// Makes the condition true for one object, if it is still there.
    async fn finish(&self, name: &str) {
        self.change(name, json!({ "data": { "done": "yes" } }))
            .await;
    }

    async fn change(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        let (objects, parameters) = (self.cleaners.maps(), PatchParams::default());
        let changed = objects.patch_metadata(name, &parameters, &patch).await;
        let is_gone = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.is_not_found());
        assert!(changed.as_ref().err().is_none_or(is_gone), "{changed:?}");
    }

    async fn trouble(&mut self, run: &str, trouble: Trouble) {
        let first = member(run, 0);
        match trouble {
            Trouble::None => {}
            Trouble::Released => {
                let kept = json!({ "metadata": { "labels": { FATE: "kept" } } });
                self.change(&first, kept).await;
            }
            Trouble::Replaced => {
                let maps = self.cleaners.maps();
                let Some(old) = maps.get_opt(&first).await.unwrap() else {
                    return;
                };
                self.ours.extend(old.uid());
                drop(maps.delete(&first, &DeleteParams::default()).await);
                self.make(run, &first, "kept", "no").await;
            }
            Trouble::Added => {
                let added = format!("{run}-added");
                self.make(run, &added, "doomed", "no").await;
            }
            Trouble::Cancelled => {
                let cleaners = self.cleaners.api();
                drop(cleaners.delete(run, &DeleteParams::default()).await);
            }
        }
    }

    /// Compares what is gone with what was decided, and that with what the conditions saw. Returns whether anything was decided.
    async fn judge(&mut self, run: &str) -> bool {
        let planned = self.planned(run);
        let what = format!("{run}: all of the plan is gone");
        eventually(&what, async || {
            let left = self.cleaners.maps().list(&ListParams::default()).await;
            let left = left.unwrap().items.into_iter().filter_map(|it| it.uid());
            let left: Vec<String> = left.filter(|uid| planned.contains(uid)).collect();
            left.is_empty()
                .then_some(())
                .ok_or_else(|| format!("{left:?}"))
        })
        .await;
        self.sees(run).await;
        let changes = self.objects.changes();
        let of_run = is_of(run);
        let named: BTreeSet<String> = changes
            .iter()
            .map(Change::object)
            .filter(|object| of_run(object) && is_named(object))
            .filter_map(ResourceExt::uid)
            .collect();
        for uid in &planned {
            assert!(named.contains(uid), "{run}: {uid} was never named");
        }
        for change in &changes {
            let Change::Gone(object) = change else {
                continue;
            };
            let uid = object.uid().unwrap();
            if of_run(object) && !self.ours.contains(&uid) {
                assert!(
                    planned.contains(&uid),
                    "{run}: {} is gone, and nobody decided it",
                    object.name_any()
                );
            }
        }
        let bystander = format!("{run}-bystander");
        assert!(
            self.cleaners.has_map(&bystander).await,
            "{run}: no bystander"
        );
        self.clear(run).await;
        !planned.is_empty()
    }

    /// Waits until the watch has shown everything that happened in a run.
    async fn sees(&self, run: &str) {
        let last = format!("{run}-last");
        self.make(run, &last, "last", "no").await;
        self.objects.until_is(&last, "is seen", |_| true).await;
    }

    /// The UIDs of what a Cleaner decided to delete. It decides once, about what its conditions saw.
    fn planned(&self, run: &str) -> BTreeSet<String> {
        let changes = self.seen.of(run);
        let states = changes.iter().map(Change::object);
        let mut decided: Option<Vec<String>> = None;
        for cleaner in states {
            let Some(plan) = plan(cleaner) else {
                assert!(decided.is_none(), "{run}: a plan was dropped");
                continue;
            };
            let uids: Vec<String> = plan.objects.iter().map(|it| it.uid.clone()).collect();
            let earlier = decided.get_or_insert_with(|| uids.clone());
            assert_eq!(*earlier, uids, "{run}: the plan changed");
            assert_eq!(seen(cleaner), uids, "{run}: others than the conditions saw");
        }
        decided.unwrap_or_default().into_iter().collect()
    }

    /// Deletes what is left of a run, so that the next one is as fast.
    async fn clear(&mut self, run: &str) {
        let of_run = ListParams::default().labels(&format!("{RUN}={run}"));
        let (maps, all) = (self.cleaners.maps(), DeleteParams::default());
        let left = maps.list(&of_run).await.unwrap();
        self.ours.extend(left.iter().filter_map(ResourceExt::uid));
        maps.delete_collection(&all, &of_run).await.unwrap();
    }
}

/// The UIDs of the objects that the conditions saw, all of which were done.
fn seen(cleaner: &Cleaner) -> Vec<String> {
    let status = cleaner.status.as_ref();
    let targets = status.and_then(|status| status.targets.as_deref());
    let states = targets
        .into_iter()
        .flatten()
        .filter_map(|it| it.state.as_ref());
    let items = states
        .filter_map(|state| state["items"].as_array())
        .flatten();
    let uid = |item: &Value| {
        assert_eq!(item["data"]["done"], "yes", "{item}");
        item["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    items.map(uid).collect()
}
