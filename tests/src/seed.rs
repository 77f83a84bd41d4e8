//! Random numbers that can be repeated.

use fastrand::Rng;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Random numbers; `PODLOOM_BLACKBOX_SEED` repeats those of another run.
pub struct Seed(Rng);

impl Seed {
    /// Takes the seed from the environment or a random one, and prints it, so that a failed test can be repeated.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::or(name, fastrand::u64(..))
    }

    /// As [`Seed::new`], with this seed instead of a random one.
    #[must_use]
    pub fn or(name: &str, seed: u64) -> Self {
        let given = std::env::var("PODLOOM_BLACKBOX_SEED").ok();
        let seed = given.and_then(|seed| seed.parse().ok()).unwrap_or(seed);
        eprintln!("{name}: PODLOOM_BLACKBOX_SEED={seed}");
        Self(Rng::with_seed(seed))
    }

    /// A number from zero up to `end`, exclusive; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end.max(1))
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// What draws values by proptest's strategies.
    pub(crate) fn runner(&mut self) -> TestRunner {
        let mut bytes = [0; 32];
        self.0.fill(&mut bytes);
        let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        TestRunner::new_with_rng(Config::default(), random)
    }
}
