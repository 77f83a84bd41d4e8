//! Cleaners: each deletes a group of objects of its namespace once they are old enough and conditions hold.

mod deletion;
mod schema;
mod spec;
mod status;
mod target;
mod variable;

pub use deletion::{
    DeletionPhase, DeletionProgress, DeliveryProgress, HelmHookRun, HelmProgress, HelmStep,
    ObjectOutcome, PlannedObject,
};
pub use spec::{
    Cleaner, CleanerDeletion, CleanerDelivery, CleanerHelm, CleanerObject, CleanerRetry,
    CleanerSpec, DeliveryPolicy, PropagationPolicy,
};
pub use status::{CleanerStatus, ConditionResult, ConditionVerdict, TargetSnapshot};
pub use target::{CleanerTarget, TargetReference};
pub use variable::{TIME_VARIABLE, is_variable_name};
