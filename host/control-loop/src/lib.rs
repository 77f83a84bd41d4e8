#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod control_loop;
mod hints;
mod locker;
mod parts;
mod queue;
mod recorder;
mod run;

pub use control_loop::{ControlLoop, Options, Report};
pub use hints::Hints;
pub use locker::{Acquired, Guard, LockerFn, MemoryLocker, ObjectLocker, locker_fn};
pub use parts::{
    Ctx, Handler, HandlerFn, HintStream, Id, Next, Source, SourceFn, Storage, StorageFn,
    WatchedSourceFn, handler_fn, source_fn, storage_fn, watched_source_fn,
};
#[cfg(feature = "prometheus")]
pub use recorder::prometheus::LoopMetrics;
pub use recorder::{
    CallOutcome, HandleKind, Measurement, NoRecorder, Recorder, RecorderFn, recorder_fn,
};

/// Any error. The loop logs it with its causes and tries again.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
