//! A Cluster, an API server and IM, all in memory: passes as the engine makes them, and whatever can go wrong.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use podloom_api::{ClusterObject, ClusterState};
use podloom_engine::plan::{Then, later};
use serde_json::{Value, json};

use super::manager::{Luck, Manager, Request};
use super::random::Random;
use super::setting::backend;
use crate::cluster::absorb::learn;
use crate::cluster::action::{Action, Ask, Asked, Outcome, Reply};
use crate::cluster::durable::Change;
use crate::cluster::memory::{Known, OurSecret};
use crate::cluster::plan::plan;
use crate::cluster::world::{Edit, Learned, Prepared, SeenSecret, Settings, Wanted, World, edit};
use crate::in_use::Guard;
use crate::kubeconfig::Probed;
use crate::template::to_send;

pub(super) const SETTINGS: Settings = Settings {
    settle: Duration::from_mins(1),
    probe: true,
};

const UID: &str = "11111111-1111-4111-8111-111111111111";

/// How a pass ended.
enum Ended {
    /// It is to come back then.
    At(Timestamp),
    /// It failed, or the process did.
    Broke,
}

pub(super) struct Simulation {
    random: Random,
    pub(super) now: Timestamp,
    /// The Cluster as the API server has it; none once it is gone.
    pub(super) cluster: Option<ClusterObject>,
    secret: Option<OurSecret>,
    version: u64,
    known: Option<Known>,
    pub(super) im: Manager,
    /// Whether nothing goes wrong any more.
    is_calm: bool,
    /// The states that were written, without repetitions.
    pub(super) states: Vec<ClusterState>,
    /// What happened, for whoever looks for the reason of a failure.
    log: Vec<String>,
}

pub(super) fn template(workers: u32) -> Value {
    let mut nodes = json!({ "control_plane": { "type": "tosca.nodes.Compute" } });
    for worker in 0..workers {
        nodes[format!("worker_{worker}")] = json!({ "type": "tosca.nodes.Compute" });
    }
    json!({
        "tosca_definitions_version": "tosca_simple_yaml_1_0",
        "topology_template": {
            "node_templates": nodes,
            "outputs": { "kubeconfig": { "value": "text" } },
        },
    })
}

impl Simulation {
    pub(super) fn new(seed: u64) -> Self {
        let cluster = json!({
            "metadata": { "name": "edge", "namespace": "team", "uid": UID, "generation": 1, "resourceVersion": "1" },
            "spec": {
                "tosca": template(1),
                "cloudRef": { "kind": "Cloud", "name": "private" },
                "pollIntervalSeconds": 5,
                "timeoutSeconds": { "create": 300, "update": 300, "delete": 300 },
            },
        });
        Self {
            random: Random::new(seed),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            cluster: Some(serde_json::from_value(cluster).unwrap()),
            secret: None,
            version: 1,
            known: None,
            im: Manager::default(),
            is_calm: false,
            states: Vec::new(),
            log: Vec::new(),
        }
    }

    pub(super) fn calm(&mut self) {
        self.is_calm = true;
    }

    pub(super) fn state(&self) -> Option<ClusterState> {
        self.cluster.as_ref()?.status.as_ref()?.state
    }

    fn name() -> String {
        format!("podloom-{UID}")
    }

    /// How many infrastructures have the Cluster's name.
    pub(super) fn infrastructures(&self) -> usize {
        let all = self.im.all.values();
        all.filter(|it| it.template["metadata"]["infra_name"] == Self::name())
            .count()
    }

    /// Fails with what happened.
    #[track_caller]
    pub(super) fn check(&self, holds: bool, what: &str) {
        assert!(holds, "{what}\n{}\n{:#?}", self.log.join("\n"), self.im.all);
    }

    /// Changes the Cluster as a user does.
    pub(super) fn edited(&mut self, change: impl FnOnce(&mut ClusterObject)) {
        self.version += 1;
        let version = self.version.to_string();
        if let Some(cluster) = &mut self.cluster {
            change(cluster);
            cluster.metadata.resource_version = Some(version);
        }
    }

    pub(super) fn edit_spec(&mut self, workers: u32) {
        self.log.push(format!("{}: {workers} workers", self.now));
        self.edited(|cluster| {
            cluster.spec.tosca = Some(template(workers));
            cluster.metadata.generation = cluster.metadata.generation.map(|it| it + 1);
        });
    }

    pub(super) fn wipe_status(&mut self) {
        self.log.push(format!("{}: the status is wiped", self.now));
        self.edited(|cluster| cluster.status = None);
    }

