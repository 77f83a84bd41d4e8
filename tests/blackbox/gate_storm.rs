//! Gate and healing while replicas die and pods come and go: no pod runs without the chain, and nothing is stuck afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use podloom_tests::doubles::{Balancer, Double};
use podloom_tests::webhook::{Policy, Route, STAMP, Webhook};
use podloom_tests::{
    Cluster, Operator, PATIENCE, Scene, Seed, Watched, blackbox_within, eventually_within,
    free_address, rbac, standard,
};
use serde_json::json;

use crate::gate::{Policies, gated, is_gated, is_possible};

/// How long there are faults, in a test run and in each round of a soak.
const FAULTS: Duration = Duration::from_secs(20);
/// How many workloads there are at most.
const WORKLOADS: usize = 6;
/// How long it may take until all is well.
const CALM: Duration = Duration::from_mins(4);

/// Something that happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    Create,
    Scale,
    DeleteWorkload,
    DeletePod,
    /// Somebody takes the stamp from a pod that runs.
    Strip,
    KillOne,
    KillBoth,
    Restart,
}

const EVENTS: [Event; 14] = [
    Event::Create,
    Event::Create,
    Event::Create,
    Event::Create,
    Event::Scale,
    Event::Scale,
    Event::DeleteWorkload,
    Event::DeletePod,
    Event::DeletePod,
    Event::Strip,
    Event::KillOne,
    Event::KillBoth,
    Event::Restart,
    Event::Restart,
];

struct Storm<'s> {
    scene: &'s Scene,
    seed: Seed,
    webhook: &'s Webhook,
    addresses: [SocketAddr; 2],
    replicas: [Option<Operator>; 2],
    /// The kind of each workload, and how many pods it wants.
    workloads: BTreeMap<String, (&'static str, usize)>,
    created: usize,
    /// Pods whose stamp was taken from them.
    stripped: BTreeSet<String>,
    seen: usize,
}

impl Storm<'_> {
    fn replica(&self, index: usize) -> Operator {
        let address = self.addresses[index].to_string();
        let arguments = [
            "--webhook",
            &address,
            "--webhook-gate",
            "--webhook-heal=evict",
            "--webhook-heal-ready-within=20s",
            "--lease-duration",
            "3s",
        ];
        self.webhook.spawn(&standard(), &arguments)
    }

    fn restart(&mut self) {
        for index in 0..2 {
            if self.replicas[index].is_none() {
                self.replicas[index] = Some(self.replica(index));
            }
        }
    }

    async fn happen(&mut self, event: Event) {
        match event {
            Event::Create if self.workloads.len() < WORKLOADS => self.create(),
            Event::Create => {}
            Event::Scale => {
                let number = 1 + self.seed.below(3);
                if let Some((name, kind)) = self.some_workload() {
                    let replicas = format!("--replicas={number}");
                    self.kubectl(&["scale", kind, &name, &replicas]);
                    self.workloads.insert(name, (kind, number));
                }
            }
            Event::DeleteWorkload => {
                if let Some((name, kind)) = self.some_workload() {
                    self.kubectl(&["delete", kind, &name, "--wait=false"]);
                    self.workloads.remove(&name);
                }
            }
            Event::DeletePod => {
                if let Some(pod) = self.some_pod(|_| true).await {
                    let pods = self.scene.pods();
                    // It may be gone already.
                    let _ = pods.delete(&pod.name_any(), &DeleteParams::default()).await;
                }
            }
            Event::Strip => {
                if let Some(pod) = self.some_pod(passed).await {
                    self.stripped.extend(pod.uid());
                    let none = json!({ "metadata": { "annotations": { STAMP: null, "podloom.dev/chain": null } } });
                    let (params, none) = (PatchParams::default(), Patch::Merge(&none));
                    let _ = self
                        .scene
                        .pods()
                        .patch(&pod.name_any(), &params, &none)
                        .await;
                }
            }
            Event::KillOne => {
                let index = self.seed.below(2);
                self.replicas[index] = None;
            }
            Event::KillBoth => self.replicas = [None, None],
            Event::Restart => self.restart(),
        }
    }

    fn create(&mut self) {
        self.created += 1;
        let name = format!("w{}", self.created);
        let kind = *self.seed.pick(&["Deployment", "StatefulSet"]);
        let replicas = 1 + self.seed.below(3);
        let object = json!({
            "apiVersion": "apps/v1", "kind": kind,
            "metadata": { "name": name, "namespace": self.scene.namespace },
            "spec": {
                "replicas": replicas, "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [{ "name": "a", "image": "registry.k8s.io/pause:3.10" }] },
                },
            },
        });
        // No call fails because nobody answers.
        self.scene.cluster.apply_text(&object.to_string());
        self.workloads.insert(name, (kind, replicas));
    }

    fn kubectl(&self, arguments: &[&str]) {
        let namespace = ["-n", &self.scene.namespace];
        self.scene
            .cluster
            .kubectl(&[arguments, &namespace].concat());
    }

    fn some_workload(&mut self) -> Option<(String, &'static str)> {
        let all: Vec<_> = self.workloads.iter().collect();
        let index = self.seed.below(all.len().max(1));
        let (name, (kind, _)) = all.get(index)?;
        Some(((*name).clone(), *kind))
    }

    async fn pods(&self) -> Vec<Pod> {
        let listed = self.scene.pods().list(&ListParams::default()).await;
        let mut pods = listed.map(|it| it.items).unwrap_or_default();
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods
    }

    async fn some_pod(&mut self, is: fn(&Pod) -> bool) -> Option<Pod> {
        let mut pods = self.pods().await;
        pods.retain(is);
        let index = self.seed.below(pods.len().max(1));
        pods.into_iter().nth(index)
    }

    /// All workloads have their pods, which passed the chain, are ready, and wait at no gate.
    async fn calm(&mut self) {
        self.restart();
        eventually_within("all is well", CALM, async || {
            let pods = self.pods().await;
            let wanted: usize = self.workloads.values().map(|(_, number)| number).sum();
            let is_well = |pod: &Pod| passed(pod) && runs(pod) && !is_gated(pod);
            let bad: Vec<_> = pods.iter().filter(|pod| !is_well(pod)).collect();
            (pods.len() == wanted && bad.is_empty())
                .then_some(())
                .ok_or_else(|| {
                    let state =
                        |pod: &&Pod| (pod.name_any(), passed(pod), runs(pod), is_gated(pod));
                    let bad: Vec<_> = bad.iter().map(state).collect();
                    format!("{} pods of {wanted}: {bad:?}", pods.len())
                })
        })
        .await;
    }

    /// No pod ever ran without the chain, but for those from which the stamp was taken later.
    fn judge(&mut self, watched: &Watched<Pod>) {
        for change in watched.changes() {
            let pod = change.object();
            let is_stripped = pod.uid().is_some_and(|uid| self.stripped.contains(&uid));
            self.seen += usize::from(runs(pod));
            assert!(
                !runs(pod) || passed(pod) || is_stripped,
                "it runs without the chain: {pod:?}"
            );
        }
    }
}

