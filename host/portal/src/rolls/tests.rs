use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::watcher::Event;
use podloom_engine::cache::{Cache, Watch};
use podloom_turns::lock;
use serde_json::json;
use tokio::time::Instant;

use super::{Limits, MARGIN, Roll, Rolls, Stage, UNUSED};

const DEADLINE: Duration = Duration::from_mins(2);

/// The tunnel of this name, in a namespace of the same name and in this generation, whose controller has seen that one.
fn deployment(name: &str, generation: i64, observed: i64) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("{name}-tunnel"), "namespace": name, "uid": name, "generation": generation,
            "ownerReferences": [{
                "apiVersion": "portal.gosuda.org/v1alpha1", "kind": "PortalExpose", "name": name, "uid": "e", "controller": true,
            }],
        },
        "spec": { "replicas": 1, "selector": {}, "template": {} },
        "status": {
            "observedGeneration": observed, "updatedReplicas": 1,
            "conditions": [{ "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable" }],
        },
    }))
    .unwrap()
}

fn settled(name: &str) -> Deployment {
    deployment(name, 1, 1)
}

/// At most two Deployments roll at once.
struct Cluster {
    rolls: Rolls,
    cache: Cache<Deployment>,
}

impl Cluster {
    fn with(deployments: impl IntoIterator<Item = Deployment>) -> Self {
        let cache = Cache::of(Watch::of("Deployment", "Deployments"), []);
        let rolls = Rolls::new(Limits::new(2, DEADLINE, false), cache.clone());
        let mut cluster = Self { rolls, cache };
        for deployment in deployments {
            cluster.shows(deployment);
        }
        cluster
    }

    fn shows(&mut self, deployment: Deployment) {
        self.cache.show(None, &Event::Apply(deployment));
    }

    /// Asks for a turn.
    fn may_roll(&self, name: &str) -> bool {
        self.rolls.take(&settled(name).metadata)
    }

    /// Asks for a turn, and writes the Deployment.
    fn rolls(&self, name: &str) -> bool {
        let may = self.may_roll(name);
        if may {
            self.rolls.wrote(&deployment(name, 2, 1).metadata);
        }
        may
    }
}

#[tokio::test]
async fn only_a_few_roll_at_once() {
    let cluster = Cluster::with(["a", "b", "c"].map(settled));
    assert!(cluster.rolls("a"));
    assert!(cluster.rolls("b"));
    assert!(!cluster.rolls("c"));
    // It has its turn still.
    assert!(cluster.may_roll("a"));
}

#[tokio::test]
async fn a_turn_ends_when_the_rollout_does() {
    let mut cluster = Cluster::with(["a", "b", "c"].map(settled));
    assert!(cluster.rolls("a") && cluster.rolls("b"));
    cluster.shows(deployment("a", 2, 1));
    assert!(!cluster.rolls("c"));
    cluster.shows(deployment("a", 2, 2));
    assert!(cluster.rolls("c"));
}

