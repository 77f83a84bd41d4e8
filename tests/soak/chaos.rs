//! Random faults, each of which is undone.

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use podloom_tests::faults::{Fault, Rule};
use serde_json::json;
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::peers;
use crate::replica::Replica;
use crate::stage::Stage;
use crate::tenants;

/// Faults around the operator. They come one at a time, since two at once are hard to understand afterwards.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    ApiServerKilled,
    ConnectionsSilent,
    EverythingSilent,
    ConnectionsDropped,
    WritesLost,
    AnswersLost,
    WritesRefused,
    RequestsSlow,
    ReplicaKilled,
    ReplicaFrozen,
    BadPeers,
}

const TROUBLES: [Trouble; 11] = [
    Trouble::ApiServerKilled,
    Trouble::ConnectionsSilent,
    Trouble::EverythingSilent,
    Trouble::ConnectionsDropped,
    Trouble::WritesLost,
    Trouble::AnswersLost,
    Trouble::WritesRefused,
    Trouble::RequestsSlow,
    Trouble::ReplicaKilled,
    Trouble::ReplicaFrozen,
    Trouble::BadPeers,
];

/// What tenants do at the same time.
#[derive(Clone, Copy, Debug)]
enum Mischief {
    BundleExchanged,
    BundleRefused,
    BundleStrict,
    QuotaFilled,
    ConfigTouched,
}

const MISCHIEFS: [Mischief; 5] = [
    Mischief::BundleExchanged,
    Mischief::BundleRefused,
    Mischief::BundleStrict,
    Mischief::QuotaFilled,
    Mischief::ConfigTouched,
];

/// Causes faults, and counts them.
pub(crate) struct Chaos {
    stage: Arc<Stage>,
    chance: Rng,
    troubles: Vec<Trouble>,
    mischiefs: Vec<Mischief>,
    counts: Mutex<BTreeMap<String, usize>>,
}

impl Chaos {
    pub(crate) fn new(stage: Arc<Stage>, chance: Rng) -> Self {
        Self {
            stage,
            chance,
            troubles: Vec::new(),
            mischiefs: Vec::new(),
            counts: Mutex::default(),
        }
    }

    /// Causes faults until `end`, and undoes all of them.
    pub(crate) async fn rage(&mut self, end: Instant) {
        let (mut first, mut second) = (self.chance.fork(), self.chance.fork());
        let (mut troubles, mut mischiefs) = (take(&mut self.troubles), take(&mut self.mischiefs));
        tokio::join!(
            self.troubles(end, &mut troubles, &mut first),
            self.mischiefs(end, &mut mischiefs, &mut second)
        );
        (self.troubles, self.mischiefs) = (troubles, mischiefs);
    }

    /// Prints the number of each kind of fault.
    pub(crate) fn report(&self) {
        eprintln!("soak: faults, by kind");
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for (what, count) in counts.iter() {
            eprintln!("  {count:6} {what}");
        }
    }

