//! A search through all states that a machine can reach, breadth first, so that the first history that breaks a rule is a shortest one.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// What is searched.
pub trait Machine: Sync {
    /// All that what comes next may depend on.
    type State: Clone + Send + Sync;

    /// Returns the first state.
    fn first(&self) -> Self::State;

    /// Returns each step that can come next, in words, and the state after it or the rule that it breaks.
    fn next(&self, state: &Self::State) -> Vec<(String, Result<Self::State, Broken>)>;

    /// Returns the step that comes next if nothing fails and nobody asks for anything any more, and the state after it or the rule that
    /// it breaks; none if the state is at rest.
    fn fair(&self, state: &Self::State) -> Option<(String, Result<Self::State, Broken>)>;

    /// Returns the rule that a state at rest breaks, if it breaks one.
    fn check_rest(&self, state: &Self::State) -> Result<(), Broken>;

    /// Returns a hash of the state: equal states go on equally.
    fn fingerprint(&self, state: &Self::State) -> u64;

    /// Returns the same with all that `fair` alone depends on.
    fn fair_fingerprint(&self, state: &Self::State) -> u64;
}

/// A rule that a step breaks.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The rule, as a name.
    pub rule: &'static str,
    /// How it is broken.
    pub why: String,
}

/// A history that breaks a rule.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule, and how it is broken.
    pub broken: Broken,
    /// The steps from the first state.
    pub history: Vec<String>,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// How many states there are.
    pub states: usize,
    /// How many steps lead from one to another.
    pub steps: usize,
    /// How many steps the longest of the shortest ways has.
    pub depth: usize,
    /// How long it took.
    pub time: Duration,
    /// Whether no state is left.
    pub is_complete: bool,
    /// A shortest history that breaks a rule, if there is one.
    pub violation: Option<Violation>,
}

/// Stands before the steps that are made if nothing fails any more.
const CALM: &str = "-- from here on nothing fails";

/// How often it says how far it is.
const SAYS: Duration = Duration::from_secs(10);

/// With how many steps a state comes to rest at most, if nothing fails.
const RESTS_WITHIN: usize = 200;

impl fmt::Display for Violation {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "{}: {}", self.broken.rule, self.broken.why)?;
        for (number, step) in self.history.iter().enumerate() {
            writeln!(to, "{:3}. {step}", number + 1)?;
        }
        Ok(())
    }
}

impl fmt::Display for Found {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.is_complete {
            "complete"
        } else {
            "not complete"
        };
        let violations = usize::from(self.violation.is_some());
        write!(
            to,
            "{} states, {} steps, depth {}, {violations} violations, {end} within the bounds, {:.0} s",
            grouped(self.states),
            grouped(self.steps),
            self.depth,
            self.time.as_secs_f64()
        )
    }
}

/// Returns a number in groups of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// The states that were seen, each with the state before it.
struct Seen(Vec<Mutex<HashMap<u64, u64>>>);

impl Seen {
    fn shard(&self, of: u64) -> &Mutex<HashMap<u64, u64>> {
        &self.0[(of >> 58) as usize % self.0.len()]
    }

    /// Whether a state is new.
    fn is_new(&self, state: u64, before: u64) -> bool {
        let mut shard = self.shard(state).lock().unwrap();
        let is_new = !shard.contains_key(&state);
        shard.entry(state).or_insert(before);
        is_new
    }

    fn before(&self, state: u64) -> u64 {
        self.shard(state).lock().unwrap()[&state]
    }
}

/// A violation, before its history is known: the state before it, and the steps from there.
type Finding = (u64, Broken, Vec<String>);

/// Searches all states that come after these steps, until none is left or a rule is broken. Says on standard error how far it is.
pub fn search<M: Machine>(machine: &M, begin: &[&str]) -> Result<Found, Broken> {
    let (begun, mut said) = (Instant::now(), Duration::ZERO);
    let first = after(machine, begin)?;
    let root = machine.fingerprint(&first);
    let seen = Seen((0..64).map(|_| Mutex::default()).collect());
    let resting = Mutex::new(HashSet::new());
    seen.is_new(root, root);
    let (mut level, mut found) = (
        vec![(root, first.clone())],
        Found {
            states: 1,
            steps: 0,
            depth: 0,
            time: Duration::ZERO,
            is_complete: true,
            violation: None,
        },
    );
    while !level.is_empty() {
        let (next, steps, findings) = expand(machine, &level, &seen, &resting);
        found.steps += steps;
        if let Some((before, broken, rest)) = findings.into_iter().min_by_key(|it| it.2.len()) {
            let mut history = history(machine, &seen, (root, &first), before);
            history.extend(rest);
            found.violation = Some(Violation { broken, history });
            break;
        }
        found.states += next.len();
        level = next;
        found.depth += usize::from(!level.is_empty());
        if begun.elapsed() > said + SAYS {
            said = begun.elapsed();
            eprintln!(
                "  depth {}: {} states, {} of them new",
                found.depth,
                grouped(found.states),
                grouped(level.len())
            );
        }
    }
    found.is_complete = found.violation.is_none();
    found.time = begun.elapsed();
    Ok(found)
}

