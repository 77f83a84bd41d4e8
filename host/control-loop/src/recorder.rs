//! The metrics of a loop.

#[cfg(feature = "prometheus")]
pub(crate) mod prometheus;

use std::sync::Arc;
use std::time::Duration;

/// Receives the measurements of loops; several loops can share one.
///
/// Every method does nothing by default. The first argument is always the name of the loop. The loop's own task and its workers call
/// them, so they must return at once.
pub trait Recorder: Send + Sync + 'static {
    /// This many ids became ready. A hint for an id that is ready already is not counted.
    fn queue_queued(&self, name: &str, ids: u64) {
        let _ = (name, ids);
    }

    /// A worker took an id off the queue.
    fn queue_dequeued(&self, name: &str) {
        let _ = name;
    }

    /// How long an id was ready before a worker took it.
    fn queued_duration(&self, name: &str, took: Duration) {
        let _ = (name, took);
    }

    /// A list ended.
    fn list_duration(&self, name: &str, took: Duration, outcome: CallOutcome) {
        let _ = (name, took, outcome);
    }

    /// The storage returned, or was dropped.
    fn get_duration(&self, name: &str, took: Duration, outcome: CallOutcome) {
        let _ = (name, took, outcome);
    }

    /// The handler returned or was dropped.
    fn handle_duration(&self, name: &str, took: Duration, kind: HandleKind, outcome: CallOutcome) {
        let _ = (name, took, kind, outcome);
    }

    /// This many ids are ready now, without the delayed ones.
    fn queue_depth(&self, name: &str, ids: usize) {
        let _ = (name, ids);
    }

    /// This many ids are being handled now.
    fn in_flight(&self, name: &str, ids: usize) {
        let _ = (name, ids);
    }

    /// An id failed and will be retried.
    fn retried(&self, name: &str) {
        let _ = name;
    }

    /// An id failed too often and was dropped until its next hint or resync.
    fn dropped(&self, name: &str) {
        let _ = name;
    }

    /// Another holder had the lock of an id.
    fn lock_contended(&self, name: &str) {
        let _ = name;
    }

    /// A watch that ended, failed, or could not be opened is opened again.
    fn watch_restarted(&self, name: &str) {
        let _ = name;
    }

    /// A panic of the user's code was caught.
    fn panicked(&self, name: &str) {
        let _ = name;
    }
}

impl<T: Recorder + ?Sized> Recorder for Arc<T> {
    fn queue_queued(&self, name: &str, ids: u64) {
        (**self).queue_queued(name, ids);
    }

    fn queue_dequeued(&self, name: &str) {
        (**self).queue_dequeued(name);
    }

    fn queued_duration(&self, name: &str, took: Duration) {
        (**self).queued_duration(name, took);
    }

    fn list_duration(&self, name: &str, took: Duration, outcome: CallOutcome) {
        (**self).list_duration(name, took, outcome);
    }

    fn get_duration(&self, name: &str, took: Duration, outcome: CallOutcome) {
        (**self).get_duration(name, took, outcome);
    }

    fn handle_duration(&self, name: &str, took: Duration, kind: HandleKind, outcome: CallOutcome) {
        (**self).handle_duration(name, took, kind, outcome);
    }

    fn queue_depth(&self, name: &str, ids: usize) {
        (**self).queue_depth(name, ids);
    }

    fn in_flight(&self, name: &str, ids: usize) {
        (**self).in_flight(name, ids);
    }

    fn retried(&self, name: &str) {
        (**self).retried(name);
    }

    fn dropped(&self, name: &str) {
        (**self).dropped(name);
    }

    fn lock_contended(&self, name: &str) {
        (**self).lock_contended(name);
    }

    fn watch_restarted(&self, name: &str) {
        (**self).watch_restarted(name);
    }

    fn panicked(&self, name: &str) {
        (**self).panicked(name);
    }
}

/// How a timed call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallOutcome {
    /// It succeeded.
    Success,
    /// An error, a panic, a timeout or a lost lock.
    Failure,
}

