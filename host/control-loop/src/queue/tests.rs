//! The tables in the crate's documentation, row by row.

mod laws;

use super::*;

const BASE: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(10);
const ID: &str = "id";

/// A state, as the tables name it.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Seen {
    Absent,
    Ready,
    Running,
    RunningDirty,
    /// Until this many milliseconds after the start.
    Delayed(u128),
}

/// A queue with a clock that the test moves.
struct Rig {
    queue: Queue<&'static str>,
    start: Instant,
    now: Instant,
}

impl Rig {
    fn new(max_retries: Option<u32>) -> Self {
        let start = Instant::now();
        let backoff = Backoff::new(BASE, CAP, fastrand::Rng::with_seed(7));
        Self {
            queue: Queue::new(backoff, max_retries),
            start,
            now: start,
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        self.queue.advance(self.now);
    }

    fn push(&mut self, reason: Reason) {
        self.queue.push(ID, reason, self.now);
    }

    fn pop(&mut self) -> Popped<&'static str> {
        self.queue.pop(self.now).expect("something is ready")
    }

    fn done(&mut self, ended: Ended) -> Fate {
        self.queue.done(&ID, ended, self.now)
    }

    /// A run from the first hint to its end.
    fn run(&mut self, ended: Ended) -> Fate {
        self.push(Reason::Hint);
        self.pop();
        self.done(ended)
    }

    fn seen(&self) -> Seen {
        match self.queue.entries.get(ID).map(|entry| entry.state) {
            None => Seen::Absent,
            Some(EntryState::Ready { .. }) => Seen::Ready,
            Some(EntryState::Running { dirty: false }) => Seen::Running,
            Some(EntryState::Running { dirty: true }) => Seen::RunningDirty,
            Some(EntryState::Delayed(ticket, _)) => {
                Seen::Delayed((ticket.0 - self.start).as_millis())
            }
        }
    }

    fn failures(&self) -> u32 {
        self.queue.entries.get(ID).map_or(0, |entry| entry.failures)
    }
}

fn absent() -> Rig {
    Rig::new(None)
}

fn ready() -> Rig {
    let mut rig = absent();
    rig.push(Reason::Hint);
    rig
}

fn running() -> Rig {
    let mut rig = ready();
    rig.pop();
    rig
}

fn dirty() -> Rig {
    let mut rig = running();
    rig.push(Reason::Hint);
    rig
}

/// Until 2,000 ms.
fn delayed_by_after() -> Rig {
    let mut rig = running();
    rig.done(Ended::After(Duration::from_secs(2)));
    rig
}

/// Failed five times at 0 ms, so that the pause is much longer than its base.
fn delayed_by_backoff() -> Rig {
    let mut rig = running();
    for _ in 0..4 {
        rig.done(Ended::Failed);
        let due = rig.queue.next_wake().expect("it waits");
        rig.queue.pop(due).expect("it is due");
    }
    rig.done(Ended::Failed);
    rig
}

/// Until 3,000 ms.
fn delayed_by_lock() -> Rig {
    let mut rig = running();
    rig.done(Ended::Busy(Some(Duration::from_secs(3))));
    rig
}

#[track_caller]
fn check_push(state: fn() -> Rig, after_ms: u64, reason: Reason, expected: Option<Seen>) {
    let mut rig = state();
    rig.pass(after_ms);
    let before = rig.seen();
    let failures = rig.failures();
    rig.push(reason);
    assert_eq!(rig.seen(), expected.unwrap_or(before), "{reason:?}");
    assert_eq!(rig.failures(), failures, "only success resets failures");
}

#[test]
fn a_hint_or_a_resync_follows_the_table_of_states() {
    use Reason::{Hint, Resync};
    check_push(absent, 0, Hint, Some(Seen::Ready));
    check_push(absent, 0, Resync, Some(Seen::Ready));
    check_push(ready, 0, Hint, None);
    check_push(ready, 0, Resync, None);
    check_push(running, 0, Hint, Some(Seen::RunningDirty));
    check_push(running, 0, Resync, None);
    check_push(dirty, 0, Hint, None);
    check_push(dirty, 0, Resync, None);
    check_push(delayed_by_after, 10, Hint, Some(Seen::Ready));
    check_push(delayed_by_after, 10, Resync, Some(Seen::Ready));
    // The base counts from the end of the run. After a later hint the id is ready at once, after an earlier one at that time.
    check_push(delayed_by_backoff, 40, Hint, Some(Seen::Delayed(100)));
    check_push(delayed_by_backoff, 100, Hint, Some(Seen::Ready));
    check_push(delayed_by_backoff, 700, Hint, Some(Seen::Ready));
    check_push(delayed_by_backoff, 700, Resync, None);
    check_push(delayed_by_lock, 10, Hint, None);
    check_push(delayed_by_lock, 10, Resync, None);
}

