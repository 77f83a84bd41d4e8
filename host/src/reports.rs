//! Findings as reports of the field's own kinds, which dashboards of others read: one for each namespace, and one for the cluster.
//!
//! A process knows only what it found itself, so it merges that into the report: what others found stays, until somebody knows better or
//! its time is over. So a report survives restarts, and no replica has to ask another.

mod document;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};
use podloom_mutation::{MutatedPod, PluginOutcome, RejectedPod};
use podloom_turns::lock;
use serde_json::Value;

pub(crate) use self::document::{Kinds, MANAGED_BY, document, merged};
use crate::compare::{Difference, Verdict};
use crate::output::short;

/// How many findings a process remembers, of all namespaces and of one.
const FINDINGS: usize = 10_000;
const FINDINGS_OF_ONE: usize = 200;
/// How long a text may be, in bytes.
const MESSAGE: usize = 512;
const NAME: usize = 253;
/// How long a denial is shown after the last one: a controller that is denied tries again within 17 minutes.
const DENIAL: SignedDuration = SignedDuration::from_mins(30);
/// How old a finding is at least when it is written again.
const RENEWAL: SignedDuration = SignedDuration::from_mins(10);

/// What a finding belongs to; the most important first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Policy {
    /// The state of the chain.
    Chain,
    /// The rollout of a candidate.
    Rollout,
    /// Pods that the chain rejects.
    Denial,
    /// Pods that missed the chain, or were changed after it.
    Drift,
    /// Pods that the candidate would reject.
    Candidate,
}

