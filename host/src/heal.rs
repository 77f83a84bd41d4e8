//! Has pods replaced that missed the chain, or passed one that they should not have passed: it evicts them, and their controllers create
//! others.
//!
//! A look at the cluster finds the workloads with such pods. Some of them are worked on at a time, one pod of each, and the next one only
//! when the new one is ready. All that is known is in the cluster: whoever goes on later reads it again.

mod look;
mod repair;
mod workload;

use std::collections::{HashSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use podloom_webhook::OwnerKind;

pub(crate) use self::look::{Found, look};
pub(crate) use self::repair::repair;
pub(crate) use self::workload::Workload;
use self::workload::{State, namespace};
use crate::drift::{Judge, Need, Pod, Unwanted};
use crate::evict::{Evicted, Target};

/// How long to wait for the next look at a workload that waits, and at one at which it stopped.
const AGAIN: SignedDuration = SignedDuration::from_secs(2);
const STOPPED_AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// When a workload is tried again whose new pod missed the chain too.
const TRY_AGAIN: SignedDuration = SignedDuration::from_mins(10);

/// How pods are replaced.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How many workloads at once.
    pub(crate) owners: usize,
    /// How long a new pod may take to become ready.
    pub(crate) ready_within: SignedDuration,
    /// Whose pods are replaced besides those that missed the chain.
    pub(crate) unwanted: Unwanted,
}

impl Settings {
    /// With the digests of banned chains, and whether pods of all but the present one are replaced.
    pub(crate) fn new(owners: u32, ready_within: Duration, banned: &[String], older: bool) -> Self {
        Self {
            owners: owners as usize,
            ready_within: SignedDuration::try_from(ready_within).unwrap_or(SignedDuration::MAX),
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
}

/// A workload that is worked on.
struct Started {
    workload: Workload,
    /// When it is looked at again.
    next: Timestamp,
    /// Since when it is waited for, or at rest.
    since: Timestamp,
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
    Stopped(Workload, Stop),
    /// Nothing is done about it before the next look at the cluster.
    Left(Workload, String),
}

/// Why the pods of a workload are not replaced any further.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Stop {
    /// It is not whole again in time. Holds what is waited for.
    NotReady(String),
    /// A new pod missed the chain too, or did not pass the present one.
    Again,
}

/// What to do about a workload.
#[derive(Debug, PartialEq)]
enum Next {
    Healed,
    Gone,
    Left(String),
    /// For this, and whether it is a pod that passed the present chain: then it stops if that takes too long.
    Wait(String, IsNew),
    Again,
    /// This pod, of so many.
    Evict(Target, Need, u64),
}

type IsNew = bool;

impl Stop {
    /// A sentence for people.
    pub(crate) fn note(&self) -> String {
        match self {
            Self::NotReady(what) => format!(
                "its pods are replaced so that they pass the chain; that stopped here, since it is not whole again in time: {what}"
            ),
            Self::Again => "its pods are replaced so that they pass the chain; that stopped here, since the last new pod did not pass it either: see whether the webhook answers".to_owned(),
        }
    }
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
        }
    }

    /// Goes on with what a later look has found. What was started stays so.
    pub(crate) fn go_on(&mut self, found: Found) {
        self.judge = found.judge;
        let started = self.started.iter().map(|it| it.workload.id());
        let started: HashSet<_> = started.collect();
        let new = found.workloads.into_iter();
        self.queue = new.filter(|it| !started.contains(&it.id())).collect();
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

    /// The place in the queue of the workload that may be started now. Each namespace in which it stopped holds the place of one, and
    /// nothing else is started there: if the chain breaks pods, it breaks few.
    fn first(&self) -> Option<usize> {
        let stopped = self.started.iter().filter(|it| it.stop.is_some());
        let stopped: HashSet<&str> = stopped.map(|it| it.workload.namespace.as_str()).collect();
        let working = self.started.len() - self.stopped();
        if working + stopped.len() >= self.settings.owners {
            return None;
        }
        let mut queue = self.queue.iter();
        queue.position(|it| !stopped.contains(it.namespace.as_str()))
    }

    /// Looks at each workload that is due, and does what is to be done.
    pub(crate) async fn step(&mut self, now: Timestamp) -> Vec<Report> {
        while let Some(workload) = self.first().and_then(|index| self.queue.remove(index)) {
            self.started.push(Started::new(workload, now));
        }
        let mut reports = Vec::new();
        let mut working = self.started.len() - self.stopped();
        for mut started in mem::take(&mut self.started) {
            if started.next > now {
                self.started.push(started);
                continue;
            }
            let next = match self.next(&mut started, now).await {
                // It got better, and waits until there is room.
                Ok(Next::Evict(..))
                    if started.stop.is_some() && working >= self.settings.owners =>
                {
                    Next::Wait("there is no room yet".to_owned(), false)
                }
                Ok(next) => next,
                Err(error) => Next::Wait(error, false),
            };
            let (was_stopped, patience) = (started.stop.is_some(), self.settings.ready_within);
            let goes_on = started.act(&self.client, next, (now, patience), &mut reports);
            if goes_on.await {
                working += usize::from(was_stopped && started.stop.is_none());
                self.started.push(started);
            }
        }
        reports
    }

    /// What to do about a workload; an error says why that could not be read.
    async fn next(&mut self, started: &mut Started, now: Timestamp) -> Result<Next, String> {
        let need = |pod: &Pod<'_>| self.judge.need(pod, &self.settings.unwanted);
        let workload = &started.workload;
        let pods = match workload.read(&self.client, &self.others, need).await? {
            State::Gone => return Ok(Next::Gone),
            State::Left(why) => return Ok(Next::Left(why.to_owned())),
            State::Live(pods) => pods,
        };
        if started.stop == Some(Stop::Again) && now.duration_since(started.since) > TRY_AGAIN {
            started.before = None;
        }
        let next = pods.next(started.before);
        if !matches!(next, Next::Evict(..)) {
            return Ok(next);
        }
        let of = &workload.namespace;
        let Some(about) = namespace(&self.client, of).await? else {
            return Ok(Next::Gone);
        };
        if about.is_left {
            return Ok(Next::Left("its namespace says so".to_owned()));
        }
        let labels = about.metadata.labels.clone();
        if self.judge.namespaces.get(of).labels == labels {
            return Ok(next);
        }
        // With these, its pods may need nothing any more.
        self.judge.namespaces.insert(of.clone(), about.metadata);
        Ok(Next::Wait("its namespace was changed".to_owned(), false))
    }
}

