//! Counts pods by what owns them. Memory grows with the owners of pods without a stamp or with changes, not with the pods.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::ephemeral::Ephemeral;
use super::judge::{Change, LISTED, Owner, Passed, Pod, Unstamped, Verdict, keep_first};
use super::{Reader, Unclear};
use crate::feed::Skipped;

/// How many pods of an owner are named.
const NAMES: usize = 3;
/// How many chains are listed: anyone may write a stamp.
const CHAINS: usize = 100;
/// How many owners are kept, of one namespace and of all. The pods of all others of a namespace are counted together: anyone may write
/// ownerReferences.
const OWNERS_OF_NAMESPACE: usize = 1_000;
const OWNERS: usize = 10_000;
/// How many changes are kept in all.
const CHANGES: usize = 20_000;

/// A namespace, and a UID in it. What another namespace has does not own its pods, whatever their ownerReferences say.
pub(super) type Id = (String, String);

/// The pods that were read so far.
pub(super) struct Tally {
    /// The digest of the chain that pods should have passed.
    expected: Option<String>,
    /// Names and changes are kept for a person.
    reader: Reader,
    /// By the UIDs of what controls the pods directly; empty for the owners that are too many.
    owners: HashMap<Id, Owned>,
    /// How many of them each namespace has.
    kept: HashMap<String, usize>,
    /// How many more changes may be kept.
    room: usize,
    chains: BTreeMap<String, ChainPods>,
    findings: Findings,
}

/// Pods of one owner that have no stamp, or were changed.
struct Owned {
    namespace: String,
    owner: Owner,
    /// Whether its own owner may not be read.
    is_unresolved: bool,
    is_of_tunnel: bool,
    /// Without the names of plugins.
    unstamped: BTreeMap<Unstamped, Named>,
    /// Those that would have run on pods that missed the chain.
    plugins: BTreeSet<String>,
    /// When the newest pod without a stamp was created.
    newest: Option<Timestamp>,
    changed: Named,
    changes: BTreeSet<Change>,
    has_more_changes: bool,
    is_template_changed: bool,
    ephemeral: Named,
    /// What the chain says of the first ones.
    reasons: BTreeSet<String>,
    /// Whether a pod has ephemeral containers.
    is_debugged: bool,
}

/// Pods, and the names of the first ones.
#[derive(Default)]
struct Named {
    pods: u64,
    names: Vec<String>,
}

/// Rows by namespace, kind and name of the owner.
type Rows = BTreeMap<(String, String, String), Row>;

impl Named {
    fn add(&mut self, name: &str, reader: Reader) {
        self.pods += 1;
        if self.names.len() < NAMES && reader != Reader::Operator {
            self.names.push(name.to_owned());
        }
    }
}

impl Tally {
    pub(super) fn new(expected: Option<String>, reader: Reader) -> Self {
        Self {
            expected,
            reader,
            owners: HashMap::new(),
            kept: HashMap::new(),
            room: CHANGES,
            chains: BTreeMap::new(),
            findings: Findings::default(),
        }
    }

    pub(super) fn add(&mut self, pod: &Pod<'_>, verdict: Verdict) {
        if verdict == Verdict::LeftOut {
            self.findings.left_out += 1;
            return;
        }
        self.findings.pods += 1;
        let counts = self.findings.namespaces.entry(pod.namespace().to_owned());
        counts.or_default();
        match verdict {
            Verdict::LeftOut => {}
            Verdict::Passed(passed) => {
                self.passed(pod.namespace(), &passed, 1, pod.created());
                if !passed.changes.is_empty() {
                    self.changed(pod, passed.changes);
                }
            }
            Verdict::Unstamped(why) => self.unstamped(pod, why),
        }
    }

    /// Counts a pod that was too large to be read.
    pub(super) fn add_unread(&mut self) {
        self.findings.pods += 1;
        *self.findings.unclear.entry(Unclear::Size).or_default() += 1;
    }

    /// Counts a pod for its ephemeral containers, beside what else is said of it.
    pub(super) fn add_ephemeral(&mut self, pod: &Pod<'_>, found: Ephemeral) {
        let Ephemeral::Rejected(reason) = found else {
            *self.findings.unclear.entry(Unclear::Ephemeral).or_default() += 1;
            return;
        };
        if self.reader == Reader::Operator {
            self.counts(pod.namespace()).ephemeral += 1;
            return;
        }
        let owned = self.owned(pod);
        owned.ephemeral.add(pod.name(), Reader::Person);
        if owned.reasons.len() < NAMES {
            owned.reasons.insert(reason);
        }
    }

