//! The settings of a loop.

use std::num::NonZeroUsize;
use std::time::Duration;

/// The settings of a loop; all have defaults.
///
/// ```
/// use std::time::Duration;
/// use podloom_control_loop::Options;
///
/// let options = Options { resync_interval: Some(Duration::from_secs(15)), ..Options::default() };
/// # assert_eq!(options.workers.get(), 4);
/// ```
///
/// A duration of thirty years or more means for ever. Intervals and pauses shorter than a millisecond become a millisecond, the
/// resolution of timers.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many ids are handled at once; 4 by default.
    pub workers: NonZeroUsize,
    /// From the end of a list to the next, plus or minus a tenth; 30 seconds by default. With None, the loop lists only at the start
    /// and each time the watch was opened.
    pub resync_interval: Option<Duration>,
    /// The pause after a first failure, which doubles with each further one; half a second by default. Jitter shortens it by up to a
    /// fifth.
    pub backoff_base: Duration,
    /// The longest pause after a failure; 5 minutes by default.
    pub backoff_cap: Duration,
    /// How many failures in a row are retried before an id is dropped until its next hint or resync; no limit by default.
    pub max_retries: Option<u32>,
    /// How long a list may take, and the opening of a watch; a minute by default.
    pub list_timeout: Duration,
    /// How long the storage may take to read an object, and the locker to answer; 30 seconds by default.
    pub get_timeout: Duration,
    /// How long the handler may take; 5 minutes by default.
    pub handle_timeout: Duration,
    /// How long handlers may continue after the loop was stopped; 30 seconds by default. `run` returns up to 10 seconds later, or up to
    /// 30 if code blocks its thread.
    pub drain_timeout: Duration,
    /// Seeds the jitter, to make it repeatable; none by default.
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
