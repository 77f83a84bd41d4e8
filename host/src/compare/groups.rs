//! Collects equal differences of many pods into groups, in memory that grows with the groups and not with the pods.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use podloom_pod_path::ChangeKind;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{Change, Difference, Verdict, Writers};
use crate::explain::and_more;
use crate::output::object;

/// How many reasons of a group are kept.
const REASONS: usize = 3;
/// How many different values of a change are counted.
const VALUES: usize = 100;

/// What is kept, which bounds the memory of groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// How many names of pods of a group.
    pub(crate) names: usize,
    /// Whether a name is kept again. Pods that come from a template may all have the same.
    pub(crate) repeats: bool,
    /// Whether values are kept. Changes to other values are other groups then.
    pub(crate) values: bool,
    /// Whether what plugins say is kept.
    pub(crate) reasons: bool,
    /// How many groups of each verdict are kept. Further differences are only counted.
    pub(crate) groups: usize,
    /// How many changes of a group are kept. Further ones are only counted.
    pub(crate) lines: usize,
    /// How many paths of a change are kept. If there are more, only the general one is.
    pub(crate) paths: usize,
    /// How many namespaces are counted.
    pub(crate) namespaces: usize,
}

impl Kept {
    /// For a command, which ends.
    pub(crate) const OF_A_COMMAND: Self = Self {
        names: 3,
        repeats: true,
        values: false,
        reasons: true,
        groups: 200,
        lines: 100,
        paths: usize::MAX,
        namespaces: usize::MAX,
    };
    /// For the operator, which runs for months, and gets pods of everybody.
    pub(crate) const OF_THE_OPERATOR: Self = Self {
        names: 3,
        repeats: false,
        values: false,
        // They may quote values, and who may forward a port need not be one who may read pods.
        reasons: false,
        groups: 20,
        lines: 20,
        paths: 3,
        namespaces: 1000,
    };
}

/// Pods with the same difference.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Group {
    pub(crate) verdict: Verdict,
    #[serde(flatten)]
    pub(crate) tally: Tally,
    /// The first pods.
    pub(crate) names: Vec<String>,
    /// The plugin that rejects the pods now, or did; the plugins that warn otherwise.
    pub(crate) plugins: Vec<String>,
    /// What the plugin said, each once.
    pub(crate) reasons: Vec<String>,
    /// Whether it said more than that.
    pub(crate) has_more_reasons: bool,
    #[serde(skip)]
    pub(crate) lines: Vec<Line>,
    /// How many lines are not kept.
    #[serde(rename = "moreChanges")]
    pub(crate) more_lines: usize,
}

/// How many pods, in how many namespaces.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Tally {
    pub(crate) pods: u64,
    #[serde(serialize_with = "number")]
    namespaces: BTreeSet<u32>,
}

/// A change of all pods of a group.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) kind: ChangeKind,
    /// Without the names of the pods' own containers.
    general: String,
    /// The paths with these names; none if they are not the same in all pods.
    exact: Option<BTreeSet<String>>,
    pub(crate) writers: Writers,
    pub(crate) parents: usize,
    /// Hashes of the old and new values.
    values: HashSet<u64>,
    /// The old and the new value, if they are kept: the same in all pods.
    pub(crate) kept: Option<(Option<Value>, Option<Value>)>,
}

/// The differences of many pods.
#[derive(Debug)]
pub(crate) struct Groups {
    kept: Kept,
    namespaces: HashMap<String, u32>,
    groups: HashMap<u64, Group>,
    verdicts: HashMap<Verdict, usize>,
    pub(crate) all: Tally,
    /// The pods that come out the same.
    pub(crate) same: Tally,
    /// The pods whose differences have no group, because there are too many groups.
    pub(crate) rest: Tally,
}

fn number<S: Serializer>(all: &BTreeSet<u32>, to: S) -> Result<S::Ok, S::Error> {
    all.len().serialize(to)
}

impl Tally {
    fn add(&mut self, namespace: u32) {
        self.pods += 1;
        self.namespaces.insert(namespace);
    }

    pub(crate) fn namespaces(&self) -> usize {
        self.namespaces.len()
    }
}

impl Line {
    /// The paths to show.
    pub(crate) fn paths(&self) -> Vec<&str> {
        match &self.exact {
            Some(paths) => paths.iter().map(String::as_str).collect(),
            None => vec![&self.general],
        }
    }

    /// How many different values there are; none if more than can be counted.
    pub(crate) fn values(&self) -> Option<usize> {
        let count = self.values.len();
        (count <= VALUES).then_some(count)
    }
}

impl Groups {
    pub(crate) fn new(kept: Kept) -> Self {
        Self {
            kept,
            namespaces: HashMap::new(),
            groups: HashMap::new(),
            verdicts: HashMap::new(),
            all: Tally::default(),
            same: Tally::default(),
            rest: Tally::default(),
        }
    }

    /// Whether all pods come out the same.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The groups: the worst first, then the largest.
    pub(crate) fn sorted(&self) -> Vec<&Group> {
        let mut groups: Vec<&Group> = self.groups.values().collect();
        groups.sort_by(|left, right| {
            let place = |it: &Group| (it.verdict, Reverse(it.tally.pods));
            let by_place = place(left).cmp(&place(right));
            by_place.then_with(|| left.names.cmp(&right.names))
        });
        groups
    }

