//! Random numbers that can be repeated.

use std::hash::{BuildHasher, RandomState};

/// Random numbers; `PODLOOM_BLACKBOX_SEED` repeats those of another run.
pub struct Seed(u64);

impl Seed {
    /// Takes the seed from the environment or a random one, and prints it, so that a failed test can be repeated.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::or(name, RandomState::new().hash_one(name))
    }

    /// As [`Seed::new`], with this seed instead of a random one.
    #[must_use]
    pub fn or(name: &str, seed: u64) -> Self {
        let given = std::env::var("PODLOOM_BLACKBOX_SEED").ok();
        let seed = given.and_then(|seed| seed.parse().ok()).unwrap_or(seed);
        eprintln!("{name}: PODLOOM_BLACKBOX_SEED={seed}");
        // xorshift stays at zero for ever.
        Self(seed.max(1))
    }

    /// A number from zero up to `end`, exclusive; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        usize::try_from(self.0.checked_rem(end).unwrap_or(0)).unwrap_or(0)
    }
}
