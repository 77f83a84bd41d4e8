//! The clients: they create and delete Browsers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures::future::join_all;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use podloom_api::Browser;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{interval, sleep, timeout};

use crate::stage::Stage;
use crate::tenants;

/// How often some Browsers are created or deleted.
const TICK: Duration = Duration::from_millis(400);
/// How many at a time, at most.
const AT_ONCE: usize = 16;
/// How long it may take until all Browsers exist.
const WARM_UP: Duration = Duration::from_secs(120);
/// How often to try to delete all Browsers at the end.
const TRIES: usize = 5;
/// How long to wait for an API server that may be down.
const PATIENCE: Duration = Duration::from_secs(5);

/// The clients that create and delete Browsers.
pub(crate) struct Population {
    stage: Arc<Stage>,
    browsers: usize,
    chance: Mutex<Rng>,
    works: watch::Sender<bool>,
    next: Mutex<u64>,
}

impl Population {
    pub(crate) fn new(stage: &Arc<Stage>, browsers: usize, seed: u64) -> Self {
        Self {
            stage: Arc::clone(stage),
            browsers,
            chance: Mutex::new(Rng::with_seed(seed)),
            works: watch::Sender::new(true),
            next: Mutex::default(),
        }
    }

    /// Waits until there are as many Browsers as wanted.
    pub(crate) async fn is_complete(&self) {
        let begun = Instant::now();
        while self.stage.ledger.alive().len() < self.browsers {
            if begun.elapsed() > WARM_UP {
                let finding = format!("not all Browsers exist after {} s", WARM_UP.as_secs());
                self.stage.findings.add(finding);
                return;
            }
            sleep(TICK).await;
        }
    }

    /// Stops creating and deleting Browsers.
    pub(crate) fn pause(&self) {
        self.works.send_replace(false);
    }

    /// Creates and deletes Browsers again.
    pub(crate) fn resume(&self) {
        self.works.send_replace(true);
    }

    /// Creates and deletes Browsers for ever, except while paused.
    pub(crate) async fn live(self: Arc<Self>) {
        let mut ticks = interval(TICK);
        let mut works = self.works.subscribe();
        loop {
            ticks.tick().await;
            if works.wait_for(|works| *works).await.is_err() {
                return;
            }
            self.turn().await;
        }
    }

    async fn turn(&self) {
        let alive = self.stage.ledger.alive();
        let (come, go) = self.choose(&alive);
        let api = self.stage.scene.browsers();
        join_all(come.iter().map(|version| self.create(&api, version))).await;
        join_all(go.iter().map(|name| self.delete(&api, name))).await;
    }

    fn choose(&self, alive: &[String]) -> (Vec<&'static str>, Vec<String>) {
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = self.browsers.saturating_sub(alive.len());
        let come = (0..missing.min(AT_ONCE)).map(|_| tenants::version(&mut chance));
        let come = come.collect();
        let going = match missing {
            0 => chance.usize(0..AT_ONCE),
            _ => chance.usize(0..AT_ONCE / 4),
        };
        let go = (0..going).filter_map(|_| chance.choice(alive).cloned());
        (come, go.collect())
    }

    async fn create(&self, api: &Api<Browser>, version: &str) {
        let number = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            *next
        };
        let browser = json!({
            "apiVersion": "selenosis.io/v1", "kind": "Browser",
            "metadata": { "name": format!("b{number}") },
            "spec": { "browserName": "chrome", "browserVersion": version },
        });
        let Ok(browser) = serde_json::from_value::<Browser>(browser) else {
            return;
        };
        let created = timeout(PATIENCE, api.create(&PostParams::default(), &browser)).await;
        // If it was created but the answer was lost, the watch shows it.
        if matches!(created, Ok(Ok(_))) {
            self.stage.ledger.made(&browser.name_any(), version);
        }
    }

    async fn delete(&self, api: &Api<Browser>, name: &str) {
        self.stage.ledger.deleted(name);
        let _tried_again = timeout(PATIENCE, api.delete(name, &DeleteParams::default())).await;
    }

    /// Retries deletions whose Browsers still exist, since requests may be lost.
    pub(crate) async fn delete_again(&self) {
        let api = self.stage.scene.browsers();
        for some in self.stage.ledger.going().chunks(AT_ONCE) {
            join_all(some.iter().map(|name| self.delete(&api, name))).await;
        }
    }

    /// Deletes all Browsers and warm pods for good, and returns how many Browsers there were.
    pub(crate) async fn end(&self) -> usize {
        let there = self.stage.ledger.alive().len();
        self.stage.ledger.all_deleted();
        let (browsers, configs) = (self.stage.scene.browsers(), self.stage.scene.configs());
        let all = DeleteParams::default();
        let none = Patch::Merge(json!({ "spec": { "warm": null } }));
        let patch = PatchParams::default();
        // A connection may have died in an earlier fault.
        for _ in 0..TRIES {
            let ended = async {
                configs.patch("sessions", &patch, &none).await?;
                browsers.delete_collection(&all, &Default::default()).await
            };
            match ended.await {
                Ok(_) => return there,
                Err(error) => eprintln!("soak: could not delete the Browsers: {error}"),
            }
            sleep(PATIENCE).await;
        }
        self.stage
            .findings
            .add("could not delete the Browsers".to_owned());
        there
    }
}
