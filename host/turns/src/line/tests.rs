use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::ProptestConfig;
use proptest::proptest;

use super::{Asked, LATEST, Line};
use crate::Limits;

/// A machine on which turns take a fixed time for each tenant, at a time that the test moves.
struct Machine {
    line: Line<u8, u8, u64>,
    begun: Instant,
    now: u64,
    running: Vec<Running>,
    asked: u64,
    /// When each asked, in milliseconds.
    came: HashMap<u64, u64>,
    /// How long each waited, by tenant.
    waits: BTreeMap<(u8, u8), Vec<u64>>,
}

struct Running {
    key: (u8, u8),
    began: u64,
    end: u64,
}

const LIMITS: Limits = Limits {
    turns: 5,
    kept: 1,
    waiting: 64,
};

/// How long a turn of a tenant takes: tenant 0 is the heavy one.
fn length(key: (u8, u8)) -> u64 {
    if key.1 == 0 { 200 } else { 1 }
}

impl Machine {
    fn new(limits: Limits) -> Self {
        Self {
            line: Line::new(limits),
            begun: Instant::now(),
            now: 0,
            running: Vec::new(),
            asked: 0,
            came: HashMap::new(),
            waits: BTreeMap::new(),
        }
    }

    fn at(&self, milliseconds: u64) -> Instant {
        self.begun + Duration::from_millis(milliseconds)
    }

    fn ask(&mut self, key: (u8, u8)) -> Asked {
        self.asked += 1;
        self.came.insert(self.asked, self.now);
        let asked = self.line.ask(&key, self.asked, self.at(self.now));
        if asked == Asked::Granted {
            self.run(key, self.asked);
        }
        self.pass_on();
        asked
    }

    fn pass_on(&mut self) {
        while let Some((key, who)) = self.line.next() {
            self.run(key, who);
        }
    }

    fn run(&mut self, key: (u8, u8), who: u64) {
        let waited = self.now - self.came[&who];
        self.waits.entry(key).or_default().push(waited);
        self.running.push(Running {
            key,
            began: self.now,
            end: self.now + length(key),
        });
    }

    /// A millisecond passes.
    fn tick(&mut self) {
        self.now += 1;
        while let Some(at) = self.running.iter().position(|it| it.end <= self.now) {
            let Running { key, began, .. } = self.running.swap_remove(at);
            let spent = Duration::from_millis(self.now - began);
            self.line.end(&key, spent, self.at(self.now));
        }
        self.pass_on();
    }

    fn holds(&self, key: (u8, u8)) -> usize {
        self.running.iter().filter(|it| it.key == key).count()
    }

    fn longest_wait(&self, key: (u8, u8)) -> u64 {
        self.waits[&key].iter().max().copied().unwrap_or_default()
    }

    fn turns(&self, key: (u8, u8)) -> usize {
        self.waits.get(&key).map_or(0, Vec::len)
    }
}

#[test]
fn a_tenant_leaves_as_many_turns_free_as_it_has_and_one_for_another_group() {
    let mut machine = Machine::new(LIMITS);
    for _ in 0..10 {
        machine.ask((1, 0));
    }
    assert_eq!(machine.holds((1, 0)), 2);
    for (key, taken) in [
        ((1, 1), 1),
        ((1, 2), 1),
        ((1, 3), 0),
        ((2, 0), 1),
        ((2, 0), 1),
    ] {
        machine.ask(key);
        assert_eq!(machine.holds(key), taken, "{key:?}");
    }
}

/// Whatever tenants a group has, or invents.
#[test]
fn a_group_leaves_as_many_turns_free_as_it_has_while_another_is_there() {
    let limits = Limits {
        turns: 8,
        kept: 0,
        waiting: 64,
    };
    for (is_another_there, taken) in [(true, 4), (false, 8)] {
        let mut machine = Machine::new(limits);
        if is_another_there {
            machine.ask((1, 0));
        }
        for tenant in 1..20 {
            machine.ask((10, tenant));
        }
        let of_group = machine.running.iter().filter(|it| it.key.0 == 10);
        assert_eq!(of_group.count(), taken, "{is_another_there}");
        if is_another_there {
            machine.ask((1, 1));
            assert_eq!(machine.holds((1, 1)), 1);
        }
    }
}

/// Forty threads with heavy pods, as in the report of which this queue is the answer.
#[test]
fn those_with_short_turns_hardly_wait_for_one_with_long_ones() {
    let mut machine = Machine::new(LIMITS);
    for _ in 0..40 {
        machine.ask((1, 0));
    }
    for step in 0..2000 {
        if step % 5 == 0 {
            machine.ask((1, 1));
        }
        machine.tick();
    }
    assert!(machine.longest_wait((1, 1)) <= 1, "{:?}", machine.waits);
    assert!(machine.turns((1, 0)) >= 15, "nor is the heavy one kept out");
}

