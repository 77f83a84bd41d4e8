//! Random numbers that a seed repeats.

pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// Whether something happens that happens once in so many times.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.next().is_multiple_of(times)
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        let index = usize::try_from(self.next()).unwrap_or_default() % all.len();
        all[index]
    }
}
