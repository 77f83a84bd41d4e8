//! A model of IM: what it has, what it does when it is asked, and what can go wrong between it and us.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use podloom_engine::plan::later;
use serde_json::{Map, Value, json};

use super::random::Random;
use crate::cluster::action::{Ask, Found, Reply};
use crate::cluster::durable::Change;
use crate::im::{Answer, Failure, FailureKind, ImState, InfrastructureId, Reading, Sent};

/// How long IM destroys an infrastructure. Whoever reads its state meanwhile brings the record back.
const DESTROYING: Duration = Duration::from_millis(800);

/// How long after its end a record may be written back, while IM builds another infrastructure.
const WRITTEN_BACK: Duration = Duration::from_secs(4);

/// An infrastructure.
#[derive(Clone, Debug)]
pub(super) struct Infrastructure {
    /// The template as IM merged it.
    pub(super) template: Value,
    pub(super) state: ImState,
    pub(super) machines: usize,
    /// When its state changes by itself.
    moves: Timestamp,
    destroyed: Option<Timestamp>,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Luck {
    Good,
    /// It never leaves.
    Unsent,
    /// It is carried out, and its answer is lost.
    Unanswered,
    /// Nobody answers, and it is carried out some seconds later.
    Delayed,
    /// It is lost.
    Lost,
    /// IM refuses.
    Refused,
}

#[derive(Default)]
pub(super) struct Manager {
    pub(super) all: BTreeMap<InfrastructureId, Infrastructure>,
    delayed: Vec<(Timestamp, Request)>,
    /// Records that are written back.
    returning: Vec<(Timestamp, InfrastructureId, Infrastructure)>,
    count: u64,
    /// How many create requests were carried out.
    pub(super) created: u32,
    /// How many requests were carried out that change something.
    pub(super) changed: u32,
}

/// A request that changes something.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) change: Change,
    pub(super) id: Option<InfrastructureId>,
    pub(super) template: Value,
}

impl Manager {
    /// Time passes.
    pub(super) fn pass_time(&mut self, now: Timestamp, random: &mut Random, is_calm: bool) {
        self.destroy(now, random);
        for it in self.all.values_mut().filter(|it| it.moves <= now) {
            it.advance(now, random, is_calm);
        }
        let (due, left) = std::mem::take(&mut self.delayed)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.delayed = left;
        for (at, request) in due {
            drop(self.carry_out(&request, at));
        }
    }

    /// Removes what is destroyed. Some of it comes back, as a record without machines.
    fn destroy(&mut self, now: Timestamp, random: &mut Random) {
        let is_over = |it: &Infrastructure| it.destroyed.is_some_and(|at| at <= now);
        for (id, it) in self.all.extract_if(.., |_, it| is_over(it)) {
            if random.once_in(3) {
                self.returning.push((later(now, WRITTEN_BACK), id, it));
            }
        }
        for (_, id, mut it) in self.returning.extract_if(.., |(at, ..)| *at <= now) {
            it.destroyed = None;
            it.harm(ImState::Unknown);
            it.machines = 0;
            self.all.insert(id, it);
        }
    }

    /// Whether nothing is on its way any more: no request, and no record.
    pub(super) fn is_quiet(&self) -> bool {
        self.delayed.is_empty() && self.returning.is_empty()
    }

    /// Sends a request that changes something.
    pub(super) fn change(&mut self, request: Request, luck: Luck, now: Timestamp) -> Reply {
        match luck {
            Luck::Good => self.carry_out(&request, now).unwrap_or_else(Reply::Failure),
            Luck::Unsent => Reply::Failure(failure(FailureKind::Unreachable, Sent::No)),
            Luck::Refused => Reply::Failure(failure(FailureKind::Refused, Sent::Refused)),
            Luck::Lost => Reply::Failure(failure(FailureKind::Unreachable, Sent::Unknown)),
            Luck::Unanswered => {
                drop(self.carry_out(&request, now));
                Reply::Failure(failure(FailureKind::Unreachable, Sent::Unknown))
            }
            Luck::Delayed => {
                self.delayed
                    .push((later(now, Duration::from_secs(25)), request));
                Reply::Failure(failure(FailureKind::Unreachable, Sent::Unknown))
            }
        }
    }

    /// Answers a question that changes nothing.
    pub(super) fn read(&mut self, ask: &Ask, name: &str, luck: Luck, now: Timestamp) -> Reply {
        match luck {
            Luck::Good => {}
            Luck::Unsent => return Reply::Failure(failure(FailureKind::Unreachable, Sent::No)),
            _ => return Reply::Failure(failure(FailureKind::Unreachable, Sent::Unknown)),
        }
        match ask {
            Ask::Search { skip } => Reply::Found(self.search(skip, name)),
            Ask::Left(id) => Reply::Found(Found {
                matches: self
                    .all
                    .get_key_value(id)
                    .map(|it| it.0.clone())
                    .into_iter()
                    .collect(),
                is_complete: true,
                ..Found::default()
            }),
            Ask::State(id) | Ask::Adopt(id) => self.state(id, now),
            Ask::Name(id) => match self.all.get(id) {
                Some(it) => Reply::Answer(Answer::Template(it.template.to_string())),
                None => Reply::Failure(failure(FailureKind::NotFound, Sent::Refused)),
            },
            Ask::Outputs(id) => match self.all.get(id) {
                Some(_) => Reply::Answer(Answer::Outputs(outputs())),
                None => Reply::Failure(failure(FailureKind::NotFound, Sent::Refused)),
            },
            Ask::Log(_) => Reply::Answer(Answer::Log("no machine could be reached".to_owned())),
            Ask::AddOwner(_) | Ask::Change(_) => unreachable!("{ask:?}"),
        }
    }

