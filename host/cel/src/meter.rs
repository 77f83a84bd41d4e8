//! Counts the steps of an evaluation, and ends it when they or its time are spent.
//!
//! One step is one element of a list or a map that something visits or produces, one round of a macro, or 64 bytes of text.
//! The count stands for memory too: whatever an expression produces is paid for before it is made, so an evaluation of a million
//! steps cannot hold more than about 150 MB.
//!
//! The meter belongs to the thread, not to a value that is passed along: the functions that `cel` calls are plain function
//! pointers, and so is the equality of values, so neither can carry one.

use std::cell::Cell;
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
    left: Cell<u64>,
    used: Cell<u64>,
    charges: Cell<u32>,
    deadline: Cell<Option<Instant>>,
    stop: Cell<Option<Stop>>,
}

thread_local! {
    static METER: Meter = const { Meter {
        left: Cell::new(u64::MAX),
        used: Cell::new(0),
        charges: Cell::new(0),
        deadline: Cell::new(None),
        stop: Cell::new(None),
    } };
}

impl Meter {
    fn start(&self, steps: u64, deadline: Option<Instant>) {
        self.left.set(steps);
        self.used.set(0);
        self.charges.set(0);
        self.deadline.set(deadline);
        self.stop.set(None);
    }

    fn charge(&self, steps: u64) -> Result<(), Stop> {
        if let Some(stop) = self.stop.get() {
            return Err(stop);
        }
        let left = self.left.get();
        self.used.set(self.used.get() + steps.min(left));
        self.left.set(left.saturating_sub(steps));
        if steps > left {
            return self.end(Stop::Steps);
        }
        let charges = self.charges.get().wrapping_add(1);
        self.charges.set(charges);
        let late = || {
            self.deadline
                .get()
                .is_some_and(|deadline| Instant::now() >= deadline)
        };
        if (steps >= LARGE || charges.is_multiple_of(CHARGES)) && late() {
            return self.end(Stop::Time);
        }
        Ok(())
    }

    fn end(&self, stop: Stop) -> Result<(), Stop> {
        self.stop.set(Some(stop));
        Err(stop)
    }
}

/// Clears the thread's meter even if the work panics.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        METER.with(|meter| meter.start(u64::MAX, None));
    }
}

/// Runs the work with a meter, and returns what it used. Outside, nothing is counted or ended.
pub(crate) fn run<T>(
    steps: u64,
    deadline: Option<Instant>,
    work: impl FnOnce() -> T,
) -> (T, Usage) {
    METER.with(|meter| meter.start(steps, deadline));
    let running = Running;
    let result = work();
    let usage = METER.with(|meter| Usage {
        steps: meter.used.get(),
        stop: meter.stop.get(),
    });
    drop(running);
    (result, usage)
}

/// Pays for so many steps.
///
/// # Errors
/// If the steps or the time of this evaluation are spent; from then on, always. The macros of `cel` may absorb this error as any
/// other, so what counts is the [`Usage`].
pub(crate) fn charge(steps: u64) -> Result<(), ExecutionError> {
    METER
        .with(|meter| meter.charge(steps))
        .map_err(|_| ExecutionError::function_error("budget", "spent"))
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
