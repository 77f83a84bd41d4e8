//! Has pods replaced that missed the chain, or passed one that they should not have passed: it evicts them, and their controllers create
//! others.
//!
//! A look at the cluster finds the workloads with such pods. Some of them are worked on at a time, one pod of each, and the next one only
//! when the new one is ready. Nothing is stored: a later run reads it all again from the cluster.

mod look;
mod repair;
mod workload;

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use podloom_webhook::OwnerKind;

pub(crate) use self::look::{Found, look};
pub(crate) use self::repair::repair;
pub(crate) use self::workload::Workload;
use self::workload::{State, namespace};
use crate::drift::{Judge, Need, Pod, Unwanted};
use crate::evict::{Evicted, Target};

/// How often a workload is looked at that is waited for, and one at which it stopped.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const LOOK_EVERY_STOPPED: Duration = Duration::from_secs(30);
/// How many times as long as a look at a workload takes, the next one waits besides.
const REST: u32 = 10;
/// When a workload is tried again whose new pod missed the chain too, and one that was left alone.
const RETRY_MISSED: Duration = Duration::from_mins(10);
const RETRY_LEFT: Duration = Duration::from_mins(10);

/// How pods are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// How many workloads at once.
    pub(crate) owners: usize,
    /// How long a new pod may take to become ready.
    pub(crate) ready_within: Duration,
    /// Whose pods are replaced besides those that missed the chain.
    pub(crate) unwanted: Unwanted,
}

impl Settings {
    /// With the digests of banned chains, and whether pods of all but the present one are replaced.
    pub(crate) fn new(owners: u32, ready_within: Duration, banned: &[String], older: bool) -> Self {
        Self {
            owners: owners as usize,
            ready_within,
            unwanted: Unwanted {
                banned: banned.to_vec(),
                older,
            },
        }
    }
}

/// Replaces pods, step by step.
pub(crate) struct Healer {
    client: Client,
    settings: Settings,
    /// Kinds besides Kubernetes' own whose controllers create pods.
    others: Arc<Vec<OwnerKind>>,
    judge: Judge,
    queue: VecDeque<Workload>,
    started: Vec<Started>,
    /// Workloads that were left alone, by namespace and UID, and when that was.
    left: HashMap<[String; 2], Instant>,
}

/// A workload that is worked on.
struct Started {
    workload: Workload,
    /// What controls it: a Deployment has several ReplicaSets.
    parent: Option<String>,
    /// When it is looked at again.
    next: Instant,
    /// Since when it is waited for, or at rest.
    since: Instant,
    /// How many of its pods needed it before the last one was evicted; none if none was.
    before: Option<u64>,
    /// Why it is at rest.
    stop: Option<Stop>,
}

/// What has become of a workload, or of one of its pods.
#[derive(Debug)]
pub(crate) enum Report {
    Evicted(Target, Need),
    /// None of its pods needs it any more.
    Healed(Workload),
    /// No further pod of it is evicted, and no other workload of its namespace is started.
    Stopped(Workload, String),
    /// Nothing is done about it for a while.
    Left(Workload, String),
}

/// Why the pods of a workload are not replaced any further.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stop {
    /// It is not whole again in time.
    NotReady,
    /// A new pod missed the chain too, or did not pass the present one.
    MissedAgain,
}

/// What to do about a workload.
#[derive(Debug, PartialEq)]
enum Next {
    Healed,
    Gone,
    Left(String),
    Wait(String, Wait),
    MissedAgain,
    /// This pod, of so many.
    Evict(Target, Need, u64),
}

/// What is waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wait {
    /// A pod that passed the chain.
    NewPod,
    /// A pod that is not there, or not ready.
    Missing,
    /// Something that says nothing about the chain.
    Other,
}

impl Healer {
    pub(crate) fn new(
        client: Client,
        settings: Settings,
        others: Arc<Vec<OwnerKind>>,
        found: Found,
    ) -> Self {
        Self {
            client,
            settings,
            others,
            judge: found.judge,
            queue: found.workloads.into(),
            started: Vec::new(),
            left: HashMap::new(),
        }
    }

