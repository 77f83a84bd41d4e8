//! The recorder, under the name of a loop.

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

    /// Lets the recorder take a measurement. Should it panic, the loop goes on without it.
    pub(super) fn tell(&self, measure: impl FnOnce(&dyn Recorder, &str)) {
        let told = catch_unwind(AssertUnwindSafe(|| {
            measure(&*self.recorder, &self.name);
        }));
        if told.is_err() {
            error!("loop" = self.name, "the recorder of a loop panicked");
        }
    }
}