/// Which finding it is; there is one of each.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Key {
    pub(crate) policy: Policy,
    /// The plugin, or what is wrong.
    pub(crate) rule: String,
    /// Kind and name of what it is about; both empty for the namespace or the cluster itself.
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn of(policy: Policy, rule: &str, (kind, name): (&str, &str)) -> Self {
        let [rule, kind, name] = [rule, kind, name].map(|it| short(it, NAME, "...").into_owned());
        Self {
            policy,
            rule,
            kind,
            name,
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Finding {
    message: String,
    at: Timestamp,
    /// The digest of the candidate that it is about.
    candidate: Option<String>,
}

/// What one process found. Under the name of no namespace is what concerns the cluster.
#[derive(Default)]
pub(crate) struct Findings(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    /// None for what is no longer so, until that is written.
    found: BTreeMap<String, BTreeMap<Key, Option<Finding>>>,
    /// Where something is to be written.
    changed: BTreeSet<String>,
    /// Of these, this process knows all findings there are.
    whole: BTreeSet<Policy>,
}

/// What one process knows of a namespace.
pub(crate) struct Known {
    found: BTreeMap<Key, Option<Finding>>,
    /// Of these, it knows all findings there are.
    whole: BTreeSet<Policy>,
    /// The digest of the candidate, empty if there is none. What was said about another one no longer holds; with none, everything does.
    pub(crate) candidate: Option<String>,
    now: Timestamp,
}

impl Known {
    /// Whether it is the leader that knows this.
    fn leads(&self) -> bool {
        self.whole.contains(&Policy::Chain)
    }

    /// Whether something that was found at this time, about this candidate, is over.
    fn is_over(&self, key: &Key, at: Timestamp, candidate: Option<&str>) -> bool {
        match key.policy {
            Policy::Denial => self.now.duration_since(at) > DENIAL,
            Policy::Candidate => self.candidate.is_some() && self.candidate.as_deref() != candidate,
            _ => false,
        }
    }

    /// What this process found, and what it knows to be no longer so.
    fn found(&self) -> impl Iterator<Item = (&Key, Option<&Finding>)> {
        let found = self.found.iter();
        found.map(|(key, finding)| {
            let holds = |it: &&Finding| !self.is_over(key, it.at, it.candidate.as_deref());
            (key, finding.as_ref().filter(holds))
        })
    }
}

impl Findings {
    /// Notes what the chain made of a pod that is to be created.
    pub(crate) fn passed(
        &self,
        (namespace, owner): (&str, &str),
        result: &Result<MutatedPod, RejectedPod>,
    ) {
        let about = subject(owner);
        let rejected = match result {
            Ok(_) => return self.no_longer(namespace, Policy::Denial, about),
            Err(rejected) => rejected,
        };
        // That time was over, or that there is no chain, is not about this pod.
        if let Some(run) = rejected.runs.last()
            && let PluginOutcome::Denied(_) | PluginOutcome::Failed(_) = run.outcome
        {
            let key = Key::of(Policy::Denial, &run.plugin, about);
            self.note(namespace, key, &rejected.to_string(), None);
        }
    }

    /// Notes what a candidate would have made of a pod.
    pub(crate) fn compared(
        &self,
        (namespace, owner): (&str, &str),
        candidate: &str,
        difference: Option<&Difference>,
    ) {
        let about = subject(owner);
        let rejects = difference.and_then(|it| match it.verdict {
            Verdict::DeniedNow => Some(("denies", it)),
            Verdict::FailsNow => Some(("fails for", it)),
            _ => None,
        });
        let Some((what, difference)) = rejects else {
            return self.no_longer(namespace, Policy::Candidate, about);
        };
        let plugin = difference.plugins.first().map_or("", String::as_str);
        // Without the reason: nobody was told it yet, and it may quote the pod.
        let message = format!(
            "plugin {plugin} of the candidate {what} a pod that the chain accepts; podloom chain diff says why"
        );
        let key = Key::of(Policy::Candidate, plugin, about);
        self.note(namespace, key, &message, Some(candidate));
    }

    /// Notes a finding. One that is known is written again only after a while, whatever it says: pods can come without end.
    fn note(&self, namespace: &str, key: Key, message: &str, candidate: Option<&str>) {
        let finding = finding(message, candidate);
        let mut noted = lock(&self.0);
        let here = noted.found.get(namespace);
        let known = here.and_then(|it| it.get(&key));
        if let Some(Some(known)) = known
            && known.candidate == finding.candidate
            && finding.at.duration_since(known.at) < RENEWAL
        {
            return;
        }
        let has_room = here.is_none_or(|it| it.len() < FINDINGS_OF_ONE)
            && noted.found.values().map(BTreeMap::len).sum::<usize>() < FINDINGS;
        if known.is_some() || has_room {
            let here = noted.found.entry(namespace.to_owned()).or_default();
            here.insert(key, Some(finding));
            noted.changed.insert(namespace.to_owned());
        }
    }

    /// Notes that nothing of a policy holds any longer for an owner.
    fn no_longer(&self, namespace: &str, policy: Policy, (kind, name): (&str, &str)) {
        let mut noted = lock(&self.0);
        let Some(here) = noted.found.get_mut(namespace) else {
            return;
        };
        let mut is_news = false;
        for (key, finding) in here.iter_mut() {
            let is_it = (key.policy, &*key.kind, &*key.name) == (policy, kind, name);
            is_news |= is_it && finding.take().is_some();
        }
        if is_news {
            noted.changed.insert(namespace.to_owned());
        }
    }

    /// Notes all findings of a policy that there are, by namespace.
    pub(crate) fn all_of(&self, policy: Policy, all: Vec<(String, Key, String)>) {
        let mut noted = lock(&self.0);
        let Noted {
            found,
            changed,
            whole,
        } = &mut *noted;
        whole.insert(policy);
        let mut before = BTreeSet::new();
        for (namespace, here) in found.iter_mut() {
            let keys = here.iter_mut().filter(|(key, _)| key.policy == policy);
            for (key, finding) in keys {
                if let Some(finding) = finding.take() {
                    before.insert((namespace.clone(), key.clone(), finding.message));
                }
            }
        }
        let all = all.into_iter().map(|(namespace, key, message)| {
            (namespace, key, short(&message, MESSAGE, "...").into_owned())
        });
        let all: BTreeSet<_> = all.take(FINDINGS).collect();
        let news = before.symmetric_difference(&all);
        changed.extend(news.map(|(namespace, ..)| namespace.clone()));
        for (namespace, key, message) in all {
            let here = found.entry(namespace).or_default();
            here.insert(key, Some(finding(&message, None)));
        }
    }

    /// This process no longer knows all of these: another one leads.
    pub(crate) fn forget(&self, policies: &[Policy]) {
        let mut noted = lock(&self.0);
        for here in noted.found.values_mut() {
            here.retain(|key, _| !policies.contains(&key.policy));
        }
        noted.whole.retain(|it| !policies.contains(it));
    }

    /// What is known of a namespace.
    pub(crate) fn known(&self, namespace: &str) -> Known {
        let noted = lock(&self.0);
        Known {
            found: noted.found.get(namespace).cloned().unwrap_or_default(),
            whole: noted.whole.clone(),
            candidate: None,
            now: Timestamp::now(),
        }
    }

    /// The report of a namespace is to be written.
    pub(crate) fn write(&self, namespace: &str) {
        lock(&self.0).changed.insert(namespace.to_owned());
    }

    /// Where something is to be written, which is taken as written.
    pub(crate) fn take_changed(&self) -> BTreeSet<String> {
        std::mem::take(&mut lock(&self.0).changed)
    }

    /// All namespaces with findings.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        lock(&self.0).found.keys().cloned().collect()
    }

    /// This was written: what is no longer so need not be known any more.
    pub(crate) fn written(&self, namespace: &str, known: &Known) {
        let mut noted = lock(&self.0);
        let Some(here) = noted.found.get_mut(namespace) else {
            return;
        };
        for (key, finding) in known.found() {
            if finding.is_none() && here.get(key) == known.found.get(key) {
                here.remove(key);
            }
        }
        if here.is_empty() {
            noted.found.remove(namespace);
        }
    }

    /// The namespace is gone.
    pub(crate) fn is_gone(&self, namespace: &str) {
        lock(&self.0).found.remove(namespace);
    }
}

fn finding(message: &str, candidate: Option<&str>) -> Finding {
    Finding {
        message: short(message, MESSAGE, "...").into_owned(),
        at: Timestamp::now(),
        candidate: candidate.map(str::to_owned),
    }
}

/// Kind and name of an owner, which is written as `Kind/namespace/name`.
fn subject(owner: &str) -> (&str, &str) {
    let mut parts = owner.splitn(3, '/');
    let (kind, _, name) = (parts.next(), parts.next(), parts.next());
    kind.zip(name).unwrap_or_default()
}

/// The results of a report that exists.
pub(crate) fn results(report: &Value) -> &[Value] {
    let results = report.get("results").and_then(Value::as_array);
    results.map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