impl Started {
    fn new(workload: Workload, now: Timestamp) -> Self {
        Self {
            workload,
            next: now,
            since: now,
            before: None,
            stop: None,
        }
    }

    /// Does what is to be done. Returns whether the workload is still worked on.
    async fn act(
        &mut self,
        client: &Client,
        next: Next,
        (now, patience): (Timestamp, SignedDuration),
        reports: &mut Vec<Report>,
    ) -> bool {
        self.next = now + AGAIN;
        let workload = || self.workload.clone();
        let (why, is_new) = match next {
            Next::Gone => return false,
            Next::Healed => {
                reports.push(Report::Healed(workload()));
                return false;
            }
            Next::Left(why) => {
                reports.push(Report::Left(workload(), why));
                return false;
            }
            Next::Again => {
                self.rest(Stop::Again, now, reports);
                return true;
            }
            Next::Wait(why, is_new) => (why, is_new || self.before.is_some()),
            Next::Evict(target, need, of) => {
                self.stop = None;
                match target.evict(client).await {
                    Evicted::Done => {
                        (self.before, self.since) = (Some(of), now);
                        reports.push(Report::Evicted(target, need));
                        return true;
                    }
                    // All its pods are ready, so nothing is broken.
                    Evicted::Refused(why) | Evicted::Failed(why) => (why, false),
                }
            }
        };
        match now.duration_since(self.since) > patience {
            _ if self.stop.is_some() => self.next = now + STOPPED_AGAIN,
            true if is_new => self.rest(Stop::NotReady(why), now, reports),
            true => {
                reports.push(Report::Left(workload(), why));
                return false;
            }
            false => {}
        }
        true
    }

    fn rest(&mut self, stop: Stop, now: Timestamp, reports: &mut Vec<Report>) {
        self.next = now + STOPPED_AGAIN;
        if self.stop.as_ref() != Some(&stop) {
            self.since = now;
            reports.push(Report::Stopped(self.workload.clone(), stop.clone()));
        }
        self.stop = Some(stop);
    }
}
