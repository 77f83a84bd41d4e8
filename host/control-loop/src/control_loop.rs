//! The loop itself.

use std::sync::Arc;

use crate::{
    Handler, Hints, Id, MemoryLocker, NoRecorder, ObjectLocker, Options, Recorder, Source, Storage,
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
