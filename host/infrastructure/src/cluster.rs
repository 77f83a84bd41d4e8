//! Clusters: machines that an Infrastructure Manager (IM) creates from a template and keeps as they should be.
//!
//! A pass asks IM one thing at most. Whatever changes something is written into `status.operation` before it is sent, so that a lost
//! answer, a crash or another process is never a reason to do it twice, nor to forget that it was done.
//!
//! - [`world`] is all that a plan depends on; of it, [`durable`] is what only the status knows, and [`memory`] what can be read again.
//! - [`step`] decides what to do next, and [`plan`] adds the status and the Events.
//! - [`act`] does it, and [`absorb`] says what the outcome means, an answer of IM among them.
//! - [`view`] and [`conditions`] are what people get to see.

mod absorb;
mod act;
mod action;
mod claims;
mod conditions;
mod durable;
mod kind;
mod memory;
mod plan;
mod silent;
mod step;
mod view;
mod world;

pub(crate) use claims::Claims;
pub(crate) use kind::ClusterKind;
pub(crate) use memory::Memory;
pub(crate) use silent::Silent;
pub(crate) use world::Settings;

#[cfg(test)]
pub(crate) mod fixtures {
    //! What tests of others need.

    use super::Memory;
    use super::memory::{At, Known};
    use crate::im::Reading;

    pub(crate) use super::action::{Action, Outcome};
    pub(crate) use super::world::World;

    /// A memory in which the states of these Clusters were read, by UID.
    pub(crate) fn remembering(readings: &[(&str, Reading)]) -> Memory {
        let memory = Memory::default();
        for (uid, reading) in readings {
            let at = jiff::Timestamp::UNIX_EPOCH;
            let reading = Some(At {
                what: reading.clone(),
                at,
            });
            let known = Known {
                reading,
                ..Known::default()
            };
            memory.begin(uid, known);
        }
        memory
    }
}