    pub(super) fn delete(&mut self) {
        self.log.push(format!("{}: it is deleted", self.now));
        let now = self.now;
        let has_finalizer = self.cluster.as_ref().is_some_and(|it| {
            it.metadata
                .finalizers
                .as_ref()
                .is_some_and(|all| !all.is_empty())
        });
        match has_finalizer {
            true => self.edited(|cluster| {
                cluster.metadata.deletion_timestamp = Some(podloom_engine::conditions::time(now));
            }),
            false => self.cluster = None,
        }
    }

    pub(super) fn restart(&mut self) {
        self.log.push(format!("{}: the process restarts", self.now));
        self.known = None;
    }

    /// Makes a pass, then waits for the next one.
    pub(super) fn step(&mut self) {
        let longest = later(self.now, Duration::from_secs(30));
        let next = match self.pass() {
            Ended::At(at) => at
                .min(longest)
                .max(later(self.now, Duration::from_millis(10))),
            Ended::Broke => later(self.now, Duration::from_secs(1)),
        };
        self.now = next;
        self.im.pass_time(next, &mut self.random, self.is_calm);
    }

    fn pass(&mut self) -> Ended {
        let Some(mut world) = self.world() else {
            return Ended::At(Timestamp::MAX);
        };
        for _ in 0..20 {
            let plan = plan(&world, &SETTINGS, self.now);
            let Some(action) = plan.action else {
                return Ended::At(match plan.then {
                    Then::At(at) => at,
                    _ => Timestamp::MAX,
                });
            };
            let Some(outcome) = self.act(&world, &action) else {
                return Ended::Broke;
            };
            learn(&mut world, outcome);
            self.known = Some(world.known.clone());
            if !self.is_calm && self.random.once_in(40) {
                self.restart();
                return Ended::Broke;
            }
            if self.cluster.is_none() {
                return Ended::Broke;
            }
        }
        self.check(false, "the pass has no end");
        Ended::Broke
    }

    fn world(&mut self) -> Option<World> {
        let cluster = self.cluster.clone()?;
        let mut known = self.known.take().unwrap_or_else(|| Known::of(&cluster));
        let durable = known.recall(&cluster);
        let backend = durable.scheduled_to.is_some().then(|| Ok(backend()));
        let wanted = cluster.spec.tosca.as_ref().map(|it| Wanted::of(it, false));
        let mut world = World {
            cluster: Arc::new(cluster),
            durable,
            backend,
            wanted,
            known,
            secret: SeenSecret::Unseen,
            rival: None,
            learned: Learned::default(),
        };
        let inputs = world.inputs(Vec::new());
        world.known.refresh(&inputs);
        self.known = Some(world.known.clone());
        Some(world)
    }

    /// What an action comes to; none if the pass ends with it.
    fn act(&mut self, world: &World, action: &Action) -> Option<Outcome> {
        match action {
            Action::SetMetadata(patch) => {
                let finalizers = patch.finalizers.clone();
                let written = self.write(world, |it| it.metadata.finalizers = finalizers)?;
                Some(Outcome::Marked(Box::new(written)))
            }
            Action::Guard => Some(Outcome::Guard(Guard::InPlace)),
            Action::Prepare => Some(Outcome::Prepared(Prepared(None))),
            Action::Record { change, status } => {
                let status = status.clone();
                let written = self.write(world, |it| it.status = Some(*status))?;
                Some(Outcome::Recorded(*change, Box::new(written)))
            }
            Action::Ask(ask) => {
                let reply = self.ask(world, ask);
                self.log.push(format!("{}: {ask:?} -> {reply:?}", self.now));
                self.check(self.infrastructures() <= 1, "there are two infrastructures");
                Some(Outcome::Asked(Asked {
                    ask: ask.clone(),
                    reply,
                    at: self.now,
                }))
            }
            Action::ReadSecret => Some(Outcome::Secret(match &self.secret {
                Some(secret) => SeenSecret::Ours(secret.clone()),
                None => SeenSecret::Absent,
            })),
            Action::Store => {
                self.version += 1;
                let secret = OurSecret {
                    version: Some(self.version.to_string()),
                    mark: world.durable.mark(),
                };
                self.secret = Some(secret.clone());
                Some(Outcome::Stored {
                    secret,
                    is_written: true,
                })
            }
            Action::Probe => Some(Outcome::Probed(Probed::Answers, self.now)),
            Action::WriteStatus(status) => {
                let status = status.clone();
                let written = self.write(world, |it| it.status = Some(*status))?;
                Some(Outcome::StatusWritten(Box::new(written)))
            }
        }
    }

