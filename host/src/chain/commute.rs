//! Which plugins of a chain commute, and what shows that others do not.
//!
//! That two plugins commute follows from what they may do, see [`Chain::order_dependence`]. The others are tried in both orders.

use std::fmt::Write;
use std::sync::Arc;

use podloom_mutation::{MutatedPod, PluginOutcome, PodRequest, RejectedPod, runs};
use podloom_mutators::Chain;
use podloom_pod_path::{ChangeKind, compare};
use podloom_syntax::text;
use serde_json::Value;

use crate::error::shown;
use crate::explain::count;
use crate::output::{QUIET, TITLE, paint};
use crate::stamp;

/// How many paths of a difference are shown.
const PATHS: usize = 3;
/// Longer reasons are cut.
const REASON: usize = 200;

/// What is known of each two plugins of a chain.
pub(super) struct Orders<'c> {
    chain: &'c Chain,
    /// Each plugin as a chain of its own.
    alone: Vec<Chain>,
    pairs: Vec<Pair>,
}

struct Pair {
    one: usize,
    other: usize,
    /// None if the two commute.
    dependence: Option<String>,
    /// On how many pods both ran, as long as no difference was seen.
    pods: usize,
    /// The size of the smallest pod with a difference, and what is different.
    seen: Option<(usize, String)>,
}

/// What a plugin does if it is the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alone {
    /// It is not called.
    Skipped,
    /// It leaves the pod as it is.
    Quiet,
    Acts,
}

impl<'c> Orders<'c> {
    pub(super) fn new(chain: &'c Chain) -> Self {
        let count = chain.plugins().len();
        let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other)));
        let pairs = pairs.map(|(one, other)| Pair {
            one,
            other,
            dependence: chain.order_dependence(one, other),
            pods: 0,
            seen: None,
        });
        Self {
            chain,
            alone: (0..count).map(|number| chain.select(&[number])).collect(),
            pairs: pairs.collect(),
        }
    }

    /// Tries those that may depend on their order in both orders on a pod.
    pub(super) fn try_pod(&mut self, name: &str, pod: &Value, request: &Arc<PodRequest>) {
        if self.pairs.iter().all(|pair| pair.dependence.is_none()) {
            return;
        }
        let bytes = pod.to_string().len();
        let run = |chain: &Chain| chain.mutate(pod.clone(), Arc::clone(request));
        let alone: Vec<Alone> = self.alone.iter().map(|chain| acts(&run(chain))).collect();
        for pair in &mut self.pairs {
            let is_smaller = pair.seen.as_ref().is_none_or(|(least, _)| bytes < *least);
            if pair.dependence.is_none() || !is_smaller {
                continue;
            }
            let both = [pair.one, pair.other].map(|number| alone.get(number).copied());
            // What neither of them changes is the same in both orders.
            if !both.contains(&Some(Alone::Acts)) {
                pair.pods += usize::from(!both.contains(&Some(Alone::Skipped)));
                continue;
            }
            let orders = [[pair.one, pair.other], [pair.other, pair.one]];
            let [as_is, swapped] = orders.map(|order| run(&self.chain.select(&order)));
            match difference(&as_is, &swapped) {
                Some(how) => pair.seen = Some((bytes, format!("{}: {how}", shown(name)))),
                None => pair.pods += usize::from(both_ran(&as_is) || both_ran(&swapped)),
            }
        }
    }

    /// The differences that were seen, each with the line of the later plugin.
    pub(super) fn differences(&self) -> Vec<(u64, String)> {
        let plugin = |number: usize| self.chain.plugins().get(number);
        let seen = self.pairs.iter().filter_map(|pair| {
            let (_, how) = pair.seen.as_ref()?;
            let (one, other) = (plugin(pair.one)?, plugin(pair.other)?);
            let names = format!("{}, {}", one.name, other.name);
            Some((other.line, format!("order of {names} matters: {how}")))
        });
        seen.collect()
    }

    /// Says of each two plugins whether their order matters, what needs attention first; empty for a chain of one.
    pub(super) fn describe(&self) -> String {
        let name = |number: usize| self.chain.plugins().get(number).map_or("", |it| &it.name);
        let mut rows: Vec<(u8, String, String)> = Vec::new();
        for pair in &self.pairs {
            let (rank, said) = pair.said();
            rows.push((
                rank,
                format!("{}, {}", name(pair.one), name(pair.other)),
                said,
            ));
        }
        // Stable, so that pairs stay in the order of the chain.
        rows.sort_by_key(|(rank, ..)| *rank);
        let width = rows
            .iter()
            .map(|(_, names, _)| names.len())
            .max()
            .unwrap_or(0);
        let mut text = String::new();
        if !rows.is_empty() {
            let _infallible = writeln!(text, "{}", paint(TITLE, "order of the plugins"));
        }
        for (_, names, said) in rows {
            let _infallible = writeln!(text, "   {names:<width$}   {said}");
        }
        text
    }
}