    /// Goes on with what a later look has found. What was started stays so. Those that were left alone come last, and not at once.
    pub(crate) fn go_on(&mut self, found: Found) {
        let digest = |judge: &Judge| judge.expected.as_ref().map(|it| it.digest.clone());
        if digest(&self.judge) != digest(&found.judge) {
            // Other pods need it now, so their number says nothing.
            for started in &mut self.started {
                started.before = None;
                started.stop = None;
            }
        }
        self.judge = found.judge;
        let ids: HashSet<_> = found.workloads.iter().map(Workload::id).collect();
        self.left
            .retain(|id, _| ids.contains(&id.each_ref().map(String::as_str)));
        let started: HashSet<_> = self.started.iter().map(|it| it.workload.id()).collect();
        let is_waiting = |it: &Workload| {
            let left = self.left.get(&it.id().map(str::to_owned));
            left.is_none_or(|at| at.elapsed() > RETRY_LEFT) && !started.contains(&it.id())
        };
        let mut new: Vec<_> = found
            .workloads
            .iter()
            .filter(|it| is_waiting(it))
            .cloned()
            .collect();
        new.sort_by_key(|it| self.left.contains_key(&it.id().map(str::to_owned)));
        self.queue = new.into();
    }

    /// At how many workloads it stopped.
    pub(crate) fn stopped(&self) -> usize {
        let started = self.started.iter();
        started.filter(|it| it.stop.is_some()).count()
    }

    /// Whether there is nothing to do until somebody acts.
    pub(crate) fn is_over(&self) -> bool {
        self.started.len() == self.stopped() && self.first().is_none()
    }

    /// How many workloads are not started.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The place in the queue of the workload that may be started now. Nothing is started in a namespace in which it stopped. Where that
    /// was after an eviction, the namespace also holds the place of one: if the chain breaks pods, it breaks few.
    fn first(&self) -> Option<usize> {
        let stopped = || self.started.iter().filter(|it| it.stop.is_some());
        let namespace = |it: &Started| it.workload.namespace.clone();
        let closed: HashSet<_> = stopped().map(namespace).collect();
        let ours = stopped().filter(|it| it.before.is_some());
        let held: HashSet<_> = ours.map(namespace).collect();
        let working = self.started.len() - self.stopped();
        if working + held.len() >= self.settings.owners {
            return None;
        }
        let busy: HashSet<_> = self.started.iter().map(namespace).collect();
        // A further one of a namespace only if no other namespace waits.
        let is_free = |it: &Workload| !busy.contains(&it.namespace);
        let may_start = |it: &Workload| !closed.contains(&it.namespace);
        let free = self.queue.iter().position(is_free);
        free.or_else(|| self.queue.iter().position(may_start))
    }

    /// Looks at each workload that is due, and does what is to be done.
    pub(crate) async fn step(&mut self) -> Vec<Report> {
        while let Some(workload) = self.first().and_then(|index| self.queue.remove(index)) {
            self.started.push(Started::new(workload));
        }
        let mut reports = Vec::new();
        let mut working = self.started.len() - self.stopped();
        let mut parents: HashMap<_, _> = self.started.iter().filter_map(Started::parent).collect();
        for mut started in mem::take(&mut self.started) {
            if started.next > Instant::now() {
                self.started.push(started);
                continue;
            }
            let began = Instant::now();
            let next = self.next(&mut started).await;
            // Many large pods take long to read, so they are read less often.
            let rest = began.elapsed() * REST;
            let next = next.unwrap_or_else(|error| Next::Wait(error, Wait::Other));
            let uid = &started.workload.owner.uid;
            let same = started.parent.as_ref().and_then(|it| parents.get(it));
            let next = match next {
                // It got better, and waits until there is room.
                Next::Evict(..) if started.stop.is_some() && working >= self.settings.owners => {
                    Next::Wait("there is no room yet".to_owned(), Wait::Other)
                }
                Next::Evict(..) if same.is_some_and(|it| it != uid) => {
                    let why = "another ReplicaSet of its Deployment is worked on";
                    Next::Wait(why.to_owned(), Wait::Other)
                }
                next => next,
            };
            let was_stopped = started.stop.is_some();
            let (client, patience) = (&self.client, self.settings.ready_within);
            if started.act(client, next, patience, &mut reports).await {
                working += usize::from(was_stopped && started.stop.is_none());
                parents.extend(started.parent());
                started.next += rest;
                self.started.push(started);
            }
        }
        self.note_left(&mut reports);
        reports
    }

    /// Remembers what was left alone. It is said only once.
    fn note_left(&mut self, reports: &mut Vec<Report>) {
        reports.retain(|report| match report {
            Report::Left(workload, _) => {
                let id = workload.id().map(str::to_owned);
                self.left.insert(id, Instant::now()).is_none()
            }
            _ => true,
        });
    }