type Level<S> = Vec<(u64, S)>;

/// Makes all steps from a level, on all processors.
fn expand<M: Machine>(
    machine: &M,
    level: &Level<M::State>,
    seen: &Seen,
    resting: &Mutex<HashSet<u64>>,
) -> (Level<M::State>, usize, Vec<Finding>) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let part = level.len().div_ceil(threads).max(1);
    let work = |part: &[(u64, M::State)]| {
        let (mut next, mut steps, mut findings) = (Vec::new(), 0, Vec::new());
        for (id, state) in part {
            for (step, reached) in machine.next(state) {
                steps += 1;
                match reached {
                    Err(broken) => findings.push((*id, broken, vec![step])),
                    Ok(state) => {
                        let reached = machine.fingerprint(&state);
                        if seen.is_new(reached, *id) {
                            next.push((reached, state));
                        }
                    }
                }
            }
            if let Err((broken, way)) = rests(machine, state, resting) {
                findings.push((*id, broken, way));
            }
        }
        (next, steps, findings)
    };
    thread::scope(|scope| {
        let parts = level
            .chunks(part)
            .map(|part| scope.spawn(move || work(part)));
        let parts: Vec<_> = parts.collect();
        let mut all = (Vec::new(), 0, Vec::new());
        for part in parts {
            let (next, steps, findings) = part.join().unwrap();
            all.0.extend(next);
            all.1 += steps;
            all.2.extend(findings);
        }
        all
    })
}

/// Whether a state comes to rest if nothing fails any more, and is right then. Returns the rule that is broken, and the steps to there.
fn rests<M: Machine>(
    machine: &M,
    state: &M::State,
    resting: &Mutex<HashSet<u64>>,
) -> Result<(), (Broken, Vec<String>)> {
    let (mut state, mut way, mut passed) = (state.clone(), vec![CALM.to_owned()], Vec::new());
    loop {
        let id = machine.fair_fingerprint(&state);
        if resting.lock().unwrap().contains(&id) {
            break;
        }
        passed.push(id);
        let Some((step, next)) = machine.fair(&state) else {
            if let Err(broken) = machine.check_rest(&state) {
                return Err((broken, way));
            }
            break;
        };
        way.push(step);
        match next {
            Ok(next) => state = next,
            Err(broken) => return Err((broken, way)),
        }
        if way.len() > RESTS_WITHIN {
            let why = format!("there is no rest within {RESTS_WITHIN} steps");
            let rule = "it_settles";
            way.truncate(RESTS_WITHIN / 5);
            way.push("and so on".to_owned());
            return Err((Broken { rule, why }, way));
        }
    }
    resting.lock().unwrap().extend(passed);
    Ok(())
}

/// Returns the steps from the first state to this one, by making them again.
fn history<M: Machine>(machine: &M, seen: &Seen, first: (u64, &M::State), end: u64) -> Vec<String> {
    let (root, first) = first;
    let mut ids = vec![end];
    while ids.last() != Some(&root) {
        ids.push(seen.before(ids[ids.len() - 1]));
    }
    let mut state = first.clone();
    let mut history = Vec::new();
    for id in ids.into_iter().rev().skip(1) {
        let mut steps = machine.next(&state).into_iter();
        let step = steps.find_map(|(step, reached)| {
            let reached = reached.ok()?;
            (machine.fingerprint(&reached) == id).then_some((step, reached))
        });
        let (step, reached) = step.unwrap();
        history.push(step);
        state = reached;
    }
    history
}

/// Makes random steps from the first state, and returns the rule that is broken, if one is.
pub fn wander<M: Machine>(machine: &M, seed: u64, steps: usize) -> Option<Violation> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut state, mut history) = (machine.first(), Vec::new());
    for _ in 0..steps {
        let mut all = machine.next(&state);
        if all.is_empty() {
            break;
        }
        let (step, reached) = all.swap_remove(random.usize(..all.len()));
        history.push(step);
        match reached {
            Ok(reached) => state = reached,
            Err(broken) => return Some(Violation { broken, history }),
        }
    }
    let (broken, way) = rests(machine, &state, &Mutex::default()).err()?;
    history.extend(way);
    Some(Violation { broken, history })
}

/// Follows a history, and returns the rule that is broken on its way or after it, if one is.
pub fn follow<M: Machine>(machine: &M, history: &[&str]) -> Option<Broken> {
    let end = match after(machine, history) {
        Ok(state) => rests(machine, &state, &Mutex::default()).map_err(|(broken, _)| broken),
        Err(broken) => Err(broken),
    };
    end.err()
}

/// Returns the state after these steps. One that is not possible any more breaks the rule `the_history_is_possible`: write it anew.
fn after<M: Machine>(machine: &M, history: &[&str]) -> Result<M::State, Broken> {
    let mut state = machine.first();
    for step in history.iter().take_while(|step| **step != CALM) {
        let mut steps = machine.next(&state).into_iter();
        let Some((_, reached)) = steps.find(|(possible, _)| possible == step) else {
            let (rule, why) = ("the_history_is_possible", format!("not possible: {step}"));
            return Err(Broken { rule, why });
        };
        state = reached?;
    }
    Ok(state)
}