#[test]
fn invented_tenants_gain_nothing_against_another_group() {
    let mut machine = Machine::new(LIMITS);
    for step in 0..3000_u64 {
        // A group of a hundred tenants, each of which always waits, with long turns.
        if step % 10 == 0 {
            machine.ask((10, 0));
            for tenant in 1..=100_u8 {
                machine.ask((10, tenant));
            }
        }
        if step % 20 == 0 {
            machine.ask((1, 1));
        }
        machine.tick();
    }
    assert!(machine.turns((1, 1)) >= 150, "{}", machine.turns((1, 1)));
    assert!(
        machine.longest_wait((1, 1)) <= 2,
        "{:?}",
        machine.waits[&(1, 1)]
    );
}

/// Two that both want more than there is: each gets about as much time, though one asks twenty times as often.
#[test]
fn two_that_want_everything_get_as_much_time() {
    let limits = Limits {
        turns: 1,
        kept: 0,
        waiting: 64,
    };
    let mut machine = Machine::new(limits);
    for _ in 0..20_000 {
        for key in [(1, 0), (1, 1)] {
            while machine
                .line
                .tenants
                .get(&key)
                .is_none_or(|it| it.of.waiting < 8)
            {
                machine.ask(key);
            }
        }
        machine.tick();
    }
    let [heavy, light] = [(1, 0), (1, 1)].map(|key| machine.turns(key) as f64 * length(key) as f64);
    assert!((0.5..2.0).contains(&(heavy / light)), "{heavy} {light}");
}

#[test]
fn of_too_many_the_newest_of_the_longest_line_leaves() {
    let limits = Limits {
        turns: 1,
        kept: 0,
        waiting: 4,
    };
    let mut line = Line::new(limits);
    let now = Instant::now();
    assert_eq!(line.ask(&(1, 1), 0, now), Asked::Granted);
    for who in [1, 2] {
        assert!(matches!(line.ask(&(1, 1), who, now), Asked::Waits(_)));
    }
    assert_eq!(
        line.ask(&(1, 1), 3, now),
        Asked::Refused,
        "half of all for one"
    );
    assert!(matches!(line.ask(&(1, 2), 4, now), Asked::Waits(_)));
    assert!(matches!(line.ask(&(1, 2), 5, now), Asked::Waits(_)));
    assert!(
        matches!(line.ask(&(2, 1), 6, now), Asked::Waits(_)),
        "instead of one of (1, _)"
    );
    assert!(
        matches!(line.ask(&(1, 3), 7, now), Asked::Waits(_)),
        "instead of another one"
    );
    assert_eq!(
        line.ask(&(1, 4), 8, now),
        Asked::Refused,
        "no line is longer"
    );
    line.end(&(1, 1), Duration::ZERO, now);
    let mut served = Vec::new();
    while let Some((key, who)) = line.next() {
        line.end(&key, Duration::ZERO, now);
        served.push(who);
    }
    served.sort_unstable();
    assert_eq!(served, [1, 4, 6, 7]);
}

#[test]
fn one_who_leaves_makes_room_and_those_without_debts_are_forgotten() {
    let mut line = Line::new(Limits {
        turns: 1,
        kept: 0,
        waiting: 2,
    });
    let now = Instant::now();
    line.ask(&(1, 1), 0, now);
    let Asked::Waits(number) = line.ask(&(1, 2), 1, now) else {
        panic!("it waits");
    };
    line.leave(&(1, 2), number);
    line.leave(&(1, 2), number);
    assert_eq!(line.all.waiting, 0);
    line.end(&(1, 1), Duration::from_secs(100), now);
    assert!(line.next().is_none());
    line.forget_at = 0;
    line.forget(now + LATEST / 2);
    assert_eq!(line.tenants.len(), 1, "it owes");
    line.forget_at = 0;
    line.forget(now + LATEST);
    assert_eq!((line.tenants.len(), line.groups.len()), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Whatever everybody does, each that waits is served, soon after all that came until then and owed nothing; and a tenant has no
    /// more turns than it may.
    #[test]
    fn nobody_starves(
        turns in 1_usize..6,
        kept in 0_usize..2,
        asks in vec((0_u8..4, 0_u8..4, 0_u64..40), 1..120),
    ) {
        let limits = Limits { turns, kept: kept.min(turns - 1), waiting: 1000 };
        let mut machine = Machine::new(limits);
        for (group, tenant, pause) in asks {
            machine.ask((group, tenant));
            for _ in 0..pause {
                machine.tick();
                assert!(machine.running.len() <= turns);
                if machine.running.is_empty() {
                    assert_eq!(machine.line.all.waiting, 0, "a turn is free");
                }
            }
            for key in machine.running.iter().map(|it| it.key) {
                assert!(machine.holds(key) <= turns.div_ceil(2));
            }
        }
        // Others come without end, and with new names.
        for step in 0..30_000_u64 {
            if machine.line.all.waiting == 0 {
                break;
            }
            if step % 4 == 0 && machine.line.all.waiting < 100 {
                machine.ask((9, u8::try_from(step % 200 + 10).unwrap_or_default()));
            }
            machine.tick();
            let oldest = machine.line.tenants.values().filter_map(|it| it.line.front());
            let oldest = oldest.map(|it| machine.came[&it.who]).min();
            assert!(oldest.is_none_or(|came| machine.now - came < 25_000));
        }
    }
}
