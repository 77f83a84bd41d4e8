//! The bounds, and in comments what the largest standard plugin has.

/// The most of something that is compiled, in a whole file: nested modules and components count together.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    most: u64,
    what: &'static str,
}

impl Bound {
    pub(super) const fn new(most: u64, what: &'static str) -> Self {
        Self { most, what }
    }

    pub(super) fn check(self, found: u64) -> Result<(), TooMuch> {
        if found <= self.most {
            return Ok(());
        }
        Err(TooMuch {
            most: self.most,
            what: self.what,
            function: None,
        })
    }
}

// 115 KB.
pub(super) const CODE: Bound = Bound::new(2 << 20, "bytes of code");
// 264.
pub(super) const FUNCTIONS: Bound = Bound::new(5_000, "functions");
// None; a component that the encoder made of it has five.
pub(super) const MODULES: Bound = Bound::new(16, "nested modules and components");
/// Components within components; toolchains make two or three levels.
pub(super) const NESTING: usize = 16;
// 17; a component that the encoder made has 33.
pub(super) const TYPES: Bound = Bound::new(1_000, "types");
// 16; a component that the encoder made has 43.
pub(super) const IMPORTS: Bound = Bound::new(1_000, "imports");
// 12; a component that the encoder made has 37.
pub(super) const EXPORTS: Bound = Bound::new(1_000, "exports");
// 3.
pub(super) const GLOBALS: Bound = Bound::new(10_000, "globals");
// 2.
pub(super) const SEGMENTS: Bound = Bound::new(10_000, "data and element segments");
// A component that the encoder made of a module has 114.
pub(super) const PARTS: Bound =
    Bound::new(2_000, "instances, aliases and other parts of a component");
// 316.
pub(super) const LOOPS: Bound = Bound::new(3_000, "loops");
// 6,100.
pub(super) const BRANCHES: Bound = Bound::new(60_000, "branches, checked accesses and divisions");
// 730.
pub(super) const TARGETS: Bound = Bound::new(50_000, "targets of br_table");
// 200,000: the locals and operands at each branch, three times at a loop.
pub(super) const LIVE_VALUES: Bound = Bound::new(2_000_000, "values that are kept over branches");
// 7,000.
pub(super) const CALLS: Bound = Bound::new(100_000, "calls with their parameters and results");
// 102.
pub(super) const DETOURS: Bound = Bound::new(
    5_000,
    "indirect calls and operations on tables and whole memories",
);

// 9.
pub(super) const SIGNATURE: Bound = Bound::new(64, "parameters and results of one type");
// 20 KB.
pub(super) const BODY: Bound = Bound::new(256 << 10, "bytes");
// 75.
pub(super) const LOCALS: Bound = Bound::new(2_000, "locals");
// 70.
pub(super) const DEPTH: Bound = Bound::new(500, "blocks within each other");
// 43.
pub(super) const FUNCTION_LOOPS: Bound = Bound::new(1_000, "loops");
// 1,100; the time that the compiler takes grows faster than their number.
pub(super) const FUNCTION_BRANCHES: Bound =
    Bound::new(5_000, "branches, checked accesses and divisions");
// None; the memory that the compiler takes grows with their square.
pub(super) const BLOCK_VALUES: Bound = Bound::new(2_000, "parameters and results of blocks");

/// More of something than is compiled. Reads as the rest of a sentence that begins with the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("has more than {most} {what}{}: compiling it would take too long", in_function(.function))]
pub struct TooMuch {
    /// The bound.
    pub most: u64,
    /// What there is too much of.
    pub what: &'static str,
    /// The function that has it, by its index; none if it is the file as a whole.
    pub function: Option<u32>,
}

fn in_function(function: &Option<u32>) -> String {
    function.map_or_else(String::new, |index| format!(" in its function {index}"))
}
