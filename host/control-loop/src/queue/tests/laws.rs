//! Compares the queue with a slow and simple model.

use std::collections::{HashMap, HashSet};

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

use super::*;

const IDS: u8 = 6;

#[derive(Clone, Debug)]
enum Op {
    Push(u8, Reason),
    Pop,
    /// Ends the run that started this many runs ago, if that many are running.
    Done(usize, Ended),
    Pass(u16),
}

fn op() -> impl Strategy<Value = Op> {
    let reason = prop_oneof![Just(Reason::Hint), Just(Reason::Resync)];
    let pause = (1_u64..400).prop_map(Duration::from_millis);
    let ended = prop_oneof![
        Just(Ended::Settled),
        pause.clone().prop_map(Ended::After),
        Just(Ended::Failed),
        Just(Ended::Failed),
        proptest::option::of(pause).prop_map(Ended::Busy),
    ];
    prop_oneof![
        4 => (0..IDS, reason).prop_map(|(id, reason)| Op::Push(id, reason)),
        3 => Just(Op::Pop),
        3 => (0_usize..4, ended).prop_map(|(which, ended)| Op::Done(which, ended)),
        2 => (0_u16..300).prop_map(Op::Pass),
    ]
}

/// The model: one line for each id that is not absent.
#[derive(Default)]
struct Model {
    max_retries: Option<u32>,
    lines: Vec<Line>,
    ready: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Line {
    id: u8,
    is: Is,
    failures: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum Is {
    Ready,
    Running,
    RunningDirty,
    /// Until when; after a failure, also since when.
    After(Instant),
    Backoff(Instant, Instant),
    Busy(Instant),
}

impl Line {
    fn due(&self) -> Option<Instant> {
        match self.is {
            Is::After(due) | Is::Backoff(due, _) | Is::Busy(due) => Some(due),
            Is::Ready | Is::Running | Is::RunningDirty => None,
        }
    }
}

impl Model {
    fn line(&mut self, id: u8) -> Option<&mut Line> {
        self.lines.iter_mut().find(|line| line.id == id)
    }

    fn make_ready(&mut self, id: u8) {
        self.line(id).expect("it is there").is = Is::Ready;
        self.ready.push(id);
    }

    /// Moves the line to the end, so that of two ids that are due at the same time the one that started to wait first comes first.
    fn wait(&mut self, id: u8, is: Is) {
        let at = self.lines.iter().position(|line| line.id == id);
        let mut line = self.lines.remove(at.expect("it is there"));
        line.is = is;
        self.lines.push(line);
    }

    fn advance(&mut self, now: Instant) {
        let mut due: Vec<(Instant, u8)> = self
            .lines
            .iter()
            .filter_map(|line| Some((line.due()?, line.id)))
            .filter(|(due, _)| *due <= now)
            .collect();
        due.sort_by_key(|(due, _)| *due);
        for (_, id) in due {
            self.make_ready(id);
        }
    }

    fn push(&mut self, id: u8, reason: Reason, now: Instant) {
        self.advance(now);
        let Some(line) = self.line(id) else {
            let is = Is::Ready;
            self.lines.push(Line {
                id,
                is,
                failures: 0,
            });
            self.ready.push(id);
            return;
        };
        match (line.is.clone(), reason) {
            (Is::Running, Reason::Hint) => line.is = Is::RunningDirty,
            (Is::After(_), _) => self.make_ready(id),
            (Is::Backoff(due, since), Reason::Hint) => {
                let earlier = due.min(now.max(since + BASE));
                if earlier != due {
                    self.wait(id, Is::Backoff(earlier, since));
                }
                self.advance(now);
            }
            _ => {}
        }
    }

    fn pop(&mut self, now: Instant) -> Option<(u8, u32)> {
        self.advance(now);
        if self.ready.is_empty() {
            return None;
        }
        let id = self.ready.remove(0);
        let line = self.line(id).expect("it is there");
        line.is = Is::Running;
        Some((id, line.failures + 1))
    }

    /// `fate` is the queue's result. The model checks its random pause and takes it over.
    fn done(&mut self, id: u8, ended: Ended, fate: Fate, now: Instant) {
        let max = self.max_retries;
        self.advance(now);
        let line = self.line(id).expect("it runs");
        let dirty = line.is == Is::RunningDirty;
        let failures = line.failures;
        let mut forget = false;
        match ended {
            Ended::Settled | Ended::After(_) if dirty => {
                line.failures = 0;
                self.make_ready(id);
            }
            Ended::Settled => forget = true,
            Ended::After(pause) => {
                line.failures = 0;
                self.wait(id, Is::After(now + pause));
            }
            Ended::Busy(pause) => self.wait(id, Is::Busy(now + pause.unwrap_or(BUSY))),
            Ended::Failed if max.is_some_and(|max| failures >= max) => {
                assert_eq!(
                    fate,
                    if dirty {
                        Fate::Delayed(BASE)
                    } else {
                        Fate::Dropped
                    }
                );
                line.failures = 0;
                forget = !dirty;
                self.wait(id, Is::Backoff(now + BASE, now));
            }
            Ended::Failed => {
                line.failures = failures + 1;
                let Fate::Delayed(pause) = fate else {
                    panic!("it is tried again, not {fate:?}");
                };
                let most = BASE * 2_u32.pow(failures.min(20));
                let most = if dirty { BASE } else { most.min(CAP) };
                let least = if dirty { BASE } else { most.mul_f64(0.799_999) };
                assert!(least <= pause && pause <= most, "{pause:?} of {most:?}");
                self.wait(id, Is::Backoff(now + pause, now));
            }
        }
        if forget {
            self.lines.retain(|line| line.id != id);
        }
        self.advance(now);
    }
}

/// The queue and the model side by side, and the invariants that both must keep.
struct Pair {
    queue: Queue<u8>,
    model: Model,
    now: Instant,
    running: Vec<u8>,
    /// Ids that were hinted since they were last taken.
    owed: HashSet<u8>,
    seen: HashSet<u8>,
    became_ready: u64,
    popped: u64,
}

impl Pair {
    fn new(max_retries: Option<u32>) -> Self {
        let backoff = Backoff::new(BASE, CAP, fastrand::Rng::with_seed(11));
        Self {
            queue: Queue::new(backoff, max_retries),
            model: Model {
                max_retries,
                ..Model::default()
            },
            now: Instant::now(),
            running: Vec::new(),
            owed: HashSet::new(),
            seen: HashSet::new(),
            became_ready: 0,
            popped: 0,
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Push(id, reason) => {
                self.queue.push(id, reason, self.now);
                self.model.push(id, reason, self.now);
                self.seen.insert(id);
                if reason == Reason::Hint {
                    self.owed.insert(id);
                }
            }
            Op::Pop => {
                self.pop();
            }
            Op::Done(which, ended) => self.done(which, ended),
            Op::Pass(ms) => {
                self.now += Duration::from_millis(ms.into());
                self.queue.advance(self.now);
                self.model.advance(self.now);
            }
        }
        self.check();
    }

    fn pop(&mut self) -> bool {
        let popped = self.queue.pop(self.now);
        let said = popped.as_ref().map(|popped| (popped.id, popped.attempt));
        assert_eq!(said, self.model.pop(self.now));
        let Some(Popped { id, .. }) = popped else {
            return false;
        };
        assert!(!self.running.contains(&id), "{id} is handled twice at once");
        self.running.push(id);
        self.owed.remove(&id);
        self.popped += 1;
        true
    }

    fn done(&mut self, which: usize, ended: Ended) {
        if which >= self.running.len() {
            return;
        }
        let id = self.running.remove(which);
        let fate = self.queue.done(&id, ended, self.now);
        self.model.done(id, ended, fate, self.now);
        let dropped = matches!(fate, Fate::Gone | Fate::Dropped);
        assert!(!dropped || !self.owed.contains(&id), "a hint is lost");
    }

    fn check(&mut self) {
        let lines: HashMap<u8, (String, u32)> = self
            .model
            .lines
            .iter()
            .map(|line| (line.id, (format!("{:?}", line.is), line.failures)))
            .collect();
        let entries: HashMap<u8, (String, u32)> = self
            .queue
            .entries
            .iter()
            .map(|(id, entry)| (*id, (is(entry), entry.failures)))
            .collect();
        assert_eq!(entries, lines);
        assert!(self.queue.ready.iter().eq(&self.model.ready));
        let due = self.model.lines.iter().filter_map(Line::due).min();
        assert_eq!(self.queue.next_wake(), due);

        assert!(self.queue.len() <= self.seen.len(), "more entries than ids");
        let held = self.queue.ready.len() + self.queue.delayed.len() + self.running.len();
        assert_eq!(held, self.queue.len(), "an id is kept twice, or nowhere");
        self.became_ready += self.queue.take_became_ready();
        let ready = u64::try_from(self.queue.ready()).expect("few");
        assert_eq!(self.became_ready - self.popped, ready);
        let kept = self
            .owed
            .iter()
            .all(|id| self.queue.entries.contains_key(id));
        assert!(kept, "a hint is lost");
    }

    /// Runs everything to its end, successfully. All hinted ids must have run by then.
    fn settle(&mut self) {
        loop {
            while self.pop() {
                self.check();
            }
            while !self.running.is_empty() {
                self.done(0, Ended::Settled);
                self.check();
            }
            match self.queue.next_wake() {
                Some(due) => self.now = self.now.max(due),
                None if self.queue.ready() == 0 => break,
                None => {}
            }
        }
        assert!(self.owed.is_empty(), "never handled: {:?}", self.owed);
        assert_eq!(self.queue.len(), 0);
        self.queue.advance(self.now + FAR);
        assert_eq!(self.queue.pop(self.now), None);
    }
}

/// An entry as the model shows it.
fn is(entry: &Entry) -> String {
    let is = match entry.state {
        EntryState::Ready { .. } => Is::Ready,
        EntryState::Running { dirty: false } => Is::Running,
        EntryState::Running { dirty: true } => Is::RunningDirty,
        EntryState::Delayed(ticket, by) => match by {
            Delay::After => Is::After(ticket.0),
            Delay::Backoff { since } => Is::Backoff(ticket.0, since),
            Delay::Busy => Is::Busy(ticket.0),
        },
    };
    format!("{is:?}")
}

proptest! {
    #[test]
    fn no_hint_is_lost_no_id_runs_twice_at_once_and_memory_is_bounded_by_ids(
        ops in vec(op(), 0..120),
        limited in any::<bool>(),
    ) {
        let mut pair = Pair::new(limited.then_some(2));
        for op in &ops {
            pair.apply(op);
        }
        pair.settle();
    }
}