    fn changed(&mut self, pod: &Pod<'_>, changes: BTreeSet<Change>) {
        if self.reader == Reader::Operator {
            self.counts(pod.namespace()).changed += 1;
            return;
        }
        let room = self.room;
        let owned = self.owned(pod);
        owned.changed.add(pod.name(), Reader::Person);
        let before = owned.changes.len();
        match room {
            0 => owned.has_more_changes = true,
            _ => owned.changes.extend(changes),
        }
        owned.cut();
        let added = owned.changes.len().saturating_sub(before);
        self.room = room.saturating_sub(added);
    }

    fn unstamped(&mut self, pod: &Pod<'_>, why: Unstamped) {
        let reader = self.reader;
        let owned = self.owned(pod);
        owned.newest = owned.newest.max(pod.created());
        let why = match why {
            Unstamped::Missed(_) if owned.is_more() && pod.is_of_tunnel() => {
                Unstamped::Unclear(Unclear::Deployment)
            }
            Unstamped::Missed(plugins) => {
                owned.plugins.extend(plugins);
                Unstamped::Missed(Vec::new())
            }
            other => other,
        };
        owned.is_of_tunnel |= !owned.is_more() && pod.is_of_tunnel();
        let unstamped = owned.unstamped.entry(why).or_default();
        unstamped.add(pod.name(), reader);
    }

    /// The owners of this kind.
    pub(super) fn owners(&self, group: &str, kind: &str) -> HashSet<Id> {
        let owners = self.owners.values();
        let owners = owners.filter(|it| it.owner.is(group, kind));
        owners.map(Owned::id).collect()
    }

    /// The Deployments with pods that have no stamp.
    pub(super) fn deployments(&self) -> HashSet<Id> {
        let owned = self.owners.values();
        let owned =
            owned.filter(|it| !it.unstamped.is_empty() && it.owner.is("apps", "Deployment"));
        owned.map(Owned::id).collect()
    }

    /// This object, which controls pods, has a controller itself.
    pub(super) fn resolve(&mut self, object: &Id, owner: Owner) {
        if let Some(owned) = self.owners.get_mut(object) {
            owned.owner = owner;
        }
    }

    /// Owners of this kind may not be read, so neither their owners nor their stamps are known.
    pub(super) fn unread(&mut self, group: &str, kind: &str) {
        for owned in self.owners.values_mut() {
            owned.is_unresolved |= owned.owner.is(group, kind);
        }
    }

    /// What was found. These Deployments have a stamp for their pods.
    pub(super) fn finish(mut self, stamped: &HashMap<Id, Passed>) -> Findings {
        let (mut missed, mut changed, mut ephemeral) = <(Rows, Rows, Rows)>::default();
        for mut owned in mem::take(&mut self.owners).into_values() {
            if let Some(passed) = stamped.get(&owned.id()) {
                self.passed_as_template(&mut owned, passed);
            }
            self.add_changed(&mut changed, &owned);
            if owned.ephemeral.pods > 0 {
                self.counts(&owned.namespace).ephemeral += owned.ephemeral.pods;
                let row = owned.row(&mut ephemeral, &owned.ephemeral);
                row.reasons.append(&mut owned.reasons);
                while row.reasons.len() > NAMES {
                    row.reasons.pop_last();
                }
            }
            for (why, pods) in &owned.unstamped {
                self.add_unstamped(&mut missed, &owned, (why, pods));
            }
        }
        let mut chains: Vec<ChainPods> = self.chains.into_values().collect();
        chains.sort_by(|a, b| (b.newest, &a.digest).cmp(&(a.newest, &b.digest)));
        Findings {
            missed: missed.into_values().collect(),
            changed: changed.into_values().collect(),
            ephemeral: ephemeral.into_values().collect(),
            chains,
            ..self.findings
        }
    }

