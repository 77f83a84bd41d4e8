//! The steps, and what must hold in them.

use std::time::Duration;

use futures::{StreamExt, stream};
use kube::api::{DeleteParams, Patch, PatchParams};
use podloom_api::{Cluster, ClusterState};
use podloom_tests::im::{ImOwner, templates};
use podloom_tests::infrastructure::{Infrastructure, condition};
use podloom_tests::steps::{Counters, Step};
use podloom_tests::{Change, Watched};
use serde_json::json;
use tokio::time::sleep;

use crate::requests::{IM, is_change};

/// How long a step may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// How many requests of our own are sent at once.
const CONCURRENCY: usize = 8;
/// How many workers the pool of each Cluster has at first, and later.
const WORKERS: [u32; 2] = [1, 2];
/// How often a user's Clusters are polled, if their spec does not say otherwise.
const POLL_SECONDS: i32 = 30;

/// Everything that the steps need.
pub(crate) struct Bench<'a> {
    pub(crate) infrastructure: &'a Infrastructure<'a>,
    pub(crate) counters: Counters<'a>,
    pub(crate) seen: Watched<Cluster>,
    /// The accounts at IM, one for each provider.
    pub(crate) owners: Vec<ImOwner>,
    /// The kubeconfig that all Clusters have.
    pub(crate) kubeconfig: String,
    pub(crate) names: Vec<String>,
}

/// The name of a provider, of its Cloud and of its account.
pub(crate) fn provider(number: usize) -> String {
    format!("provider{number}")
}

impl Bench<'_> {
    pub(crate) async fn measure(&self, pause: u64, rest: u64) -> Vec<Step> {
        let [few, more] = WORKERS;
        let started = self.counters.since("started", &self.counters.now());
        let new = self.step("new", self.create(few)).await;
        self.all_have_their_infrastructure();
        eprintln!("waiting {pause} s");
        sleep(Duration::from_secs(pause)).await;
        let rest = self.step("rest", sleep(Duration::from_secs(rest))).await;
        let change = self.step("change", self.change(more)).await;
        self.all_have_their_infrastructure();
        let deletion = self.step("deletion", self.delete()).await;
        vec![started, new, rest, change, deletion]
    }

    /// Checks that IM has no infrastructure any more, and shows what it has.
    pub(crate) fn nothing_is_left(&self) {
        let of_owner = |owner: &ImOwner| {
            let ids = owner.list();
            let left = ids.iter().map(|id| format!("{id}: {:?}", owner.state(id)));
            left.collect::<Vec<_>>()
        };
        let left: Vec<String> = self.owners.iter().flat_map(of_owner).collect();
        assert!(left.is_empty(), "IM still has {left:#?}");
    }

    async fn step(&self, name: &'static str, work: impl Future<Output = ()>) -> Step {
        let before = self.counters.now();
        work.await;
        let step = self.counters.since(name, &before);
        step.print(self.names.len(), "Cluster");
        step
    }

    /// Creates all Clusters, and waits until they are configured and their API servers answer.
    async fn create(&self, workers: u32) {
        self.each(async |number, name| {
            // Each Cluster has a host of its own, as real ones do: the operator limits how many requests it sends to one. Names with
            // this end are this machine for the operator.
            let host = format!("{name}.localhost.");
            let kubeconfig = self.kubeconfig.replace("127.0.0.1", &host);
            let pool = templates::pool(workers, &[]);
            let cloud = json!({ "kind": "Cloud", "name": provider(number % self.owners.len()) });
            let spec = json!({
                "tosca": templates::with_kubeconfig(pool, &kubeconfig),
                "cloudRef": cloud,
                "pollIntervalSeconds": POLL_SECONDS,
            });
            self.infrastructure.cluster_with(name, spec).await;
        })
        .await;
        self.until_online(workers).await;
    }

    /// Changes the number of workers of all Clusters, and waits until it is so.
    async fn change(&self, workers: u32) {
        let inputs = json!({ "workers": { "default": workers } });
        let patch = json!({ "spec": { "tosca": { "topology_template": { "inputs": inputs } } } });
        let (clusters, patch) = (self.infrastructure.clusters(), Patch::Merge(patch));
        self.each(async |_, name| {
            let all = PatchParams::default();
            clusters.patch(name, &all, &patch).await.unwrap();
        })
        .await;
        self.until_online(workers).await;
    }

    /// Deletes all Clusters, and waits until they are gone.
    async fn delete(&self) {
        let clusters = self.infrastructure.clusters();
        self.each(async |_, name| {
            clusters
                .delete(name, &DeleteParams::default())
                .await
                .unwrap();
        })
        .await;
        let are_gone = |changes: &[Change<Cluster>]| {
            let gone = changes.iter().filter(|it| matches!(it, Change::Gone(_)));
            (gone.count() == self.names.len()).then_some(())
        };
        self.seen
            .until_within("all are gone", PATIENCE, are_gone)
            .await;
    }

    async fn each(&self, work: impl AsyncFn(usize, &str)) {
        let work = &work;
        stream::iter(self.names.iter().enumerate())
            .map(async |(number, name)| work(number, name).await)
            .buffer_unordered(CONCURRENCY)
            .for_each(async |()| ())
            .await;
    }

    async fn until_online(&self, workers: u32) {
        // And the server of the pool.
        let machines = i32::try_from(workers).unwrap() + 1;
        let what = format!("all are ONLINE with {machines} machines");
        self.seen
            .until_all(self.names.len(), &what, PATIENCE, |cluster| {
                is_online(cluster, machines)
            })
            .await;
    }

    /// Checks that nothing was created twice.
    fn all_have_their_infrastructure(&self) {
        let owned = self.owners.iter().map(|owner| owner.list().len());
        assert_eq!(owned.sum::<usize>(), self.names.len(), "infrastructures");
    }
}

fn is_online(cluster: &Cluster, machines: i32) -> bool {
    cluster.status.as_ref().is_some_and(|status| {
        let vms = status.vms.unwrap_or_default();
        status.observed_generation == cluster.metadata.generation
            && status.state == Some(ClusterState::Online)
            && condition(status, "Ready") == "True/Ready"
            && (vms.total, vms.configured) == (machines, machines)
    })
}

/// Checks that at rest nothing is written, neither at IM nor at the API server.
pub(crate) fn check(steps: &[Step]) {
    let rest = steps.iter().find(|step| step.name == "rest").unwrap();
    let requests = rest.requests.get(IM).into_iter().flatten();
    let changes: Vec<_> = requests.filter(|(it, _)| is_change(it)).collect();
    assert!(changes.is_empty(), "at rest, IM was asked to {changes:?}");
    let writes = rest.writes();
    assert!(writes.is_empty(), "at rest, the operator sent {writes:?}");
}
