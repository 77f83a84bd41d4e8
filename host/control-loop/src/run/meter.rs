//! The recorder, together with the name of the loop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tracing::error;

use crate::Recorder;

pub(super) struct Meter {
    pub(super) name: String,
    recorder: Arc<dyn Recorder>,
}

impl Meter {
    pub(super) fn new(name: String, recorder: Arc<dyn Recorder>) -> Self {
        Self { name, recorder }
    }

    /// Records a measurement. If the recorder panics, the loop continues.
    pub(super) fn record(&self, measure: impl FnOnce(&dyn Recorder, &str)) {
        let recorded = catch_unwind(AssertUnwindSafe(|| {
            measure(&*self.recorder, &self.name);
        }));
        if recorded.is_err() {
            error!("loop" = self.name, "the recorder of a loop panicked");
        }
    }
}
