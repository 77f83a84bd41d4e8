//! Tests of the whole controller.

pub(crate) mod model;
