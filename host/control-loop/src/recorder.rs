//! What a loop counts.

#[cfg(feature = "prometheus")]
pub(crate) mod prometheus;

use std::sync::Arc;
use std::time::Duration;

/// Takes the measurements of loops; one recorder can serve many.
///
/// Every method does nothing by default. The first argument is always the name of the loop. Calls come from the loop's own task and
/// from its workers: they must return at once.
pub trait Recorder: Send + Sync + 'static {
    /// So many ids became ready to be handled. Entries are counted, not hints: a hint for an id that is ready already adds none.
    fn queue_queued(&self, name: &str, ids: u64) {
        let _ = (name, ids);
    }

    /// An id was taken off the queue by a worker.
    fn queue_dequeued(&self, name: &str) {
        let _ = name;
    }

    /// An id that was taken off the queue had been ready for so long.
    fn queued_duration(&self, name: &str, took: Duration) {
        let _ = (name, took);
    }

    /// A list ended.
    fn list_duration(&self, name: &str, took: Duration, outcome: Outcome) {
        let _ = (name, took, outcome);
    }

    /// The storage answered, or did not.
    fn get_duration(&self, name: &str, took: Duration, outcome: Outcome) {
        let _ = (name, took, outcome);
    }

    /// The handler returned or was dropped.
    fn handle_duration(&self, name: &str, took: Duration, kind: Kind, outcome: Outcome) {
        let _ = (name, took, kind, outcome);
    }

    /// So many ids are ready now; those that wait for their time are not among them.
    fn queue_depth(&self, name: &str, ids: usize) {
        let _ = (name, ids);
    }

    /// So many ids are being handled now.
    fn in_flight(&self, name: &str, ids: usize) {
        let _ = (name, ids);
    }

    /// An id failed and will be tried again.
    fn retried(&self, name: &str) {
        let _ = name;
    }

    /// An id failed too often and was dropped until its next hint or resync.
    fn dropped(&self, name: &str) {
        let _ = name;
    }

    /// Somebody else had the lock of an id.
    fn lock_contended(&self, name: &str) {
        let _ = name;
    }

    /// A watch that ended, broke, or could not be opened is opened anew.
    fn watch_restarted(&self, name: &str) {
        let _ = name;
    }

    /// Foreign code panicked and was caught.
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

    fn list_duration(&self, name: &str, took: Duration, outcome: Outcome) {
        (**self).list_duration(name, took, outcome);
    }

    fn get_duration(&self, name: &str, took: Duration, outcome: Outcome) {
        (**self).get_duration(name, took, outcome);
    }

    fn handle_duration(&self, name: &str, took: Duration, kind: Kind, outcome: Outcome) {
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
pub enum Outcome {
    /// As it should.
    Success,
    /// In an error, a panic, a timeout or with the lock lost.
    Failure,
}

impl Outcome {
    /// What a call's result means for it.
    pub(crate) fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() {
            Self::Success
        } else {
            Self::Failure
        }
    }

    /// As the value of a label `success`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "true",
            Self::Failure => "false",
        }
    }
}

/// What the handler was called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The object is there.
    Add,
    /// It is not.
    Delete,
}

impl Kind {
    /// As the value of a label `kind`.
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
    ListDuration(Duration, Outcome),
    /// [`Recorder::get_duration`]
    GetDuration(Duration, Outcome),
    /// [`Recorder::handle_duration`]
    HandleDuration(Duration, Kind, Outcome),
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

/// Makes a recorder of a closure that takes the loop's name and what was measured.
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

    fn list_duration(&self, name: &str, took: Duration, outcome: Outcome) {
        (self.record)(name, Measurement::ListDuration(took, outcome));
    }

    fn get_duration(&self, name: &str, took: Duration, outcome: Outcome) {
        (self.record)(name, Measurement::GetDuration(took, outcome));
    }

    fn handle_duration(&self, name: &str, took: Duration, kind: Kind, outcome: Outcome) {
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
