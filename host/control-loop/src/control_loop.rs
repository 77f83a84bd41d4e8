//! The loop itself.

use std::sync::Arc;

use crate::{
    Handler, Hints, Id, MemoryLocker, NoRecorder, ObjectLocker, Options, Recorder, Source, Storage,
};

/// A feedback loop: what it looks at, how, and what it does about it.
///
/// [`new`](Self::new) takes the parts that have no default; assign the others.
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
    /// Names the loop in logs and metrics.
    pub name: String,
    /// Where ids come from.
    pub source: So,
    /// Where the truth about an id is read.
    pub storage: St,
    /// What is done about it.
    pub handler: Ha,
    /// Where ids come from besides: clone it to push them from outside.
    pub hints: Hints<I>,
    /// How the loop behaves.
    pub options: Options,
    /// Who may handle an id; by default a [`MemoryLocker`] of its own.
    pub locker: Arc<dyn ObjectLocker<I>>,
    /// What takes the measurements; by default nothing.
    pub recorder: Arc<dyn Recorder>,
}

/// What became of the work when a loop was stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many handlers were running then and ended in time, well or not.
    pub finished: usize,
    /// The ids whose handlers had to be cancelled when the drain was over.
    pub abandoned: Vec<String>,
    /// How many ids had still something to be done: ready, waiting for their time, or taken by a worker that had not reached the
    /// handler.
    pub queued: usize,
}

impl<I, So, St, Ha> ControlLoop<I, So, St, Ha>
where
    I: Id,
    So: Source<I>,
    St: Storage<I>,
    Ha: Handler<I, St::Object>,
{
    /// Makes a loop of the parts that have no default.
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