    /// Writes the Cluster, if it is as the pass saw it; none if the pass ends.
    fn write(
        &mut self,
        world: &World,
        change: impl FnOnce(&mut ClusterObject),
    ) -> Option<ClusterObject> {
        if !self.is_calm && self.random.once_in(20) {
            self.log
                .push(format!("{}: somebody else writes first", self.now));
            self.edited(|_| {});
        }
        let cluster = self.cluster.as_mut()?;
        if cluster.metadata.resource_version != world.metadata().resource_version {
            return None;
        }
        self.version += 1;
        cluster.metadata.resource_version = Some(self.version.to_string());
        change(cluster);
        let written = cluster.clone();
        let state = written.status.as_ref().and_then(|it| it.state);
        if self.states.last() != state.as_ref() {
            self.states.extend(state);
        }
        let finalizers = written.metadata.finalizers.as_deref().unwrap_or_default();
        if written.metadata.deletion_timestamp.is_some() && finalizers.is_empty() {
            self.log
                .push(format!("{}: the finalizer is gone", self.now));
            self.cluster = None;
        }
        if !self.is_calm && self.random.once_in(20) {
            self.log
                .push(format!("{}: the answer to a write is lost", self.now));
            return None;
        }
        Some(written)
    }

    fn ask(&mut self, world: &World, ask: &Ask) -> Reply {
        let luck = self.luck(ask);
        let Ask::Change(change) = ask else {
            return self.im.read(ask, &Self::name(), luck, self.now);
        };
        // It is recorded, for this very moment.
        let stored = self.cluster.as_ref().and_then(|it| it.status.as_ref());
        let recorded = stored.and_then(|it| it.operation.as_ref()?.last_call_at.as_ref());
        self.check(
            recorded.is_some_and(|it| it.0 == self.now),
            "a change was sent that is not recorded",
        );
        let template = sent(world, *change);
        let request = Request {
            change: *change,
            id: world.durable.id.clone(),
            template,
        };
        self.im.change(request, luck, self.now)
    }

    fn luck(&mut self, ask: &Ask) -> Luck {
        if self.is_calm || !self.random.once_in(3) {
            return Luck::Good;
        }
        match ask {
            // A delayed one may come after others, and nothing can be done about that.
            Ask::Change(Change::Create) => self.random.one_of(&[
                Luck::Unsent,
                Luck::Unanswered,
                Luck::Delayed,
                Luck::Lost,
                Luck::Refused,
            ]),
            _ => self
                .random
                .one_of(&[Luck::Unsent, Luck::Unanswered, Luck::Lost, Luck::Refused]),
        }
    }

    /// Something happens at IM or to the Cluster, which nobody told us.
    pub(super) fn mishap(&mut self) {
        use crate::im::ImState;
        match self.random.one_of(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) {
            0 => {
                self.log.push(format!("{}: it vanishes", self.now));
                self.im.all.clear();
            }
            1 | 2 => {
                let state = self.random.one_of(&[
                    ImState::Unconfigured,
                    ImState::Failed,
                    ImState::Stopped,
                    ImState::Off,
                    ImState::Unknown,
                ]);
                self.log.push(format!("{}: it is {state}", self.now));
                for it in self.im.all.values_mut() {
                    it.harm(state);
                }
            }
            3 => self.wipe_status(),
            8 => {
                self.log.push(format!("{}: a machine vanishes", self.now));
                for it in self.im.all.values_mut().filter(|it| it.machines > 1) {
                    it.machines -= 1;
                }
            }
            4 => self.secret = None,
            5 => self.restart(),
            6 | 7 => {
                let workers = self.random.one_of(&[1, 2, 3]);
                // Names are never used again, so it only grows.
                let before = self.cluster.as_ref().and_then(|it| it.spec.tosca.clone());
                let before = before.as_ref().map_or(0, super::manager::machines);
                if usize::try_from(workers).is_ok_and(|it| it >= before) {
                    self.edit_spec(workers);
                }
            }
            _ => {}
        }
    }
}

fn sent(world: &World, change: Change) -> Value {
    let whole = || {
        let wanted = world.wanted.as_ref().map(|it| &it.template);
        let template = world.durable.applied.as_ref().or(wanted).unwrap();
        let text = to_send(template, &Simulation::name());
        serde_json::from_str(&text).unwrap()
    };
    match change {
        Change::Create | Change::Resend => whole(),
        Change::Update => match edit(world) {
            Edit::Send { sent, .. } => {
                let text = to_send(&sent, &Simulation::name());
                serde_json::from_str(&text).unwrap()
            }
            other => unreachable!("{other:?}"),
        },
        _ => Value::Null,
    }
}
