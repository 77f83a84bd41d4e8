#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod context;
mod control_loop;
mod handler;
mod hints;
mod id;
mod locker;
mod options;
mod queue;
mod recorder;
mod run;
mod source;
mod storage;

pub use context::Ctx;
pub use control_loop::{ControlLoop, Report};
pub use handler::{Handler, HandlerFn, Next, handler_fn};
pub use hints::Hints;
pub use id::Id;
pub use locker::{Acquired, Guard, LockerFn, MemoryLocker, ObjectLocker, locker_fn};
pub use options::Options;
#[cfg(feature = "prometheus")]
pub use recorder::prometheus::LoopMetrics;
pub use recorder::{
    CallOutcome, HandleKind, Measurement, NoRecorder, Recorder, RecorderFn, recorder_fn,
};
pub use source::{HintStream, Source, SourceFn, WatchedSourceFn, source_fn, watched_source_fn};
pub use storage::{Storage, StorageFn, storage_fn};

/// Any error. The loop logs it with its causes and tries again.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