#[test]
fn a_hint_never_prolongs_a_pause_shorter_than_the_base() {
    let mut rig = Rig::new(None);
    rig.run(Ended::Failed);
    let Seen::Delayed(due) = rig.seen() else {
        panic!("{:?}", rig.seen());
    };
    assert!(due <= BASE.as_millis());
    rig.push(Reason::Hint);
    assert_eq!(rig.seen(), Seen::Delayed(due));
}

#[track_caller]
fn check_due(state: fn() -> Rig, due_ms: u64) {
    let mut rig = state();
    let due = rig.start + Duration::from_millis(due_ms);
    assert_eq!(rig.queue.next_wake(), Some(due));
    rig.pass(due_ms - 1);
    assert_eq!(rig.queue.pop(rig.now), None);
    rig.pass(1);
    assert_eq!(rig.seen(), Seen::Ready);
    assert_eq!(rig.pop().waited, Duration::ZERO);
    assert_eq!(rig.seen(), Seen::Running);
}

#[test]
fn a_delayed_id_is_ready_when_due() {
    check_due(delayed_by_after, 2000);
    check_due(delayed_by_lock, 3000);
    let mut rig = delayed_by_backoff();
    let due = rig.queue.next_wake().expect("it waits");
    rig.now = due;
    assert_eq!(rig.pop().attempt, 6);
}

#[test]
fn the_waiting_time_counts_from_when_an_id_was_due() {
    let mut rig = delayed_by_after();
    rig.now += Duration::from_millis(2500);
    assert_eq!(rig.pop().waited, Duration::from_millis(500));
}

#[test]
fn a_ready_id_runs_once() {
    let mut rig = ready();
    rig.pass(30);
    let popped = rig.pop();
    assert_eq!(popped.waited, Duration::from_millis(30));
    assert_eq!(popped.attempt, 1);
    assert_eq!(rig.seen(), Seen::Running);
    assert_eq!(rig.queue.pop(rig.now), None);
}

/// Checks the result of a run: the fate, the state, and the failures in a row.
#[track_caller]
fn check_done(state: fn() -> Rig, failures: u32, ended: Ended, expected: (Fate, Seen, u32)) {
    check_done_of(state(), failures, ended, expected);
}

#[track_caller]
fn check_done_of(mut rig: Rig, failures: u32, ended: Ended, expected: (Fate, Seen, u32)) {
    rig.queue.entries.get_mut(ID).expect("it runs").failures = failures;
    let fate = rig.done(ended);
    assert_eq!((fate, rig.seen(), rig.failures()), expected, "{ended:?}");
}

#[test]
fn a_success_follows_the_table_of_outcomes() {
    let two = Duration::from_secs(2);
    let after = Ended::After(two);
    check_done(running, 3, Ended::Settled, (Fate::Gone, Seen::Absent, 0));
    check_done(dirty, 3, Ended::Settled, (Fate::Ready, Seen::Ready, 0));
    check_done(
        running,
        3,
        after,
        (Fate::Delayed(two), Seen::Delayed(2000), 0),
    );
    check_done(dirty, 3, after, (Fate::Ready, Seen::Ready, 0));
}

#[test]
fn a_busy_lock_follows_the_table_of_outcomes() {
    let default = (Fate::Delayed(BUSY), Seen::Delayed(1000), 3);
    check_done(running, 3, Ended::Busy(None), default);
    check_done(dirty, 3, Ended::Busy(None), default);
    let four = Duration::from_secs(4);
    let said = (Fate::Delayed(four), Seen::Delayed(4000), 3);
    check_done(running, 3, Ended::Busy(Some(four)), said);
    check_done(dirty, 3, Ended::Busy(Some(four)), said);
}

#[test]
fn a_failure_follows_the_table_of_outcomes() {
    let at_base = |failures| (Fate::Delayed(BASE), Seen::Delayed(100), failures);
    check_done(dirty, 0, Ended::Failed, at_base(1));
    check_done(dirty, 6, Ended::Failed, at_base(7));

    let mut rig = running();
    let Fate::Delayed(pause) = rig.done(Ended::Failed) else {
        panic!("{:?}", rig.seen());
    };
    assert!(BASE.mul_f64(0.8) <= pause && pause <= BASE, "{pause:?}");
    assert_eq!(rig.failures(), 1);
}