    /// What is known of the owner of a pod.
    fn owned(&mut self, pod: &Pod<'_>) -> &mut Owned {
        let namespace = pod.namespace();
        let mut owner = pod.owner();
        let mut id = (namespace.to_owned(), owner.uid.clone());
        if !self.owners.contains_key(&id) {
            let kept = self.kept.entry(namespace.to_owned()).or_default();
            if *kept < OWNERS_OF_NAMESPACE && self.owners.len() < OWNERS {
                *kept += 1;
            } else {
                id.1.clear();
                owner = Owner {
                    kind: MORE_OWNERS.to_owned(),
                    ..Owner::default()
                };
            }
        }
        let owned = self.owners.entry(id).or_insert_with(|| Owned {
            namespace: namespace.to_owned(),
            owner,
            is_unresolved: false,
            is_of_tunnel: false,
            unstamped: BTreeMap::new(),
            plugins: BTreeSet::new(),
            newest: None,
            changed: Named::default(),
            changes: BTreeSet::new(),
            has_more_changes: false,
            is_template_changed: false,
            ephemeral: Named::default(),
            reasons: BTreeSet::new(),
            is_debugged: false,
        });
        owned.is_debugged |= pod.has_ephemeral_containers();
        owned
    }

    /// Counts pods that passed a chain.
    fn passed(&mut self, namespace: &str, passed: &Passed, pods: u64, newest: Option<Timestamp>) {
        let is_expected = self.expected.as_ref().map(|it| *it == passed.digest);
        if is_expected == Some(false) {
            self.counts(namespace).older += pods;
        }
        if !passed.is_whole {
            self.findings.not_whole += pods;
        }
        if passed.is_excepted {
            self.findings.excepted += pods;
        }
        if self.chains.len() >= CHAINS && !self.chains.contains_key(&passed.digest) {
            self.findings.other_chains += pods;
            return;
        }
        let chain = self.chains.entry(passed.digest.clone());
        let chain = chain.or_insert_with(|| ChainPods {
            digest: passed.digest.clone(),
            pods: 0,
            newest: None,
            is_expected,
        });
        chain.pods += pods;
        chain.newest = chain.newest.max(newest);
    }

    /// The pods without a stamp passed the chain as the template of their Deployment.
    fn passed_as_template(&mut self, owned: &mut Owned, passed: &Passed) {
        for pods in mem::take(&mut owned.unstamped).into_values() {
            self.passed(&owned.namespace, passed, pods.pods, owned.newest);
            if !passed.changes.is_empty() {
                owned.changed.pods += pods.pods;
                owned.changed.names.extend(pods.names);
                owned.changes.extend(passed.changes.iter().cloned());
                owned.is_template_changed = true;
            }
        }
        owned.cut();
    }

    fn add_changed(&mut self, rows: &mut Rows, owned: &Owned) {
        if owned.changed.pods == 0 {
            return;
        }
        self.counts(&owned.namespace).changed += owned.changed.pods;
        let row = owned.row(rows, &owned.changed);
        row.changes.extend(owned.changes.iter().cloned());
        row.is_template_changed |= owned.is_template_changed;
        row.has_more_changes |= owned.has_more_changes || row.changes.len() > LISTED;
        while row.changes.len() > LISTED {
            row.changes.pop_last();
        }
    }

    fn add_unstamped(&mut self, rows: &mut Rows, owned: &Owned, (why, some): (&Unstamped, &Named)) {
        let findings = &mut self.findings;
        let pods = some.pods;
        match why {
            Unstamped::Missed(_) if owned.is_unresolved && owned.is_of_tunnel => {
                *findings.unclear.entry(Unclear::Deployment).or_default() += pods;
            }
            Unstamped::Missed(_) => {
                let row = owned.row(rows, some);
                row.plugins.extend(owned.plugins.iter().cloned());
                self.counts(&owned.namespace).missed += pods;
            }
            Unstamped::Unclear(unclear) => *findings.unclear.entry(*unclear).or_default() += pods,
            Unstamped::Older => findings.older += pods,
            Unstamped::Unmatched => findings.unmatched += pods,
            Unstamped::NotSelected => findings.not_selected += pods,
        }
    }

    fn counts(&mut self, namespace: &str) -> &mut Counts {
        let counts = self.findings.namespaces.entry(namespace.to_owned());
        counts.or_default()
    }
}

impl Owned {
    fn id(&self) -> Id {
        (self.namespace.clone(), self.owner.uid.clone())
    }

    /// Whether it stands for owners that are not kept.
    fn is_more(&self) -> bool {
        self.owner.uid.is_empty()
    }

    fn cut(&mut self) {
        keep_first(&mut self.changes);
        self.changed.names.truncate(NAMES);
    }

