//! Counts the steps of an evaluation, and ends it when they or its time are spent.
//!
//! One step is one element of a list or a map that something visits or produces, one round of a macro, or 64 bytes of text.
//! The count stands for memory too: whatever an expression produces is paid for before it is made, so an evaluation of a million
//! steps cannot hold more than about 150 MB.
//!
//! The meter belongs to the thread, not to a value that is passed along: the functions that `cel` calls are plain function
//! pointers, and so is the equality of values, so neither can carry one.

use std::cell::RefCell;
use std::time::Instant;

use cel::ExecutionError;

/// How many bytes of text cost one step.
const BYTES: usize = 64;
/// The clock is read each time this many charges were made. Between two charges, an expression runs at most its own text once.
const CHARGES: u32 = 16;
/// A charge of this many steps or more reads the clock at once.
const LARGE: u64 = 1024;

/// What ended an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It used all its steps.
    Steps,
    /// It ran until its deadline.
    Time,
}

/// What an evaluation used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) steps: u64,
    pub(crate) stop: Option<Stop>,
}

struct Meter {
    left: u64,
    charges: u32,
    deadline: Option<Instant>,
    usage: Usage,
}

thread_local! {
    static METER: RefCell<Meter> = const { RefCell::new(Meter::new(u64::MAX, None)) };
}

impl Meter {
    const fn new(left: u64, deadline: Option<Instant>) -> Self {
        let usage = Usage {
            steps: 0,
            stop: None,
        };
        Self {
            left,
            charges: 0,
            deadline,
            usage,
        }
    }

    /// Pays for so many steps. Returns what has ended the evaluation.
    fn charge(&mut self, steps: u64) -> Option<Stop> {
        if self.usage.stop.is_some() {
            return self.usage.stop;
        }
        let paid = steps.min(self.left);
        self.usage.steps += paid;
        self.left -= paid;
        self.charges = self.charges.wrapping_add(1);
        let reads_clock = steps >= LARGE || self.charges.is_multiple_of(CHARGES);
        let is_late = |deadline: Instant| Instant::now() >= deadline;
        if steps > paid {
            self.usage.stop = Some(Stop::Steps);
        } else if reads_clock && self.deadline.is_some_and(is_late) {
            self.usage.stop = Some(Stop::Time);
        }
        self.usage.stop
    }
}

/// Clears the thread's meter even if the work panics.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        METER.set(Meter::new(u64::MAX, None));
    }
}

/// Runs the work with a meter, and returns what it used. Outside, nothing is counted or ended.
pub(crate) fn run<T>(
    steps: u64,
    deadline: Option<Instant>,
    work: impl FnOnce() -> T,
) -> (T, Usage) {
    METER.set(Meter::new(steps, deadline));
    let running = Running;
    let result = work();
    let usage = METER.with_borrow(|meter| meter.usage);
    drop(running);
    (result, usage)
}

/// Pays for so many steps.
///
/// # Errors
/// If the steps or the time of this evaluation are spent; from then on, always. The macros of `cel` may absorb this error as any
/// other, so what counts is the [`Usage`].
pub(crate) fn charge(steps: u64) -> Result<(), ExecutionError> {
    match METER.with_borrow_mut(|meter| meter.charge(steps)) {
        None => Ok(()),
        Some(_) => Err(ExecutionError::function_error("budget", "spent")),
    }
}

/// The steps of so many bytes of text.
pub(crate) fn of_text(bytes: usize) -> u64 {
    of_size(bytes / BYTES)
}

/// The steps of so many elements.
pub(crate) fn of_size(elements: usize) -> u64 {
    u64::try_from(elements).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
