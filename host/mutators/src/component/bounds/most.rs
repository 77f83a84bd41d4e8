//! The bounds. The comment above each says what the largest standard plugin has.

use crate::file::or_large;
use crate::limits::PluginSize;

/// The most of something that a file may have, nested modules and components included.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    most: u64,
    what: &'static str,
    /// How many times as many a large plugin may have.
    when_large: u64,
    size: PluginSize,
}

/// CPython has up to six times as much as a plugin of the standard size may have, but for [`Bound::when_large`].
const WHEN_LARGE: u64 = 8;

impl Bound {
    pub(super) const fn new(most: u64, what: &'static str) -> Self {
        Self {
            most,
            what,
            when_large: WHEN_LARGE,
            size: PluginSize::Standard,
        }
    }

    pub(super) const fn when_large(self, times: u64) -> Self {
        Self {
            when_large: times,
            ..self
        }
    }

    /// The bound for a plugin of this size.
    pub(super) const fn of(self, size: PluginSize) -> Self {
        match size {
            PluginSize::Standard => self,
            PluginSize::Large => Self {
                most: self.most.saturating_mul(self.when_large),
                size,
                ..self
            },
        }
    }

    pub(super) fn check(self, found: u64) -> Result<(), TooMuch> {
        if found <= self.most {
            return Ok(());
        }
        Err(TooMuch {
            most: self.most,
            what: self.what,
            function: None,
            size: self.size,
        })
    }
}

// 115 KB.
pub(super) const CODE: Bound = Bound::new(2 << 20, "bytes of code");
// 264.
pub(super) const FUNCTIONS: Bound = Bound::new(5_000, "functions");
// None; encoded as a component it has five.
pub(super) const MODULES: Bound = Bound::new(16, "nested modules and components");
/// How deeply components may be nested; toolchains make two or three levels.
pub(super) const NESTING: usize = 16;
// 17; encoded as a component 33.
pub(super) const TYPES: Bound = Bound::new(1_000, "types");
// 16; encoded as a component 43.
pub(super) const IMPORTS: Bound = Bound::new(1_000, "imports");
// 12; encoded as a component 37.
pub(super) const EXPORTS: Bound = Bound::new(1_000, "exports");
// 3.
pub(super) const GLOBALS: Bound = Bound::new(10_000, "globals");
// 2.
pub(super) const SEGMENTS: Bound = Bound::new(10_000, "data and element segments");
// None; encoded as a component 114.
pub(super) const PARTS: Bound =
    Bound::new(2_000, "instances, aliases and other parts of a component");
// 316.
pub(super) const LOOPS: Bound = Bound::new(3_000, "loops");
// 6,100.
pub(super) const BRANCHES: Bound = Bound::new(60_000, "branches, checked accesses and divisions");
// 730.
pub(super) const TARGETS: Bound = Bound::new(50_000, "targets of br_table");
// 200,000: the locals and operands at each branch; at a loop they count three times.
pub(super) const LIVE_VALUES: Bound = Bound::new(2_000_000, "values that are live across branches");
// 7,000.
pub(super) const CALLS: Bound = Bound::new(100_000, "calls, parameters and results of calls");
// 102.
pub(super) const DETOURS: Bound = Bound::new(
    5_000,
    "indirect calls and operations on tables and whole memories",
);

// 9.
pub(super) const SIGNATURE: Bound = Bound::new(64, "parameters and results in one type");
// 20 KB.
pub(super) const BODY: Bound = Bound::new(256 << 10, "bytes of code");
// 75.
pub(super) const LOCALS: Bound = Bound::new(2_000, "locals");
// 70.
pub(super) const DEPTH: Bound = Bound::new(500, "nested blocks");
// 43.
pub(super) const FUNCTION_LOOPS: Bound = Bound::new(1_000, "loops");
// 1,100. The compiler's time grows faster than their number.
pub(super) const FUNCTION_BRANCHES: Bound =
    Bound::new(5_000, "branches, checked accesses and divisions");
// None. The compiler's memory grows with the square of their number.
pub(super) const BLOCK_VALUES: Bound = Bound::new(2_000, "parameters and results of blocks");

/// More of something than a plugin may have. The message continues a sentence that begins with the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "has more than {most} {what}{}; compiling it would take too long{}",
    in_function(.function),
    or_large(*size)
)]
pub struct TooMuch {
    /// The bound.
    pub most: u64,
    /// What it has too much of.
    pub what: &'static str,
    /// The index of the function that exceeds the bound; none if the whole file does.
    pub function: Option<u32>,
    /// The size that its entry in the chain allows.
    pub size: PluginSize,
}

fn in_function(function: &Option<u32>) -> String {
    function.map_or_else(String::new, |index| format!(" in function {index}"))
}