    /// What to do about a workload; an error says why that could not be read.
    async fn next(&mut self, started: &mut Started) -> Result<Next, String> {
        let of = started.workload.namespace.clone();
        let Some(about) = namespace(&self.client, &of).await? else {
            return Ok(Next::Gone);
        };
        if about.is_left {
            return Ok(Next::Left("its namespace says so".to_owned()));
        }
        // With other labels, its pods may need nothing any more.
        self.judge.namespaces.insert(of, about.metadata);
        let need = |pod: &Pod<'_>| self.judge.need(pod, &self.settings.unwanted);
        let workload = &started.workload;
        let pods = match workload.read(&self.client, &self.others, need).await? {
            State::Gone => return Ok(Next::Gone),
            State::Left(why) => return Ok(Next::Left(why.to_owned())),
            State::Live(pods) => pods,
        };
        started.parent.clone_from(&pods.parent);
        if started.stop == Some(Stop::MissedAgain) && started.since.elapsed() > RETRY_MISSED {
            started.before = None;
        }
        Ok(pods.next(started.before))
    }
}

impl Started {
    fn new(workload: Workload) -> Self {
        let now = Instant::now();
        Self {
            workload,
            parent: None,
            next: now,
            since: now,
            before: None,
            stop: None,
        }
    }

    /// What controls it, if a pod of it was evicted, and its own UID.
    fn parent(&self) -> Option<(String, String)> {
        let parent = self.parent.clone().filter(|_| self.before.is_some())?;
        Some((parent, self.workload.owner.uid.clone()))
    }

    /// Does what is to be done. Returns whether the workload is still worked on.
    async fn act(
        &mut self,
        client: &Client,
        next: Next,
        patience: Duration,
        reports: &mut Vec<Report>,
    ) -> bool {
        self.next = Instant::now() + LOOK_EVERY;
        let workload = self.workload.clone();
        let (why, may_stop) = match next {
            Next::Gone => return false,
            Next::Healed => {
                reports.push(Report::Healed(workload));
                return false;
            }
            Next::Left(why) => {
                reports.push(Report::Left(workload, why));
                return false;
            }
            Next::MissedAgain => {
                let note = "its pods are replaced so that they pass the chain; that stopped here, since the last new pod did not pass it either: see whether the webhook answers";
                self.rest(Stop::MissedAgain, note.to_owned(), reports);
                return true;
            }
            Next::Wait(why, Wait::NewPod) => (why, true),
            Next::Wait(why, Wait::Missing) => (why, self.before.is_some()),
            Next::Wait(why, Wait::Other) => (why, false),
            Next::Evict(target, need, of) => match self.evict(client, &target, of).await {
                None => {
                    reports.push(Report::Evicted(target, need));
                    return true;
                }
                // All its pods are ready, so nothing is broken.
                Some(why) => (why, false),
            },
        };
        if self.stop.is_some() {
            self.next = Instant::now() + LOOK_EVERY_STOPPED;
        } else if self.since.elapsed() > patience && may_stop {
            let note = match self.before {
                Some(_) => format!(
                    "its pods are replaced so that they pass the chain; that stopped here, since it is not whole again in time: {why}"
                ),
                None => format!(
                    "its pods should be replaced so that they pass the chain, and are not, since it is not whole: {why}"
                ),
            };
            self.rest(Stop::NotReady, note, reports);
        } else if self.since.elapsed() > patience {
            reports.push(Report::Left(workload, why));
            return false;
        }
        true
    }

    /// Evicts a pod, of so many that need it. Returns why it could not.
    async fn evict(&mut self, client: &Client, target: &Target, of: u64) -> Option<String> {
        // A further try may miss the chain again, and until then nothing else is started here.
        if self.stop != Some(Stop::MissedAgain) || self.before.is_some() {
            self.stop = None;
        }
        match target.evict(client).await {
            Evicted::Done => {
                (self.before, self.since) = (Some(of), Instant::now());
                None
            }
            // Perhaps it was done. Then their number is less.
            Evicted::Unanswered(why) => {
                (self.before, self.since) = (Some(of + 1), Instant::now());
                Some(why)
            }
            Evicted::Refused(why) | Evicted::Failed(why) => Some(why),
        }
    }

    fn rest(&mut self, stop: Stop, note: String, reports: &mut Vec<Report>) {
        self.next = Instant::now() + LOOK_EVERY_STOPPED;
        if self.stop != Some(stop) {
            reports.push(Report::Stopped(self.workload.clone(), note));
        }
        // A further try counts from now, too.
        self.since = Instant::now();
        self.stop = Some(stop);
    }
}
