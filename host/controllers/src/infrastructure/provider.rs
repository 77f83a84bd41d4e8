//! The kinds InfrastructureProvider and GlobalInfrastructureProvider: whether their Infrastructure Manager answers, and to whom.
//!
//! A provider is probed by its own controller alone, once each interval: the version, and the list of infrastructures, which needs
//! credentials. Whatever a probe finds is status, and no error. Clouds read it there.

mod act;
mod kind;
mod plan;
mod status;
mod world;

pub(crate) use self::kind::{ProviderKind, readiness};
pub(crate) use self::world::ProviderParts;

#[cfg(test)]
mod tests;