    fn search(&self, skip: &[InfrastructureId], name: &str) -> Found {
        let left = self.all.iter().filter(|(id, _)| !skip.contains(id));
        let mut found = Found {
            is_complete: true,
            ..Found::default()
        };
        for (id, it) in left {
            found.read.push(id.clone());
            if it.template["metadata"]["infra_name"] == name {
                found.matches.push(id.clone());
            }
        }
        found
    }

    fn state(&mut self, id: &InfrastructureId, now: Timestamp) -> Reply {
        let Some(it) = self.all.get_mut(id) else {
            return Reply::Failure(failure(FailureKind::NotFound, Sent::Refused));
        };
        if it.destroyed.is_some_and(|at| now < at) {
            // The record is back, for ever.
            it.destroyed = None;
            it.machines = 0;
            it.state = ImState::Unknown;
            it.moves = Timestamp::MAX;
        }
        let vms = (0..it.machines).map(|number| (number.to_string(), it.state));
        Reply::Answer(Answer::State(Reading {
            state: it.state,
            vms: vms.collect(),
        }))
    }

    fn carry_out(&mut self, request: &Request, now: Timestamp) -> Result<Reply, Failure> {
        self.changed += 1;
        if request.change == Change::Create {
            let id = self.create(request.template.clone(), now);
            return Ok(Reply::Answer(Answer::Created(id)));
        }
        let missing = || failure(FailureKind::NotFound, Sent::Refused);
        let id = request.id.as_ref().ok_or_else(missing)?;
        let it = self.all.get_mut(id).ok_or_else(missing)?;
        if it.destroyed.is_some() {
            return Err(missing());
        }
        match request.change {
            Change::Update | Change::Resend => {
                json_patch::merge(&mut it.template, &request.template);
                it.machines = machines(&it.template);
                it.state = ImState::Running;
            }
            Change::Reconfigure => it.state = ImState::Running,
            Change::Start => it.state = ImState::Running,
            Change::Delete { .. } if it.state == ImState::Pending => {
                return Err(failure(FailureKind::Conflict, Sent::Refused));
            }
            Change::Delete { .. } => it.destroyed = Some(later(now, DESTROYING)),
            Change::Create => unreachable!("it has no id yet"),
        }
        it.moves = later(now, Duration::from_secs(3));
        Ok(Reply::Answer(Answer::Done))
    }

    /// Adds an infrastructure.
    pub(super) fn create(&mut self, template: Value, now: Timestamp) -> InfrastructureId {
        self.count += 1;
        self.created += 1;
        let id = format!("00000000-0000-4000-8000-{:012x}", self.count);
        let id = InfrastructureId::parse(&id).unwrap();
        let infrastructure = Infrastructure {
            machines: machines(&template),
            template,
            state: ImState::Pending,
            moves: later(now, Duration::from_secs(2)),
            destroyed: None,
        };
        self.all.insert(id.clone(), infrastructure);
        id
    }
}

impl Infrastructure {
    fn advance(&mut self, now: Timestamp, random: &mut Random, is_calm: bool) {
        self.state = match self.state {
            ImState::Pending => ImState::Running,
            ImState::Running if is_calm => ImState::Configured,
            ImState::Running => random.one_of(&[
                ImState::Configured,
                ImState::Configured,
                ImState::Unconfigured,
                ImState::Failed,
            ]),
            other => other,
        };
        self.moves = later(now, Duration::from_secs(3));
    }

    /// Something happens to it.
    pub(super) fn harm(&mut self, state: ImState) {
        if self.destroyed.is_none() {
            self.state = state;
            self.moves = Timestamp::MAX;
        }
    }
}

/// How many nodes of the template have machines.
pub(super) fn machines(template: &Value) -> usize {
    let nodes = &template["topology_template"]["node_templates"];
    let nodes = nodes.as_object().into_iter().flatten();
    let has_machine = |node: &Value| !node.to_string().contains(":0");
    nodes.filter(|(_, node)| has_machine(node)).count()
}

fn outputs() -> Map<String, Value> {
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [{ "name": "a", "cluster": { "server": "https://192.0.2.1:6443" } }],
        "users": [{ "name": "a", "user": { "token": "not-a-secret" } }],
        "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
    });
    Map::from_iter([("kubeconfig".to_owned(), kubeconfig)])
}

fn failure(kind: FailureKind, sent: Sent) -> Failure {
    Failure {
        kind,
        message: "the answer of the model".to_owned(),
        sent,
    }
}
