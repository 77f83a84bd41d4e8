//! Many owners: of how many a pod is missing at once, and what healing costs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use podloom_tests::usage::usage;
use podloom_tests::webhook::{Policy, Route, Webhook, address};
use podloom_tests::{Change, Cluster, Operator, Scene, blackbox_within, eventually_within};

use super::{NOBODY, create, evicted, is_ready, passed, spawn, workload};

/// How many owners there are, how many pods each has, and how many owners are worked on at once.
#[derive(Clone, Copy)]
struct Size {
    owners: usize,
    pods: usize,
    at_once: usize,
}

impl Size {
    /// Few, or as many owners as the environment says, with ten pods each.
    fn of_environment() -> Self {
        match std::env::var("PODLOOM_HEAL_OWNERS") {
            Err(_) => Self {
                owners: 6,
                pods: 2,
                at_once: 2,
            },
            Ok(owners) => Self {
                owners: owners.parse().unwrap(),
                pods: 10,
                at_once: 50,
            },
        }
    }

    fn all(self) -> usize {
        self.owners * self.pods
    }

    /// A pod takes a few seconds: until the new one is ready, and until it is looked at.
    fn patience(self) -> Duration {
        Duration::from_secs(120) + Duration::from_secs(10) * (self.all() / self.at_once) as u32
    }
}

/// Waits until all pods are ready. Lists of many pods would cost more than what is measured.
async fn all_are_ready(scene: &Scene, size: Size) {
    let deployments: Api<Deployment> = Api::namespaced(scene.client.clone(), &scene.namespace);
    eventually_within("all pods are ready", size.patience(), async || {
        let all = deployments.list(&ListParams::default()).await;
        let all = all.map_err(|error| error.to_string())?.items;
        let ready = all
            .iter()
            .filter_map(|it| it.status.as_ref()?.ready_replicas);
        let ready: i32 = ready.sum();
        (usize::try_from(ready) == Ok(size.all()))
            .then_some(())
            .ok_or_else(|| format!("{ready} of {}", size.all()))
    })
    .await;
}

/// Waits until all pods were evicted, and others are there that passed the chain.
async fn all_are_healed(scene: &Scene, size: Size, operator: &Operator) {
    eventually_within("all were evicted", size.patience(), async || {
        let pods = evicted(operator);
        (pods >= size.all() as f64)
            .then_some(())
            .ok_or_else(|| pods.to_string())
    })
    .await;
    all_are_ready(scene, size).await;
    let pods = scene.pods().list(&ListParams::default()).await.unwrap();
    assert!(pods.items.iter().all(passed));
}

fn is_there(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
}

/// The most owners of which a pod was missing at once, and the most pods that one was missing, since all were there for the first time.
fn most_missing(changes: &[Change<Pod>], size: Size) -> (usize, usize) {
    let mut ready: HashMap<String, HashSet<String>> = HashMap::new();
    let mut missing: HashMap<String, usize> = HashMap::new();
    let (mut owners, mut pods, mut was_whole) = (0, 0, false);
    for change in changes {
        let pod = change.object();
        let owner = pod.owner_references()[0].uid.clone();
        let of_owner = ready.entry(owner.clone()).or_default();
        let is_gone = matches!(change, Change::Gone(_));
        match is_ready(pod) && is_there(pod) && !is_gone {
            true => of_owner.insert(pod.uid().unwrap()),
            false => of_owner.remove(&pod.uid().unwrap()),
        };
        match size.pods.saturating_sub(of_owner.len()) {
            0 => drop(missing.remove(&owner)),
            some => drop(missing.insert(owner, some)),
        }
        was_whole |= missing.is_empty() && ready.len() == size.owners;
        if was_whole {
            owners = owners.max(missing.len());
            pods = pods.max(missing.values().copied().max().unwrap_or_default());
        }
    }
    (owners, pods)
}

/// What it has asked of the API server, for each pod that it evicted.
fn print_costs(scene: &Scene, webhook: &Webhook, operator: &Operator, began: Instant) {
    let pods = evicted(operator);
    let seconds = began.elapsed().as_secs_f64();
    let mut requests: BTreeMap<String, usize> = BTreeMap::new();
    for request in scene.cluster.requests_of(&webhook.user) {
        let resource = [request.resource, request.subresource].join("/");
        *requests
            .entry(format!("{} {resource}", request.verb))
            .or_default() += 1;
    }
    let used = usage(operator.id()).unwrap();
    let mebibytes = |bytes: u64| bytes / (1 << 20);
    eprintln!(
        "heal: {pods} pods in {seconds:.0} s; {:.1} ms of CPU for each; at most {} MiB, {} MiB of it anonymous at the end",
        used.cpu.as_secs_f64() * 1e3 / pods,
        mebibytes(used.peak),
        mebibytes(used.anonymous),
    );
    let each = requests
        .into_iter()
        .map(|(request, count)| (request, count as f64 / pods));
    for (request, of_each) in each.filter(|(_, it)| *it > 0.01) {
        eprintln!("heal: {request}: {of_each:.2} for each");
    }
}

#[test]
fn of_few_owners_one_pod_is_missing_at_once() {
    let size = Size::of_environment();
    let own = Cluster::without_operator;
    blackbox_within(size.patience() * 3, own, "heal-many", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        webhook.configure(NOBODY.parse().unwrap(), Policy::Ignore);
        let seen = scene.watch_pods().await;
        for number in 0..size.owners {
            let replicas = size.pods.try_into().unwrap();
            create(
                &scene,
                &workload("Deployment", &format!("w{number}"), replicas),
            );
        }
        all_are_ready(&scene, size).await;
        let at_once = size.at_once.to_string();
        let flags = ["--webhook-heal=evict", "--webhook-heal-owners", &at_once];
        let operator = spawn(&scene, &webhook, &flags);
        webhook.configure(address(&operator).await, Policy::Ignore);
        operator.ready().await;
        let began = Instant::now();
        all_are_healed(&scene, size, &operator).await;
        print_costs(&scene, &webhook, &operator, began);
        let (owners, pods) = most_missing(&seen.changes(), size);
        assert!(owners <= size.at_once && pods == 1, "{owners} {pods}");
        assert_eq!(evicted(&operator), size.all() as f64);
    });
}
