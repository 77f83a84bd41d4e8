//! Findings as reports of the field's own kinds, which dashboards of others read: one for each namespace, and one for the cluster.
//!
//! A process knows only what it found itself, so it merges that into the report: what others found stays, until somebody knows better or
//! its time is over. So a report survives restarts, and no replica has to ask another.

mod document;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};
use podloom_engine::clock::Clock;
use podloom_mutation::{MutatedPod, PluginOutcome, PodRejection, RejectedPod};
use podloom_turns::lock;
use serde_json::Value;

pub(crate) use self::document::{Kinds, document, merged};
use crate::compare::{Difference, Verdict};
use crate::output::short;

/// How many findings about pods that pass are remembered, in all, and of one policy in one namespace.
const NOTES: usize = 10_000;
const NOTES_OF_ONE: usize = 100;
/// How many of another policy are kept of one namespace: one more than a report has room for.
const ALL_OF_ONE: usize = document::RESULTS + 1;
/// How long a text may be, in bytes.
const MESSAGE: usize = 512;
const NAME: usize = 253;
/// How long a denial is shown after the last one: a controller that is denied tries again within 17 minutes.
const DENIAL: SignedDuration = SignedDuration::from_mins(30);
/// The same for what a candidate would do: its pods may be made seldom.
const CANDIDATE: SignedDuration = SignedDuration::from_hours(24);
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

/// What was found of something at a time.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Note {
    at: Timestamp,
    /// None if it is no longer so.
    message: Option<String>,
    /// The digest of the candidate that it is about.
    candidate: Option<String>,
}

/// What one process found. Under the name of no namespace is what concerns the cluster.
pub(crate) struct Notes {
    clock: Clock,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    /// By namespace.
    notes: BTreeMap<String, BTreeMap<Key, Note>>,
    /// Where something is to be written.
    changed: BTreeSet<String>,
    /// Of these, this process knows all findings there are.
    whole: BTreeSet<Policy>,
}

/// What one process knows of a namespace.
pub(crate) struct Known {
    notes: BTreeMap<Key, Note>,
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

    /// Whether something that was found at this time, about this candidate, is over. Nothing was found in the future.
    fn is_over(&self, key: &Key, at: Timestamp, candidate: Option<&str>) -> bool {
        let age = self.now.duration_since(at);
        let is_of_another = self.candidate.is_some() && self.candidate.as_deref() != candidate;
        age < -RENEWAL
            || match key.policy {
                Policy::Denial => age > DENIAL,
                Policy::Candidate => age > CANDIDATE || is_of_another,
                Policy::Chain | Policy::Rollout | Policy::Drift => false,
            }
    }

    fn is_note_over(&self, key: &Key, note: &Note) -> bool {
        self.is_over(key, note.at, note.candidate.as_deref())
    }
}

