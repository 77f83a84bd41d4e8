//! The loop itself, and its settings.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    Handler, Hints, Id, MemoryLocker, NoRecorder, ObjectLocker, Recorder, Source, Storage,
};

/// A feedback loop and its parts.
///
/// [`new`](Self::new) takes the parts that have no default; set the others as fields.
///
/// ```
/// use podloom_control_loop::{ControlLoop, Next, Options, handler_fn, source_fn, storage_fn};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let mut numbers = ControlLoop::new(
///     "numbers",
///     source_fn(|_ctx| async { Ok(vec![1, 2, 3]) }),
///     storage_fn(|_ctx, id| async move { Ok((id != 2).then_some("there")) }),
///     handler_fn(|_ctx, id, object: Option<_>| async move {
///         println!("{id} is {}", object.unwrap_or("gone"));
///         Ok(Next::Settled)
///     }),
/// );
/// numbers.options.resync_interval = None;
///
/// let stop = tokio_util::sync::CancellationToken::new();
/// # stop.cancel();
/// let report = numbers.run(stop).await;
/// assert!(report.abandoned.is_empty());
/// # }
/// ```
pub struct ControlLoop<I, So, St, Ha> {
    /// The loop's name in logs and metrics.
    pub name: String,
    /// Lists and watches ids.
    pub source: So,
    /// Reads the current state of an id.
    pub storage: St,
    /// Acts on it.
    pub handler: Ha,
    /// Hints from outside the source: clone it to push ids.
    pub hints: Hints<I>,
    /// Settings.
    pub options: Options,
    /// Decides which loop may handle an id; by default a [`MemoryLocker`] of its own.
    pub locker: Arc<dyn ObjectLocker<I>>,
    /// Receives the measurements; by default [`NoRecorder`].
    pub recorder: Arc<dyn Recorder>,
}

/// The result of stopping a loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many handlers were running when the loop was stopped and ended in time, successfully or not.
    pub finished: usize,
    /// The ids whose handlers had to be cancelled at the end of the drain.
    pub abandoned: Vec<String>,
    /// How many ids were left: ready, delayed, or taken by a worker that had not reached the handler.
    pub queued: usize,
}

impl<I, So, St, Ha> ControlLoop<I, So, St, Ha>
where
    I: Id,
    So: Source<I>,
    St: Storage<I>,
    Ha: Handler<I, St::Object>,
{
    /// Creates a loop from the parts that have no default.
    pub fn new(name: impl Into<String>, source: So, storage: St, handler: Ha) -> Self {
        Self {
            name: name.into(),
            source,
            storage,
            handler,
            hints: Hints::default(),
            options: Options::default(),
            locker: Arc::new(MemoryLocker::default()),
            recorder: Arc::new(NoRecorder),
        }
    }
}

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
