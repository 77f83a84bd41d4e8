//! What the tests of a duty run: searches, random histories, and histories that broke a rule once.

use std::fs;
use std::path::Path;

use crate::Duty;
use crate::histories::{Bounds, Histories};
use crate::search::{Found, Violation, follow, search, wander};

/// What random histories take until they end by themselves.
const FREE: Bounds = Bounds {
    faults: 8,
    acts: 12,
    ticks: 8,
};
/// How many steps a random history has.
const STEPS: usize = 60;

/// The model of a duty: its name, where its cases are, and what there is with these objects.
pub struct Model<D> {
    /// The name of the duty.
    pub name: &'static str,
    /// The directory of histories that broke a rule once: the names of the objects in the first line, then a step in each.
    pub cases: &'static str,
    /// One object, and two.
    pub objects: [&'static [&'static str]; 2],
    /// Makes the duty with objects of these names.
    pub duty: fn(&'static [&'static str]) -> D,
}

/// What is searched: up to so many faults, acts and ticks in one history; then so many random histories of two objects.
struct Extent {
    bounds: Bounds,
    random: u64,
}

/// Reads extents: four numbers for each, separated by commas.
fn extents(text: &str) -> Vec<Extent> {
    let extent = |text: &str| {
        let numbers: Vec<u64> = text
            .split_whitespace()
            .map(|it| it.parse().unwrap())
            .collect();
        let small = |place: usize| u8::try_from(numbers[place]).unwrap();
        Extent {
            bounds: Bounds {
                faults: small(0),
                acts: small(1),
                ticks: small(2),
            },
            random: numbers[3],
        }
    };
    text.split(',').map(extent).collect()
}

impl<D: Duty> Model<D>
where
    D::Tools: 'static,
{
    /// Searches what `cargo xtask model` asks for, or what every test run has time for.
    ///
    /// # Panics
    ///
    /// If a history breaks a rule: it is kept as a case.
    pub fn no_history_breaks_a_rule(&self, quick: &str) {
        let asked = std::env::var("PODLOOM_MODEL").unwrap_or_else(|_| quick.to_owned());
        // Besides its own rules, the search checks two.
        let rules = D::RULES.len() + D::REST_RULES.len() + 2;
        let [one, two] = self.objects;
        let name = self.name;
        for Extent { bounds, random } in extents(&asked) {
            let found = search(&Histories::within(bounds, (self.duty)(one)), &[]).unwrap();
            eprintln!("{name}: {found}, {rules} invariants");
            if let Some(violation) = &found.violation {
                self.report(one, violation);
            }
            for seed in 0..random {
                let histories = Histories::within(FREE, (self.duty)(two));
                if let Some(violation) = wander(&histories, seed, STEPS) {
                    self.report(two, &violation);
                }
            }
            eprintln!("{name}: {random} random histories of two objects, 0 violations");
        }
    }

    /// Keeps a history that breaks a rule as a case, and fails.
    fn report(&self, names: &[&str], violation: &Violation) -> ! {
        let name = violation.broken.rule;
        let lines = [names.join(" ")]
            .into_iter()
            .chain(violation.history.clone());
        let text: String = lines.map(|line| line + "\n").collect();
        let path = Path::new(self.cases).join(format!("{name}.txt"));
        let kept = fs::create_dir_all(self.cases).and_then(|()| fs::write(&path, text));
        let kept = kept.map_or_else(|error| error.to_string(), |()| path.display().to_string());
        panic!("{violation}kept as {kept}");
    }

    /// Follows all cases.
    ///
    /// # Panics
    ///
    /// If one breaks a rule again, or is not possible any more.
    pub fn what_broke_a_rule_once_breaks_none(&self) {
        for entry in fs::read_dir(self.cases).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let mut lines = text.lines();
            let [one, two] = self.objects;
            let is_one = lines.next() == Some(one[0]);
            let names = if is_one { one } else { two };
            let history: Vec<&str> = lines.collect();
            let broken = follow(&Histories::within(FREE, (self.duty)(names)), &history);
            assert!(broken.is_none(), "{}: {broken:?}", path.display());
        }
    }
}

/// What a search from these steps on finds, with up to so many faults, acts and ticks.
///
/// # Panics
///
/// If the steps are not possible.
pub fn searched<D: Duty>(duty: D, bounds: (u8, u8, u8), begin: &[&str]) -> Found
where
    D::Tools: 'static,
{
    let (faults, acts, ticks) = bounds;
    let bounds = Bounds {
        faults,
        acts,
        ticks,
    };
    search(&Histories::within(bounds, duty), begin).unwrap()
}

/// Checks that a search with these bounds, from these steps on, finds that this duty breaks this rule.
///
/// # Panics
///
/// If it finds nothing, or another rule.
pub fn finds<D: Duty>(duty: D, bounds: (u8, u8, u8), begin: &[&str], rule: &str)
where
    D::Tools: 'static,
{
    let found = searched(duty, bounds, begin);
    let violation = found
        .violation
        .unwrap_or_else(|| panic!("{rule} is not broken"));
    assert_eq!(violation.broken.rule, rule, "{violation}");
}