impl CallOutcome {
    /// The outcome of a result.
    pub(crate) fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() {
            Self::Success
        } else {
            Self::Failure
        }
    }

    /// The value of the label `success`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "true",
            Self::Failure => "false",
        }
    }
}

/// What the handler was called for: an existing object or an absent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandleKind {
    /// The object exists.
    Add,
    /// It is absent.
    Delete,
}

impl HandleKind {
    /// The value of the label `kind`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Delete => "delete",
        }
    }
}

/// Records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecorder;

impl Recorder for NoRecorder {}

/// One call of a [`Recorder`], as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measurement {
    /// [`Recorder::queue_queued`]
    QueueQueued(u64),
    /// [`Recorder::queue_dequeued`]
    QueueDequeued,
    /// [`Recorder::queued_duration`]
    QueuedDuration(Duration),
    /// [`Recorder::list_duration`]
    ListDuration(Duration, CallOutcome),
    /// [`Recorder::get_duration`]
    GetDuration(Duration, CallOutcome),
    /// [`Recorder::handle_duration`]
    HandleDuration(Duration, HandleKind, CallOutcome),
    /// [`Recorder::queue_depth`]
    QueueDepth(usize),
    /// [`Recorder::in_flight`]
    InFlight(usize),
    /// [`Recorder::retried`]
    Retried,
    /// [`Recorder::dropped`]
    Dropped,
    /// [`Recorder::lock_contended`]
    LockContended,
    /// [`Recorder::watch_restarted`]
    WatchRestarted,
    /// [`Recorder::panicked`]
    Panicked,
}

/// Makes a closure a recorder. It gets the loop's name and the measurement.
///
/// ```
/// use podloom_control_loop::{Measurement, recorder_fn};
///
/// let recorder = recorder_fn(|name: &str, measured| {
///     if measured == Measurement::Panicked {
///         eprintln!("the loop {name} caught a panic");
///     }
/// });
/// # fn is_recorder(_: impl podloom_control_loop::Recorder) {}
/// # is_recorder(recorder);
/// ```
pub fn recorder_fn<F>(record: F) -> RecorderFn<F>
where
    F: Fn(&str, Measurement) + Send + Sync + 'static,
{
    RecorderFn { record }
}

/// What [`recorder_fn`] returns.
#[derive(Clone, Copy, Debug)]
pub struct RecorderFn<F> {
    record: F,
}

impl<F: Fn(&str, Measurement) + Send + Sync + 'static> Recorder for RecorderFn<F> {
    fn queue_queued(&self, name: &str, ids: u64) {
        (self.record)(name, Measurement::QueueQueued(ids));
    }

    fn queue_dequeued(&self, name: &str) {
        (self.record)(name, Measurement::QueueDequeued);
    }

    fn queued_duration(&self, name: &str, took: Duration) {
        (self.record)(name, Measurement::QueuedDuration(took));
    }

    fn list_duration(&self, name: &str, took: Duration, outcome: CallOutcome) {
        (self.record)(name, Measurement::ListDuration(took, outcome));
    }

    fn get_duration(&self, name: &str, took: Duration, outcome: CallOutcome) {
        (self.record)(name, Measurement::GetDuration(took, outcome));
    }

    fn handle_duration(&self, name: &str, took: Duration, kind: HandleKind, outcome: CallOutcome) {
        (self.record)(name, Measurement::HandleDuration(took, kind, outcome));
    }

    fn queue_depth(&self, name: &str, ids: usize) {
        (self.record)(name, Measurement::QueueDepth(ids));
    }

    fn in_flight(&self, name: &str, ids: usize) {
        (self.record)(name, Measurement::InFlight(ids));
    }

    fn retried(&self, name: &str) {
        (self.record)(name, Measurement::Retried);
    }

    fn dropped(&self, name: &str) {
        (self.record)(name, Measurement::Dropped);
    }

    fn lock_contended(&self, name: &str) {
        (self.record)(name, Measurement::LockContended);
    }

    fn watch_restarted(&self, name: &str) {
        (self.record)(name, Measurement::WatchRestarted);
    }

    fn panicked(&self, name: &str) {
        (self.record)(name, Measurement::Panicked);
    }
}