#[test]
fn failures_beyond_the_limit_follow_the_table_of_outcomes() {
    let limited = |dirty: bool| {
        let mut rig = Rig::new(Some(2));
        rig.push(Reason::Hint);
        rig.pop();
        if dirty {
            rig.push(Reason::Hint);
        }
        rig
    };
    let dropped = (Fate::Dropped, Seen::Absent, 0);
    check_done_of(limited(false), 2, Ended::Failed, dropped);
    let begins_anew = (Fate::Delayed(BASE), Seen::Delayed(100), 0);
    check_done_of(limited(true), 2, Ended::Failed, begins_anew);
    // The second failure is still within the limit.
    let within = (Fate::Delayed(BASE), Seen::Delayed(100), 2);
    check_done_of(limited(true), 1, Ended::Failed, within);

    for reason in [Reason::Hint, Reason::Resync] {
        let mut rig = limited(false);
        rig.queue.entries.get_mut(ID).expect("it runs").failures = 2;
        rig.done(Ended::Failed);
        rig.push(reason);
        assert_eq!(rig.pop().attempt, 1);
    }
}

#[test]
fn ready_ids_are_first_in_first_out_and_a_delayed_one_joins_the_tail_when_due() {
    let mut rig = Rig::new(None);
    let soon = Ended::After(Duration::from_millis(50));
    rig.queue.push("late", Reason::Hint, rig.now);
    rig.pop();
    rig.queue.done(&"late", soon, rig.now);
    rig.queue.push("first", Reason::Hint, rig.now);
    rig.now += Duration::from_millis(50);
    // It was due before this hint, though no call was made in between.
    rig.queue.push("last", Reason::Hint, rig.now);
    let order: Vec<_> = std::iter::from_fn(|| rig.queue.pop(rig.now))
        .map(|popped| popped.id)
        .collect();
    assert_eq!(order, ["first", "late", "last"]);
}

#[test]
fn a_failing_id_that_is_hinted_all_the_time_runs_once_in_each_base() {
    let mut rig = Rig::new(None);
    let mut runs = 0;
    for _ in 0..10_000 {
        rig.push(Reason::Hint);
        while let Some(popped) = rig.queue.pop(rig.now) {
            runs += 1;
            rig.queue.push(popped.id, Reason::Hint, rig.now);
            rig.queue.done(&popped.id, Ended::Failed, rig.now);
        }
        rig.pass(1);
    }
    assert_eq!(runs, 100);
}

#[test]
fn the_pauses_double_up_to_the_cap() {
    let mut backoff = Backoff::new(BASE, CAP, fastrand::Rng::with_seed(1));
    for failures in 1..200 {
        let doubled = 2_f64.powi(failures - 1);
        let most = (BASE.as_secs_f64() * doubled).min(CAP.as_secs_f64());
        let pause = backoff.pause(failures.unsigned_abs()).as_secs_f64();
        assert!(
            most * 0.799_999 <= pause && pause <= most,
            "{failures}: {pause}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_pauses() {
    let pauses = |seed| {
        let mut backoff = Backoff::new(BASE, CAP, fastrand::Rng::with_seed(seed));
        (1..9).map(|n| backoff.pause(n)).collect::<Vec<_>>()
    };
    assert_eq!(pauses(3), pauses(3));
    assert_ne!(pauses(3), pauses(4));
}

#[test]
fn no_duration_is_too_long_or_too_short() {
    let endless = Backoff::new(Duration::MAX, Duration::MAX, fastrand::Rng::with_seed(1));
    let mut queue = Queue::new(endless, None);
    let now = Instant::now();
    let never = Duration::MAX;
    for ended in [Ended::After(never), Ended::Busy(Some(never)), Ended::Failed] {
        queue.push("id", Reason::Hint, now);
        queue.advance(now + FAR);
        queue.pop(now + FAR).expect("it is due");
        assert!(matches!(queue.done(&"id", ended, now), Fate::Delayed(_)));
    }
    let mut backoff = Backoff::new(Duration::ZERO, Duration::ZERO, fastrand::Rng::new());
    assert!(backoff.pause(u32::MAX) > Duration::ZERO);
    let mut rig = running();
    rig.done(Ended::After(Duration::ZERO));
    assert_eq!(rig.seen(), Seen::Delayed(1));
}
