//! The kinds Cloud and GlobalCloud: whether their provider and Secrets exist, and whether the cloud answers.
//!
//! Whether the provider's Infrastructure Manager answers is read in the provider's status. The cloud itself is asked for its quotas, and
//! the more Clouds a provider has, the less often. That is information: nothing of it keeps Clusters from being created.

mod act;
mod kind;
mod plan;
mod status;
mod world;

pub(crate) use self::kind::CloudKind;
pub(crate) use self::world::CloudParts;

#[cfg(test)]
mod tests;