    fn count(&self, what: String) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        eprintln!("soak: {what}");
        *counts.entry(what).or_default() += 1;
    }

    async fn troubles(&self, end: Instant, left: &mut Vec<Trouble>, chance: &mut Rng) {
        while Instant::now() < end {
            let Some(trouble) = deal(left, &TROUBLES, chance) else {
                return;
            };
            self.count(format!("{trouble:?}"));
            self.cause(trouble, chance).await;
            sleep(Duration::from_millis(chance.u64(500..3_000))).await;
        }
    }

    async fn cause(&self, trouble: Trouble, chance: &mut Rng) {
        let replicas = &self.stage.replicas;
        let time = Duration::from_millis(chance.u64(1_000..12_000));
        match trouble {
            Trouble::ApiServerKilled => self.kill_api_server(time).await,
            Trouble::ConnectionsSilent => {
                replicas.iter().for_each(|replica| replica.proxy.silence())
            }
            Trouble::EverythingSilent => {
                let silent = chance.choice(replicas);
                silent
                    .iter()
                    .for_each(|replica| replica.proxy.silence_all());
                sleep(time).await;
                // What is held back would be older than what others have done meanwhile.
                silent.iter().for_each(|replica| {
                    replica.proxy.drop_connections();
                    replica.proxy.resume();
                });
            }
            Trouble::ConnectionsDropped => {
                replicas
                    .iter()
                    .for_each(|replica| replica.proxy.drop_connections());
            }
            Trouble::WritesLost => self.break_writes(Fault::Drop, chance, time).await,
            Trouble::AnswersLost => self.break_writes(Fault::Cut, chance, time).await,
            Trouble::WritesRefused => {
                let refusal = Fault::api_error(500, "InternalError", "injected");
                self.break_writes(refusal, chance, time).await;
            }
            Trouble::RequestsSlow => {
                self.break_writes(Fault::Delay { seconds: 1.0 }, chance, time)
                    .await
            }
            // The first replica is never killed, so that its memory can be compared over the whole run.
            Trouble::ReplicaKilled => {
                if let Some(victim) = chance.choice(replicas.iter().skip(1)) {
                    self.kill(victim, time).await;
                }
            }
            Trouble::ReplicaFrozen => {
                if let Some(victim) = chance.choice(replicas) {
                    victim.freeze(time).await;
                }
            }
            Trouble::BadPeers => {
                let victim = chance
                    .choice(replicas)
                    .and_then(|replica| replica.addresses());
                if let Some(victim) = victim {
                    peers::pester(victim.http, time).await;
                }
            }
        }
    }

    async fn kill(&self, victim: &Replica, time: Duration) {
        victim.kill();
        sleep(time).await;
        victim.restart(&self.stage.findings).await;
    }

    async fn kill_api_server(&self, time: Duration) {
        let plane = &self.stage.scene.cluster.plane;
        let killed = plane.stop_api_server();
        sleep(time).await;
        let started = block_in_place(|| plane.start_api_server());
        for error in [killed.err(), started.err()].into_iter().flatten() {
            self.stage.findings.add(format!("the API server: {error}"));
        }
    }

    /// Injects a fault into writes of all replicas for a while: to all kinds, Leases and Events too.
    async fn break_writes(&self, fault: Fault, chance: &mut Rng, time: Duration) {
        for replica in &self.stage.replicas {
            let rule = Rule {
                after: chance.u64(0..20),
                times: Some(chance.u64(1..30)),
                ..Rule::on("write", fault.clone())
            };
            replica.proxy.set_rules(&[rule]);
        }
        sleep(time).await;
        for replica in &self.stage.replicas {
            replica.proxy.set_rules(&[]);
        }
    }

    async fn mischiefs(&self, end: Instant, left: &mut Vec<Mischief>, chance: &mut Rng) {
        while Instant::now() < end {
            let Some(mischief) = deal(left, &MISCHIEFS, chance) else {
                return;
            };
            self.count(format!("{mischief:?}"));
            self.commit(mischief, chance).await;
            sleep(Duration::from_millis(chance.u64(500..3_000))).await;
        }
    }

    async fn commit(&self, mischief: Mischief, chance: &mut Rng) {
        let bundle = &self.stage.bundle;
        let time = Duration::from_millis(chance.u64(1_000..8_000));
        let good = tenants::good_chain(if chance.bool() { "one" } else { "two" });
        match mischief {
            Mischief::BundleExchanged => block_in_place(|| bundle.update(&good)),
            Mischief::BundleRefused => {
                let refused = chance.choice(tenants::REFUSED).unwrap_or_default();
                block_in_place(|| bundle.update(refused));
                sleep(time).await;
                block_in_place(|| bundle.update(&good));
            }
            Mischief::BundleStrict => {
                block_in_place(|| bundle.update(&tenants::strict_chain()));
                sleep(time).await;
                block_in_place(|| bundle.update(&good));
            }
            Mischief::QuotaFilled => self.fill_quota(time).await,
            Mischief::ConfigTouched => self.touch_config(chance).await,
        }
    }

    /// Fills the quota for pods for a while. The quota controller does not run here, so we write its status.
    async fn fill_quota(&self, time: Duration) {
        let scene = &self.stage.scene;
        let quotas: Api<ResourceQuota> = Api::namespaced(scene.client.clone(), &scene.namespace);
        let quota = json!({ "metadata": { "name": "full" }, "spec": { "hard": { "pods": "0" } } });
        let status = json!({ "status": { "hard": { "pods": "0" }, "used": { "pods": "0" } } });
        // The API server may be down; then there is no quota, or it is deleted later.
        if let Ok(quota) = serde_json::from_value(quota) {
            let _down = quotas.create(&PostParams::default(), &quota).await;
            let (params, patch) = (PatchParams::default(), Patch::Merge(status));
            let _down = quotas.patch_status("full", &params, &patch).await;
        }
        sleep(time).await;
        while let Err(error) = quotas.delete("full", &DeleteParams::default()).await {
            if matches!(&error, kube::Error::Api(status) if status.is_not_found()) {
                return;
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    async fn touch_config(&self, chance: &mut Rng) {
        let label = json!({ "touched": chance.u32(..).to_string() });
        let patch = Patch::Merge(json!({ "spec": { "template": { "labels": label } } }));
        let configs = self.stage.scene.configs();
        let _down = configs
            .patch("sessions", &PatchParams::default(), &patch)
            .await;
    }
}

/// The next of those that are left. Each comes once before any comes again, so that even two minutes have most of them.
fn deal<T: Copy>(left: &mut Vec<T>, all: &[T], chance: &mut Rng) -> Option<T> {
    if left.is_empty() {
        left.extend(all);
        chance.shuffle(left);
    }
    left.pop()
}