fn passed(pod: &Pod) -> bool {
    pod.annotations().contains_key(STAMP)
}

fn runs(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    phase == Some("Running")
}

#[test]
fn no_pod_runs_without_the_chain_whatever_dies() {
    if !is_possible() {
        return;
    }
    let rounds = std::env::var("PODLOOM_GATE_ROUNDS").ok();
    let seed = match rounds {
        None => Seed::or("gate-storm", 1),
        Some(_) => Seed::new("gate-storm"),
    };
    let rounds: u32 = rounds.map_or(1, |it| it.parse().unwrap());
    let deadline = PATIENCE + (FAULTS + CALM) * rounds;
    blackbox_within(
        deadline,
        Cluster::without_operator,
        "gate-storm",
        async |scene| {
            let webhook = Webhook::new(&scene, Route::Url);
            let addresses = [free_address(), free_address()];
            let balancer: Balancer = Double::balancer(&addresses);
            let _policies = Policies::apply(&scene, &["gate/gate.yaml"]);
            webhook.configure(balancer.address(), Policy::Ignore);
            gated(&scene).await;
            for of in ["gate", "heal"] {
                let rights = ["--for", of, "--webhook-name", &webhook.name];
                let rights = [&rights[..], &["--operator-namespace", &webhook.home]].concat();
                scene.cluster.apply_text(&rbac(&rights));
            }
            let mut storm = Storm {
                scene: &scene,
                seed,
                webhook: &webhook,
                addresses,
                replicas: [None, None],
                workloads: BTreeMap::new(),
                created: 0,
                stripped: BTreeSet::new(),
                seen: 0,
            };
            for _ in 0..rounds {
                let watched = Watched::new(scene.pods()).await;
                let end = Instant::now() + FAULTS;
                while Instant::now() < end {
                    let event = *storm.seed.pick(&EVENTS);
                    storm.happen(event).await;
                    // Faults come at any time, also in the middle of what the last one caused.
                    let pause = Duration::from_millis(200 + storm.seed.below(1_500) as u64);
                    tokio::time::sleep(pause).await;
                }
                storm.calm().await;
                storm.judge(&watched);
            }
            let (seen, stripped) = (storm.seen, storm.stripped.len());
            assert!(seen > 0, "no pod ever ran");
            eprintln!(
                "gate storm: {rounds} rounds, {} workloads, {stripped} stamps taken, {seen} states of pods that ran",
                storm.created
            );
        },
    );
}
