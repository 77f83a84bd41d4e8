//! Tests of the whole controller.

mod model;