#[tokio::test]
async fn a_turn_ends_when_the_rollout_made_no_progress() {
    let mut cluster = Cluster::with(["a", "b", "c"].map(settled));
    assert!(cluster.rolls("a") && cluster.rolls("b"));
    let mut stuck = deployment("b", 2, 2);
    let conditions =
        json!([{ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded" }]);
    stuck.status.as_mut().unwrap().conditions = serde_json::from_value(conditions).unwrap();
    cluster.shows(stuck);
    assert!(cluster.rolls("c"));
}

#[tokio::test]
async fn a_turn_ends_when_the_deployment_is_gone() {
    let cluster = Cluster::with(["a", "b", "c"].map(settled));
    assert!(cluster.rolls("a") && cluster.rolls("b"));
    cluster.cache.show(None, &Event::Delete(settled("a")));
    assert!(cluster.rolls("c"));
}

#[tokio::test]
async fn a_turn_may_be_given_back() {
    let cluster = Cluster::with(["a", "b", "c"].map(settled));
    assert!(cluster.may_roll("a") && cluster.may_roll("b"));
    assert!(!cluster.may_roll("c"));
    cluster.rolls.give_back(&settled("a").metadata);
    assert!(cluster.may_roll("c"));
}

/// Its pass was cancelled.
#[tokio::test(start_paused = true)]
async fn a_turn_that_nobody_uses_ends() {
    let cluster = Cluster::with(["a", "b", "c"].map(settled));
    assert!(cluster.rolls("a") && cluster.may_roll("b"));
    tokio::time::advance(UNUSED - Duration::from_secs(1)).await;
    assert!(!cluster.may_roll("c"));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(cluster.may_roll("c"));
}

#[tokio::test]
async fn what_rolls_at_the_start_counts() {
    let mut cluster = Cluster::with([deployment("a", 2, 1), deployment("b", 3, 2), settled("c")]);
    assert!(!cluster.rolls("c"));
    cluster.shows(deployment("b", 3, 3));
    assert!(cluster.rolls("c"));
}

fn stuck(name: &str) -> Deployment {
    deployment(name, 2, 1)
}

/// Anybody can put our labels on a Deployment of their own, and stop its rollout for ever.
#[tokio::test]
async fn deployments_of_others_do_not_count() {
    let edit = |mut deployment: Deployment, work: fn(&mut Deployment)| {
        work(&mut deployment);
        deployment
    };
    fn owner(
        deployment: &mut Deployment,
    ) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
        &mut deployment.metadata.owner_references.as_mut().unwrap()[0]
    }
    let cluster = Cluster::with([
        edit(stuck("a"), |it| it.metadata.owner_references = None),
        edit(stuck("b"), |it| owner(it).controller = None),
        edit(stuck("c"), |it| owner(it).kind = "Deployment".to_owned()),
        edit(stuck("d"), |it| {
            owner(it).api_version = "example.com/v1".to_owned()
        }),
        edit(stuck("e"), |it| it.metadata.name = Some("other".to_owned())),
        settled("y"),
        settled("z"),
    ]);
    assert!(cluster.rolls("y") && cluster.rolls("z"));
}

/// Nobody says that it makes no progress: its controller does not run, or somebody changed the deadline.
#[tokio::test(start_paused = true)]
async fn a_turn_ends_when_the_deadline_has_passed() {
    let cluster = Cluster::with([stuck("a"), settled("b"), settled("c")]);
    assert!(cluster.rolls("b"));
    tokio::time::advance(DEADLINE + MARGIN - Duration::from_secs(1)).await;
    assert!(!cluster.rolls("c"));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(cluster.rolls("c"));
}

fn in_namespace(mut deployment: Deployment, namespace: &str) -> Deployment {
    deployment.metadata.namespace = Some(namespace.to_owned());
    deployment
}

#[tokio::test]
async fn one_namespace_has_at_most_half_of_the_turns() {
    let stuck = ["a", "b", "c"].map(|name| in_namespace(stuck(name), "team"));
    let cluster = Cluster::with(stuck.into_iter().chain(["e", "f"].map(settled)));
    let near = in_namespace(settled("d"), "team");
    assert!(!cluster.rolls.take(&near.metadata));
    assert!(cluster.rolls("e"));
    assert!(!cluster.rolls("f"));
}

#[test]
fn each_namespace_has_a_turn_and_a_single_one_has_all() {
    let of = |max, is_one| Limits::new(max, DEADLINE, is_one).max_of_namespace;
    assert_eq!([of(1, false), of(5, false), of(5, true)], [1, 2, 5]);
}

/// For the search through all histories.
impl Rolls {
    /// Returns the same turns, with another cache.
    pub(crate) fn seeing(&self, deployments: &Cache<Deployment>) -> Self {
        Self {
            deployments: deployments.clone(),
            ..self.clone()
        }
    }

    /// Returns a copy that changes independently.
    pub(crate) fn copied(&self) -> Self {
        Self {
            rolling: Arc::new(Mutex::new(lock(&self.rolling).clone())),
            ..self.clone()
        }
    }

    /// Hashes who has a turn, and for how long.
    pub(crate) fn hash(&self, now: Instant, hasher: &mut DefaultHasher) {
        let rolling = lock(&self.rolling);
        let since = |at: Instant| now.saturating_duration_since(at);
        let turn = |(uid, roll): (&String, &Roll)| {
            let (written, took) = match roll.stage {
                Stage::Taken(at) => (None, since(at)),
                Stage::Written(at, generation) => (Some(generation), since(at)),
            };
            (uid.clone(), written, took)
        };
        let turns = rolling.as_ref().map(|it| it.iter().map(turn).collect());
        turns.map(|it: BTreeSet<_>| it).hash(hasher);
    }
}