    /// The row of the owner, with these pods.
    fn row<'r>(&self, rows: &'r mut Rows, pods: &Named) -> &'r mut Row {
        let Owner { kind, name, .. } = &self.owner;
        let key = (self.namespace.clone(), kind.clone(), name.clone());
        let row = rows.entry(key).or_insert_with(|| Row {
            namespace: self.namespace.clone(),
            kind: kind.clone(),
            name: name.clone(),
            ..Row::default()
        });
        row.is_debugged |= self.is_debugged;
        row.pods += pods.pods;
        row.names.extend(pods.names.iter().cloned());
        row.names.sort();
        row.names.truncate(NAMES);
        row
    }
}

// What drifted in a cluster.

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// How many pods were looked at.
    pub(crate) pods: u64,
    /// Why it is not known which of them missed the chain; none if it is known.
    pub(crate) unjudged: Option<&'static str>,
    /// Whether it is known which plugins match.
    pub(crate) knows_chain: bool,
    /// What could not be read.
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) namespaces: BTreeMap<String, Counts>,
    /// By namespace and owner.
    pub(crate) missed: Vec<Row>,
    /// By namespace and owner.
    pub(crate) changed: Vec<Row>,
    /// Pods with ephemeral containers that the chain would deny or change, by namespace and owner.
    pub(crate) ephemeral: Vec<Row>,
    /// The chains that pods passed, the newest pod first.
    pub(crate) chains: Vec<ChainPods>,
    /// How many pods passed chains that are not listed, since there are too many.
    pub(crate) other_chains: u64,
    /// Pods of which it is not known whether they missed the chain.
    pub(crate) unclear: BTreeMap<Unclear, u64>,
    /// Pods without a stamp that are older than the webhook configuration.
    pub(crate) older: u64,
    /// Pods without a stamp on which no plugin would run.
    pub(crate) unmatched: u64,
    /// Pods without a stamp that the webhook does not select.
    pub(crate) not_selected: u64,
    /// Pods that have ended, are being deleted, or mirror files of nodes. They are not among the others.
    pub(crate) left_out: u64,
    /// Pods that passed because of a ChainException.
    pub(crate) excepted: u64,
    /// Pods whose stamps do not list all paths.
    pub(crate) not_whole: u64,
}

/// The pods of a namespace.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(crate) struct Counts {
    pub(crate) missed: u64,
    pub(crate) changed: u64,
    /// Of another chain than the expected one; 0 if that is not known.
    pub(crate) older: u64,
    /// With ephemeral containers that the chain would deny or change.
    pub(crate) ephemeral: u64,
}

impl Counts {
    /// More is worse.
    pub(crate) fn rank(&self) -> impl Ord + use<> {
        let drifted = self.missed.saturating_add(self.changed);
        (drifted.saturating_add(self.ephemeral), self.older)
    }
}

/// Stands for the kind of those owners that are not listed, since there are too many.
pub(crate) const MORE_OWNERS: &str = "more owners";

/// The pods of an owner.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) namespace: String,
    /// `Pod` for a pod without owner, or [`MORE_OWNERS`].
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) pods: u64,
    /// Of the first pods.
    pub(crate) names: Vec<String>,
    /// Of missed pods, if the chain is known: those that would have run.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) plugins: BTreeSet<String>,
    /// Of changed pods: the first changes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) changes: BTreeSet<Change>,
    #[serde(skip)]
    pub(crate) has_more_changes: bool,
    /// Of pods with ephemeral containers: what the chain says of the first ones.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) reasons: BTreeSet<String>,
    /// Whether a pod has ephemeral containers.
    #[serde(skip)]
    pub(crate) is_debugged: bool,
    /// Whether the template that the owner makes pods of was changed.
    #[serde(skip)]
    pub(crate) is_template_changed: bool,
}

/// The pods that passed a chain.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct ChainPods {
    pub(crate) digest: String,
    pub(crate) pods: u64,
    /// When the newest of them was created.
    #[serde(serialize_with = "text")]
    pub(crate) newest: Option<Timestamp>,
    /// Whether it is the expected chain; none if that is not known.
    #[serde(rename = "isThatOfPlugins")]
    pub(crate) is_expected: Option<bool>,
}

fn text<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.to_string()).serialize(to)
}

impl Findings {
    pub(crate) fn has_drifted(&self) -> bool {
        [&self.missed, &self.changed, &self.ephemeral]
            .iter()
            .any(|rows| !rows.is_empty())
    }
}
