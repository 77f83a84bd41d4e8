//! Every history of a session within bounds: the operator as it is shipped, against a model of the API server, of nodes, and of people.
//!
//! `cargo xtask model` searches all of them; the tests here search short ones and some random ones. A pass may begin at any time, a cache
//! may show any older state that a watch can show, and each request may fail in each way. The rules are in [`rules`]. What the model
//! leaves out: admission, pods with finalizers, and two operators that both believe to lead for longer than a request is on its way.

mod flaws;
mod machine;
mod rig;
mod rules;

use std::fs;
use std::path::Path;

use podloom_scripted::search::{Found, Violation, follow, search, wander};

use flaws::Flaw;
use machine::{Bounds, Sessions};
pub(crate) use rig::{Hashed, whole};

/// Histories that broke a rule once: a name of each session in the first line, then a step in each.
const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/model/cases");

/// What random histories take until they end by themselves.
const FREE: Bounds = Bounds {
    faults: 8,
    acts: 12,
    ticks: 8,
};

fn sessions(names: &'static [&'static str], bounds: Bounds, flaw: Option<Flaw>) -> Sessions {
    Sessions {
        names,
        bounds,
        flaw,
    }
}

/// What a search from these steps on finds.
fn searched(bounds: (u8, u8, u8), flaw: Option<Flaw>, begin: &[&str]) -> Found {
    let (faults, acts, ticks) = bounds;
    let bounds = Bounds {
        faults,
        acts,
        ticks,
    };
    search(&sessions(&["a"], bounds, flaw), begin).unwrap()
}

/// Keeps a history that breaks a rule as a case, and fails.
fn report(names: &[&str], violation: &Violation) -> ! {
    let name = violation.broken.rule;
    let lines = [names.join(" ")]
        .into_iter()
        .chain(violation.history.clone());
    let text: String = lines.map(|line| line + "\n").collect();
    let path = Path::new(CASES).join(format!("{name}.txt"));
    let kept = fs::write(&path, text).map(|()| path.display().to_string());
    panic!(
        "{violation}kept as {}",
        kept.unwrap_or_else(|error| error.to_string())
    );
}

/// What is searched: up to so many faults, acts and ticks in one history; then so many random histories of two sessions.
struct Extent {
    bounds: (u8, u8, u8),
    random: u64,
}

/// What `cargo xtask model` asks for, or what every test run has time for.
fn extents() -> Vec<Extent> {
    let asked = std::env::var("PODLOOM_MODEL");
    let asked = asked.unwrap_or_else(|_| "1 0 0 0, 0 1 0 10".to_owned());
    let extent = |text: &str| {
        let numbers: Vec<u64> = text
            .split_whitespace()
            .map(|it| it.parse().unwrap())
            .collect();
        let small = |place: usize| u8::try_from(numbers[place]).unwrap();
        Extent {
            bounds: (small(0), small(1), small(2)),
            random: numbers[3],
        }
    };
    asked.split(',').map(extent).collect()
}

#[test]
fn no_history_breaks_a_rule() {
    let rules = rules::OF_WRITES.len() + rules::AT_REST.len() + rules::OF_THE_SEARCH.len();
    for Extent { bounds, random } in extents() {
        let found = searched(bounds, None, &[]);
        eprintln!("browser: {found}, {rules} invariants");
        if let Some(violation) = &found.violation {
            report(&["a"], violation);
        }
        random_histories(random, 60);
        eprintln!("browser: {random} random histories of two sessions, 0 violations");
    }
}

fn random_histories(seeds: u64, steps: usize) {
    let names = &["a", "b"];
    for seed in 0..seeds {
        if let Some(violation) = wander(&sessions(names, FREE, None), seed, steps) {
            report(names, &violation);
        }
    }
}

#[test]
fn what_broke_a_rule_once_breaks_none() {
    for entry in fs::read_dir(CASES).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let mut lines = text.lines();
        let names: &[&str] = match lines.next() {
            Some("a") => &["a"],
            _ => &["a", "b"],
        };
        let history: Vec<&str> = lines.collect();
        let broken = follow(&sessions(names, FREE, None), &history);
        assert!(broken.is_none(), "{}: {broken:?}", path.display());
    }
}

/// If the search were blind, it would not find these.
#[test]
fn each_flaw_is_found() {
    const MARKED: &str =
        "the operator patches browsers a: finalizers [\"browserpod.selenosis.io/finalizer\"]";
    let evicted = [
        MARKED,
        "the operator creates pods a",
        "pod a is scheduled",
        "pod a is evicted",
    ];
    found_by(
        Flaw::ConfirmSkipped,
        (1, 1, 0),
        &[],
        "nothing_is_made_for_what_is_gone",
    );
    found_by(Flaw::ExpectationForgotten, (0, 1, 1), &[], "it_settles");
    found_by(
        Flaw::FinalizerFirst,
        (0, 1, 0),
        &[],
        "the_finalizer_goes_last",
    );
    found_by(
        Flaw::VersionIgnored,
        (1, 1, 0),
        &[],
        "the_finalizer_goes_last",
    );
    found_by(
        Flaw::UidIgnored,
        (1, 2, 0),
        &evicted,
        "only_own_pods_are_deleted",
    );
}

/// Checks that a search with these bounds, from these steps on, finds a flaw by this rule.
fn found_by(flaw: Flaw, bounds: (u8, u8, u8), begin: &[&str], rule: &str) {
    let found = searched(bounds, Some(flaw), begin);
    let violation = found
        .violation
        .unwrap_or_else(|| panic!("{flaw:?} is not found"));
    assert_eq!(violation.broken.rule, rule, "{flaw:?}: {violation}");
}
