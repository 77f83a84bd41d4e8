//! How many pods pass a chain at once.

use std::num::NonZeroUsize;

use podloom_mutators::{EngineOptions, InstanceAllocation};
use podloom_turns::{Limits, Lines};

/// The most pods of one tenant that pass the chain at once. A call takes a fraction of a millisecond, and each slot reserves memory.
const MAX_AT_ONCE: usize = 4;
/// The fewest. A plugin may take long, and the next pod must not wait for that even on one processor.
const MIN_AT_ONCE: usize = 2;
/// How many pods may wait for the chain. The API server has at most 600 requests under way by default.
const WAITING: usize = 1024;

/// How the engine of a chain is made that pods wait for.
pub(super) fn serving_engine() -> EngineOptions {
    EngineOptions {
        // Whoever calls the chain has a turn, so no call waits for a permit. One more is for what tries a chain.
        permits: NonZeroUsize::new(turns().turns + 1),
        instances: InstanceAllocation::Pooled,
        lines: Some(Lines::default()),
        ..EngineOptions::default()
    }
}

/// How many pods pass the chain at once.
pub(super) fn turns() -> Limits {
    Limits::for_each(at_once(processors()), WAITING)
}

/// How many of one tenant that is alone: more would only wait for a processor.
fn at_once(processors: usize) -> usize {
    processors.clamp(MIN_AT_ONCE, MAX_AT_ONCE)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

#[cfg(test)]
mod tests {
    use super::at_once;

    #[track_caller]
    fn check(processors: usize, expected: usize) {
        assert_eq!(at_once(processors), expected, "{processors} processors");
    }

    #[test]
    fn one_plugin_that_takes_long_leaves_a_turn_for_the_next_pod() {
        check(1, 2);
        check(2, 2);
        check(3, 3);
        check(64, 4);
    }
}
