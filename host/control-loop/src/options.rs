//! How a loop behaves.

use std::num::NonZeroUsize;
use std::time::Duration;

/// How a loop behaves; everything has a default.
///
/// ```
/// use std::time::Duration;
/// use podloom_control_loop::Options;
///
/// let options = Options { resync_interval: Some(Duration::from_secs(15)), ..Options::default() };
/// # assert_eq!(options.workers.get(), 4);
/// ```
///
/// A duration of thirty years or more means for ever. Intervals and pauses shorter than a millisecond are a millisecond, as finer
/// timers do not exist.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many ids are handled at once; 4 by default.
    pub workers: NonZeroUsize,
    /// From the end of a list to the next, give or take a tenth; 30 seconds by default. None lists once for each time that the watch
    /// was opened, and at the start in any case.
    pub resync_interval: Option<Duration>,
    /// The pause after a first failure, which doubles with each in a row; half a second by default. Jitter takes up to a fifth off.
    pub backoff_base: Duration,
    /// The longest pause after a failure; 5 minutes by default.
    pub backoff_cap: Duration,
    /// How many failures in a row are tried again before an id is dropped until its next hint or resync; no limit by default.
    pub max_retries: Option<u32>,
    /// How long a list may take, and the opening of a watch; a minute by default.
    pub list_timeout: Duration,
    /// How long the storage may take to read an object, and the locker to answer; 30 seconds by default.
    pub get_timeout: Duration,
    /// How long the handler may take; 5 minutes by default.
    pub handle_timeout: Duration,
    /// How long handlers may go on after the loop was stopped; 30 seconds by default. `run` may return 10 seconds later, or 30 if code
    /// blocks its thread.
    pub drain_timeout: Duration,
    /// Makes the random part of pauses repeatable; none by default.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: NonZeroUsize::new(4).unwrap_or(NonZeroUsize::MIN),
            resync_interval: Some(Duration::from_secs(30)),
            backoff_base: Duration::from_millis(500),
            backoff_cap: Duration::from_mins(5),
            max_retries: None,
            list_timeout: Duration::from_mins(1),
            get_timeout: Duration::from_secs(30),
            handle_timeout: Duration::from_mins(5),
            drain_timeout: Duration::from_secs(30),
            seed: None,
        }
    }
}
