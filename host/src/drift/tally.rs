//! Counts pods by what owns them. Memory grows with the owners of pods without a stamp or with changes, not with the pods.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use jiff::Timestamp;

use super::changed::Change;
use super::findings::{ChainPods, Counts, Findings, Row};
use super::judge::{Passed, Unclear, Unstamped, Verdict};
use super::pod::{Owner, Pod};

/// How many pods of an owner are named.
const NAMES: usize = 3;
/// How many changes of an owner's pods are listed.
const CHANGES: usize = 20;
/// How many chains are listed: anyone may write a stamp.
const CHAINS: usize = 100;

/// The pods that were read so far.
pub(super) struct Tally {
    /// The digest of the chain that pods should have passed.
    expected: Option<String>,
    /// By the UIDs of what controls the pods directly.
    owners: HashMap<String, Owned>,
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
    unstamped: BTreeMap<Unstamped, Named>,
    /// When the newest pod without a stamp was created.
    newest: Option<Timestamp>,
    changed: Named,
    changes: BTreeSet<Change>,
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
    fn add(&mut self, name: &str) {
        self.pods += 1;
        if self.names.len() < NAMES {
            self.names.push(name.to_owned());
        }
    }
}

impl Tally {
    pub(super) fn new(expected: Option<String>) -> Self {
        Self {
            expected,
            owners: HashMap::new(),
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
                    let owned = self.owned(pod);
                    owned.changed.add(pod.name());
                    owned.changes.extend(passed.changes);
                    owned.cut();
                }
            }
            Verdict::Unstamped(why) => {
                let owned = self.owned(pod);
                owned.newest = owned.newest.max(pod.created());
                owned.is_of_tunnel |= pod.is_of_tunnel();
                owned.unstamped.entry(why).or_default().add(pod.name());
            }
        }
    }

    /// The UIDs of owners of this kind.
    pub(super) fn owners(&self, group: &str, kind: &str) -> HashSet<String> {
        let owners = self.owners.values().map(|it| &it.owner);
        let owners = owners.filter(|it| it.is(group, kind));
        owners.map(|it| it.uid.clone()).collect()
    }

    /// The UIDs of Deployments with pods that have no stamp.
    pub(super) fn deployments(&self) -> HashSet<String> {
        let owned = self.owners.values();
        let owned =
            owned.filter(|it| !it.unstamped.is_empty() && it.owner.is("apps", "Deployment"));
        owned.map(|it| it.owner.uid.clone()).collect()
    }

    /// The object with this UID, which controls pods, has a controller itself.
    pub(super) fn resolve(&mut self, uid: &str, owner: Owner) {
        if let Some(owned) = self.owners.get_mut(uid) {
            owned.owner = owner;
        }
    }

    /// Owners of this kind may not be read, so neither their owners nor their stamps are known.
    pub(super) fn unread(&mut self, group: &str, kind: &str) {
        for owned in self.owners.values_mut() {
            owned.is_unresolved |= owned.owner.is(group, kind);
        }
    }

    /// What was found. These Deployments, by UID, have a stamp for their pods.
    pub(super) fn finish(mut self, stamped: &HashMap<String, Passed>) -> Findings {
        let (mut missed, mut changed) = (Rows::new(), Rows::new());
        for mut owned in std::mem::take(&mut self.owners).into_values() {
            if let Some(passed) = stamped.get(&owned.owner.uid) {
                self.passed_as_template(&mut owned, passed);
            }
            self.add_changed(&mut changed, &owned);
            for (why, pods) in &owned.unstamped {
                self.add_unstamped(&mut missed, &owned, (why, pods));
            }
        }
        let mut chains: Vec<ChainPods> = self.chains.into_values().collect();
        chains.sort_by(|a, b| (b.newest, &a.digest).cmp(&(a.newest, &b.digest)));
        Findings {
            missed: missed.into_values().collect(),
            changed: changed.into_values().collect(),
            chains,
            ..self.findings
        }
    }

    /// What is known of the owner of a pod.
    fn owned(&mut self, pod: &Pod<'_>) -> &mut Owned {
        let owner = pod.owner();
        let owned = self.owners.entry(owner.uid.clone());
        owned.or_insert_with(|| Owned {
            namespace: pod.namespace().to_owned(),
            owner,
            is_unresolved: false,
            is_of_tunnel: false,
            unstamped: BTreeMap::new(),
            newest: None,
            changed: Named::default(),
            changes: BTreeSet::new(),
        })
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
        for pods in std::mem::take(&mut owned.unstamped).into_values() {
            self.passed(&owned.namespace, passed, pods.pods, owned.newest);
            if !passed.changes.is_empty() {
                owned.changed.pods += pods.pods;
                owned.changed.names.extend(pods.names);
                owned.changes.extend(passed.changes.iter().cloned());
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
        row.has_more_changes |= row.changes.len() > CHANGES;
        while row.changes.len() > CHANGES {
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
            Unstamped::Missed(plugins) => {
                let row = owned.row(rows, some);
                row.plugins.extend(plugins.iter().cloned());
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
    /// Keeps one change more than are listed.
    fn cut(&mut self) {
        while self.changes.len() > CHANGES + 1 {
            self.changes.pop_last();
        }
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
        row.pods += pods.pods;
        row.names.extend(pods.names.iter().cloned());
        row.names.sort();
        row.names.truncate(NAMES);
        row
    }
}