impl Pair {
    fn said(&self) -> (u8, String) {
        match (&self.seen, &self.dependence) {
            (Some((_, how)), _) => (0, format!("matters: {how}")),
            (None, Some(dependence)) if self.pods == 0 => (
                1,
                format!("not known, since no pod was passed to both: {dependence}"),
            ),
            (None, Some(dependence)) => {
                let pods = count(self.pods, "pod");
                (
                    1,
                    format!("no difference seen on {pods}, but not proven: {dependence}"),
                )
            }
            (None, None) => {
                let why = "does not matter: neither may write what the other may read";
                (2, paint(QUIET, why))
            }
        }
    }
}

fn acts(result: &Result<MutatedPod, RejectedPod>) -> Alone {
    let outcome = |mutation: &MutatedPod| mutation.runs.first().map(|run| run.outcome.clone());
    match result.as_ref().ok().and_then(outcome) {
        Some(PluginOutcome::Skipped(_)) => Alone::Skipped,
        Some(
            PluginOutcome::Unchanged | PluginOutcome::Excepted { .. } | PluginOutcome::Ignored(_),
        ) => Alone::Quiet,
        _ => Alone::Acts,
    }
}

fn both_ran(result: &Result<MutatedPod, RejectedPod>) -> bool {
    let runs = runs(result);
    let mut called = runs.iter();
    runs.len() == 2 && called.all(|run| !matches!(run.outcome, PluginOutcome::Skipped(_)))
}

/// What the second order makes different; none if both give the same bytes, stamps aside, or if both reject the pod.
fn difference(
    as_is: &Result<MutatedPod, RejectedPod>,
    swapped: &Result<MutatedPod, RejectedPod>,
) -> Option<String> {
    match (as_is, swapped) {
        (Err(_), Err(_)) => None,
        (Ok(_), Err(rejected)) => Some(format!(
            "only the other order rejects it: {}",
            cut(rejected)
        )),
        (Err(rejected), Ok(_)) => Some(format!("only this order rejects it: {}", cut(rejected))),
        (Ok(as_is), Ok(swapped)) => {
            let [as_is, swapped] = [as_is, swapped].map(|mutation| stamp::without(&mutation.pod));
            let [first, second] = [&as_is, &swapped].map(Value::to_string);
            (first != second).then(|| changes(&as_is, &swapped))
        }
    }
}

fn cut(rejected: &RejectedPod) -> String {
    text::cut(&shown(&rejected.to_string()), REASON, "...").into_owned()
}

/// The first paths that the other order changes.
fn changes(as_is: &Value, swapped: &Value) -> String {
    let changes = compare(as_is, swapped, &|_| true);
    let text = text::joined(&changes, PATHS, ", ", |change| {
        let sign = match change.kind {
            ChangeKind::Added => "+",
            ChangeKind::Removed => "-",
            ChangeKind::Changed => "~",
            ChangeKind::Reordered => "another order in",
        };
        format!("{sign} {}", shown(&change.path))
    });
    format!("the other order makes {text}")
}
