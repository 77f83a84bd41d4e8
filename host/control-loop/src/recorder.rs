//! The metrics of a loop.

#[cfg(feature = "prometheus")]
pub(crate) mod prometheus;

use std::sync::Arc;
use std::time::Duration;

/// The calls of a recorder, and each as data.
macro_rules! measurements {
    ($($(#[$doc:meta])+ $method:ident$(($($value:ident: $type:ty),+))? => $measurement:ident;)+) => {
        /// Receives the measurements of loops; several loops can share one.
        ///
        /// Every method does nothing by default. The first argument is always the name of the loop. The loop's own task and its workers call
        /// them, so they must return at once.
        pub trait Recorder: Send + Sync + 'static {
            $($(#[$doc])+ fn $method(&self, name: &str $($(, $value: $type)+)?) {
                let _ = (name, $($($value),+)?);
            })+
        }

        impl<T: Recorder + ?Sized> Recorder for Arc<T> {
            $(fn $method(&self, name: &str $($(, $value: $type)+)?) {
                (**self).$method(name $($(, $value)+)?);
            })+
        }

        /// One call of a [`Recorder`], as data.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Measurement {
            $(#[doc = concat!("[`Recorder::", stringify!($method), "`]")] $measurement $(($($type),+))?,)+
        }

        impl<F: Fn(&str, Measurement) + Send + Sync + 'static> Recorder for RecorderFn<F> {
            $(fn $method(&self, name: &str $($(, $value: $type)+)?) {
                (self.record)(name, Measurement::$measurement $(($($value),+))?);
            })+
        }

        #[cfg(feature = "prometheus")]
        impl Recorder for prometheus::LoopMetrics {
            $(fn $method(&self, name: &str $($(, $value: $type)+)?) {
                self.record(name, Measurement::$measurement $(($($value),+))?);
            })+
        }
    };
}

measurements! {
    /// This many ids became ready. A hint for an id that is ready already is not counted.
    queue_queued(ids: u64) => QueueQueued;
    /// A worker took an id off the queue.
    queue_dequeued => QueueDequeued;
    /// How long an id was ready before a worker took it.
    queued_duration(took: Duration) => QueuedDuration;
    /// A list ended.
    list_duration(took: Duration, outcome: CallOutcome) => ListDuration;
    /// The storage returned, or was dropped.
    get_duration(took: Duration, outcome: CallOutcome) => GetDuration;
    /// The handler returned or was dropped.
    handle_duration(took: Duration, kind: HandleKind, outcome: CallOutcome) => HandleDuration;
    /// This many ids are ready now, without the delayed ones.
    queue_depth(ids: usize) => QueueDepth;
    /// This many ids are being handled now.
    in_flight(ids: usize) => InFlight;
    /// An id failed and will be retried.
    retried => Retried;
    /// An id failed too often and was dropped until its next hint or resync.
    dropped => Dropped;
    /// Another holder had the lock of an id.
    lock_contended => LockContended;
    /// A watch that ended, failed, or could not be opened is opened again.
    watch_restarted => WatchRestarted;
    /// A panic of the user's code was caught.
    panicked => Panicked;
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
