//! What is different between what two chains make of pods. Pure.
//!
//! `outcome` is what a chain made of a pod, `difference` compares two of these, and `groups` collects the differences of many pods.
//! `podloom chain diff` and the candidate of the operator use this.

pub(crate) mod difference;
pub(crate) mod groups;
pub(crate) mod json;
pub(crate) mod outcome;
pub(crate) mod writers;