    /// Adds a pod, and what is different.
    pub(crate) fn add(&mut self, namespace: &str, name: &str, difference: Option<Difference>) {
        let namespace = self.number(namespace);
        self.all.add(namespace);
        let Some(difference) = difference else {
            return self.same.add(namespace);
        };
        let (kept, verdict, plugins) = (self.kept, difference.verdict, difference.plugins);
        let reason = difference.reason.filter(|_| kept.reasons);
        let lines = lines(difference.changes, kept.values);
        let mut hasher = DefaultHasher::new();
        (verdict, &plugins, kept.values.then_some(&reason)).hash(&mut hasher);
        let key = key(hasher, &lines);
        if !self.groups.contains_key(&key) {
            let count = self.verdicts.entry(verdict).or_default();
            if *count >= kept.groups {
                return self.rest.add(namespace);
            }
            *count += 1;
        }
        let empty = || Group {
            verdict,
            tally: Tally::default(),
            names: Vec::new(),
            plugins,
            reasons: Vec::new(),
            has_more_reasons: false,
            lines: Vec::new(),
            more_lines: 0,
        };
        let group = self.groups.entry(key).or_insert_with(empty);
        group.absorb(lines, kept);
        group.hear(reason);
        group.tally.add(namespace);
        let repeats = !kept.repeats && group.names.iter().any(|known| known == name);
        if group.names.len() < kept.names && !repeats {
            group.names.push(name.to_owned());
        }
    }

    /// The number of a namespace. Those that are too many have one number together.
    fn number(&mut self, namespace: &str) -> u32 {
        if let Some(number) = self.namespaces.get(namespace) {
            return *number;
        }
        let count = self.namespaces.len();
        let number = u32::try_from(count).unwrap_or(u32::MAX);
        if count < self.kept.namespaces {
            self.namespaces.insert(namespace.to_owned(), number);
        }
        number
    }
}

impl Group {
    /// Adds the lines of another pod, which are the same but for the names of containers, and the values.
    fn absorb(&mut self, lines: Vec<Line>, kept: Kept) {
        if self.tally.pods == 0 {
            self.more_lines = lines.len().saturating_sub(kept.lines);
            self.lines = lines;
            self.lines.truncate(kept.lines);
            for line in &mut self.lines {
                line.exact.take_if(|paths| paths.len() > kept.paths);
            }
            return;
        }
        for (mine, other) in self.lines.iter_mut().zip(lines) {
            if mine.exact != other.exact {
                mine.exact = None;
            }
            if mine.values.len() <= VALUES {
                mine.values.extend(other.values);
            }
        }
    }

    fn hear(&mut self, reason: Option<String>) {
        if let Some(reason) = reason.filter(|reason| !self.reasons.contains(reason)) {
            match self.reasons.len() < REASONS {
                true => self.reasons.push(reason),
                false => self.has_more_reasons = true,
            }
        }
    }

    /// `, and 4 more`: the pods that are not named.
    pub(crate) fn more(&self) -> String {
        and_more(self.tally.pods, self.names.len())
    }
}

/// One line for each change. The same change of several containers is one line, unless values are kept.
fn lines(changes: Vec<Change>, keeps_values: bool) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut known: HashMap<(ChangeKind, String, Writers), usize> = HashMap::new();
    for change in changes {
        let value = hash(&(text(&change.old), text(&change.new)));
        let general = match keeps_values {
            true => change.path.clone(),
            false => change.general,
        };
        let key = (change.kind, general.clone(), change.writers.clone());
        let place = known.get(&key).filter(|_| !keeps_values);
        if let Some(line) = place.and_then(|index| lines.get_mut(*index)) {
            line.values.insert(value);
            line.exact.get_or_insert_default().insert(change.path);
            continue;
        }
        known.insert(key, lines.len());
        lines.push(Line {
            kind: change.kind,
            general,
            exact: Some([change.path].into()),
            writers: change.writers,
            parents: change.parents,
            values: [value].into(),
            kept: keeps_values.then_some((change.old, change.new)),
        });
    }
    if !keeps_values {
        // Containers come in any order.
        lines.sort_by(|left, right| {
            let key = |line: &Line| (line.general.clone(), line.kind);
            key(left).cmp(&key(right))
        });
    }
    lines
}

fn text(value: &Option<Value>) -> Option<String> {
    value.as_ref().map(Value::to_string)
}

/// Two groups of a thousand have the same hash once in 10^13 runs.
fn key(mut hasher: DefaultHasher, lines: &[Line]) -> u64 {
    for line in lines {
        (line.kind, &line.general, &line.writers).hash(&mut hasher);
        if let Some((old, new)) = &line.kept {
            (line.parents, text(old), text(new)).hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

// Groups of differences for programs.

/// The pods with one difference, and what it is.
pub(crate) fn group(group: &Group) -> Value {
    let mut fields = json!(group);
    fields["changes"] = group.lines.iter().flat_map(changes).collect();
    fields
}

/// A change of each path.
fn changes(line: &Line) -> impl Iterator<Item = Value> {
    let Writers { chain, plugins } = &line.writers;
    let kept = line.kept.as_ref();
    line.paths().into_iter().map(move |path| {
        object([
            ("operation", Some(operation(line.kind).into())),
            ("path", Some(path.into())),
            ("plugins", Some(json!(plugins))),
            ("pluginsOf", (!plugins.is_empty()).then(|| json!(chain))),
            // The number of different ones up to 100.
            ("values", line.values().map(Value::from)),
            (
                "emptiedParents",
                Some(line.parents).filter(|it| *it > 0).map(Value::from),
            ),
            // Only if values are shown.
            ("old", kept.and_then(|kept| kept.0.clone())),
            ("new", kept.and_then(|kept| kept.1.clone())),
        ])
    })
}

/// One word, for programs.
const fn operation(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "Added",
        ChangeKind::Removed => "Removed",
        ChangeKind::Changed => "Changed",
        ChangeKind::Reordered => "Reordered",
    }
}

#[cfg(test)]
mod tests;