impl Notes {
    /// Nothing was found yet.
    pub(crate) fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            noted: Mutex::default(),
        }
    }

    /// Notes what the chain made of a pod that is to be created.
    pub(crate) fn passed(
        &self,
        (namespace, owner): (&str, &str),
        result: &Result<MutatedPod, RejectedPod>,
    ) {
        let about = subject(owner);
        let Err(rejected) = result else {
            return self.no_longer(namespace, Policy::Denial, about);
        };
        // That time was over, or that there is no chain, is not about this pod.
        if let PodRejection::Denied(_) | PodRejection::Broken(_) = rejected.rejection
            && let Some(run) = rejected.runs.last()
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
        let new = self.of_now(Some(message), candidate);
        let mut noted = lock(&self.noted);
        let known = noted.notes.get(namespace).and_then(|it| it.get(&key));
        let is_known = known.is_some();
        if known.is_some_and(|known| {
            let same = known.message.is_some() && known.candidate == new.candidate;
            same && new.at.duration_since(known.at) < RENEWAL
        }) {
            return;
        }
        if !is_known && !noted.has_room(namespace, key.policy) {
            noted.forget_old(&self.known_of(BTreeMap::new()));
            if !noted.has_room(namespace, key.policy) {
                return;
            }
        }
        let here = noted.notes.entry(namespace.to_owned()).or_default();
        here.insert(key, new);
        noted.changed.insert(namespace.to_owned());
    }

    /// Notes that nothing of a policy holds any longer for an owner.
    fn no_longer(&self, namespace: &str, policy: Policy, (kind, name): (&str, &str)) {
        let gone = self.of_now(None, None);
        let mut noted = lock(&self.noted);
        let Some(here) = noted.notes.get_mut(namespace) else {
            return;
        };
        let mut is_news = false;
        for (key, note) in here.iter_mut() {
            let is_it = (key.policy, &*key.kind, &*key.name) == (policy, kind, name);
            if is_it && note.message.is_some() {
                *note = gone.clone();
                is_news = true;
            }
        }
        if is_news {
            noted.changed.insert(namespace.to_owned());
        }
    }

    /// Notes all findings of a policy that there are, by namespace.
    pub(crate) fn all_of(&self, policy: Policy, all: Vec<(String, Key, String)>) {
        let mut new: BTreeMap<String, BTreeMap<Key, Note>> = BTreeMap::new();
        for (namespace, key, message) in all {
            new.entry(namespace)
                .or_default()
                .insert(key, self.of_now(Some(&message), None));
        }
        let mut noted = lock(&self.noted);
        noted.whole.insert(policy);
        let before = noted.notes.keys().cloned();
        let namespaces: BTreeSet<String> = before.chain(new.keys().cloned()).collect();
        for namespace in namespaces {
            let mut new = new.remove(&namespace).unwrap_or_default();
            while new.len() > ALL_OF_ONE {
                new.pop_last();
            }
            let here = noted.notes.entry(namespace.clone()).or_default();
            let old: BTreeMap<Key, Note> =
                here.extract_if(.., |key, _| key.policy == policy).collect();
            let said = |notes: &BTreeMap<Key, Note>| -> Vec<(Key, Option<String>)> {
                let said = notes.iter().filter(|(_, note)| note.message.is_some());
                said.map(|(key, note)| (key.clone(), note.message.clone()))
                    .collect()
            };
            let is_news = said(&old) != said(&new);
            here.extend(new);
            if here.is_empty() {
                noted.notes.remove(&namespace);
            }
            if is_news {
                noted.changed.insert(namespace);
            }
        }
    }

    /// This process no longer knows all of these: another one leads.
    pub(crate) fn forget(&self, policies: &[Policy]) {
        let mut noted = lock(&self.noted);
        for here in noted.notes.values_mut() {
            here.retain(|key, _| !policies.contains(&key.policy));
        }
        noted.whole.retain(|it| !policies.contains(it));
    }

    /// What is known of a namespace.
    pub(crate) fn known(&self, namespace: &str) -> Known {
        let noted = lock(&self.noted);
        let notes = noted.notes.get(namespace).cloned().unwrap_or_default();
        Known {
            whole: noted.whole.clone(),
            ..self.known_of(notes)
        }
    }

    fn known_of(&self, notes: BTreeMap<Key, Note>) -> Known {
        Known {
            notes,
            whole: BTreeSet::new(),
            candidate: None,
            now: self.clock.now(),
        }
    }

    /// The report of a namespace is to be written.
    pub(crate) fn write(&self, namespace: &str) {
        lock(&self.noted).changed.insert(namespace.to_owned());
    }

    /// Where something is to be written, which is taken as written.
    pub(crate) fn take_changed(&self) -> BTreeSet<String> {
        take(&mut lock(&self.noted).changed)
    }

    /// All namespaces with findings.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        lock(&self.noted).notes.keys().cloned().collect()
    }

    /// This was written: what is no longer so need not be known any more.
    pub(crate) fn written(&self, namespace: &str, known: &Known) {
        let mut noted = lock(&self.noted);
        let Some(here) = noted.notes.get_mut(namespace) else {
            return;
        };
        here.retain(|key, note| {
            let is_written = known.notes.get(key) == Some(note);
            !is_written || (note.message.is_some() && !known.is_note_over(key, note))
        });
        if here.is_empty() {
            noted.notes.remove(namespace);
        }
    }

    /// The namespace is gone.
    pub(crate) fn is_gone(&self, namespace: &str) {
        lock(&self.noted).notes.remove(namespace);
    }

    fn of_now(&self, message: Option<&str>, candidate: Option<&str>) -> Note {
        Note {
            at: self.clock.now(),
            message: message.map(|it| short(it, MESSAGE, "...").into_owned()),
            candidate: candidate.map(str::to_owned),
        }
    }
}

impl Noted {
    /// Whether another pod can be remembered. What is known as a whole has its own limit.
    fn has_room(&self, namespace: &str, policy: Policy) -> bool {
        let of = |here: &BTreeMap<Key, Note>, policy| {
            here.keys().filter(|it| it.policy == policy).count()
        };
        let here = self.notes.get(namespace);
        let all = self.notes.values();
        let all = all.map(|it| of(it, Policy::Denial) + of(it, Policy::Candidate));
        here.is_none_or(|it| of(it, policy) < NOTES_OF_ONE) && all.sum::<usize>() < NOTES
    }

    /// Forgets what is over, and has it written.
    fn forget_old(&mut self, now: &Known) {
        for (namespace, here) in &mut self.notes {
            let before = here.len();
            here.retain(|key, note| note.message.is_some() && !now.is_note_over(key, note));
            if here.len() < before {
                self.changed.insert(namespace.clone());
            }
        }
    }
}

/// Kind and name of an owner, which is written as `Kind/namespace/name`.
fn subject(owner: &str) -> (&str, &str) {
    let mut parts = owner.splitn(3, '/');
    let (kind, _, name) = (parts.next(), parts.next(), parts.next());
    kind.zip(name).unwrap_or_default()
}

/// The first results of a report that exists: more than any of ours has.
fn results(report: &Value) -> impl Iterator<Item = &Value> {
    let results = report.get("results").and_then(Value::as_array);
    results.into_iter().flatten().take(2 * document::RESULTS)
}

#[cfg(test)]
mod tests;
