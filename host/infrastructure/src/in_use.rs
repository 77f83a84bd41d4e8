//! The finalizer in-use: Clouds, providers and Secrets stay until no Cluster needs them.
//!
//! - [`needs`](Users) says which Clouds a Cluster needs, and how much. A Cluster that has no infrastructure yet only *wants* its Cloud:
//!   that keeps the finalizer on a Cloud, but does not keep a Cloud that is being deleted. One with our own finalizer *has* something
//!   there.
//! - [`step`] says what to do about one object. A cache alone never removes the finalizer: the users are read from the API server first.
//! - `secrets` is a control loop that does the same for Secrets, which are no kind of ours.
//!
//! Nothing is created behind the back of a release. A Cluster gets its own finalizer first, and then asks with [`confirm`] whether its
//! Cloud and provider have theirs and are not being deleted. Whoever releases a Cloud reads the Clusters after that would say no: after
//! its deletion began, or after another finalizer took the place of ours. So one of both sees the other.
//!
//! What is cluster-scoped may be used from all namespaces, so it is released only after a look at all of them, whichever are watched:
//! several installations may use the same object.

mod confirm;
mod known;
mod leads;
mod live;
mod needs;
pub(super) mod secrets;

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::names::infrastructure::{ENDING_FINALIZER, IN_USE_FINALIZER};

pub(crate) use self::confirm::{Guard, confirm};
pub(crate) use self::known::Known;
pub(crate) use self::leads::{clouds_of_provider, clouds_of_secret};
pub(crate) use self::live::{Live, Resources};
pub(crate) use self::needs::{Need, Users, needs};

use super::resolve::is_guarded;
use podloom_engine::error::Error;
use podloom_engine::kind::Source;
use podloom_engine::plan::Then;
use podloom_engine::write::MetadataPatch;

/// How the finalizer is removed from an object that is not being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// Another one takes its place until the users were read once more: Clusters rely on it when they create something.
    InTwoSteps,
    /// At once.
    AtOnce,
}

/// What to do about the finalizer of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Rest,
    /// Read the users from the API server, since the caches say that there are none.
    Confirm,
    /// Add it or remove it.
    Write(MetadataPatch),
}

/// Returns what to do about the finalizer of an object with these users. `from` is where they were read, after the object.
pub(crate) fn step(object: &ObjectMeta, users: &Users, from: Source, release: Release) -> Step {
    let is_deleted = object.deletion_timestamp.is_some();
    let is_needed = match users.needs {
        None => false,
        Some(Need::Wants) => !is_deleted,
        Some(Need::Has) => true,
    };
    match (is_guarded(object), is_needed) {
        (true, true) => Step::Rest,
        // The API server accepts no new finalizer then. One that was about to end goes on to keep the object.
        (false, true) if is_deleted => Step::Rest,
        (false, true) => Step::Write(with(object, IN_USE_FINALIZER)),
        (_, false) if !is_held(object) => Step::Rest,
        (_, false) => match (from, release) {
            (Source::Cache, _) => Step::Confirm,
            (Source::Live, Release::InTwoSteps) if is_guarded(object) && !is_deleted => {
                Step::Write(with(object, ENDING_FINALIZER))
            }
            (Source::Live, _) => Step::Write(released(object)),
        },
    }
}

/// Returns whether an object stays because of us.
pub(crate) fn is_held(object: &ObjectMeta) -> bool {
    object.finalizers.iter().flatten().any(|it| is_ours(it))
}

/// Returns the users of an object, after the API server was asked for them. `seen` is what the cache says.
///
/// If we may not read who they are, the object stays as it is; but if it is being deleted, that is an error, which says why it stays.
pub(crate) fn unless_hidden(
    found: Result<Users, Error>,
    object: &ObjectMeta,
    seen: Users,
) -> Result<Users, Error> {
    match found {
        Err(error) if object.deletion_timestamp.is_none() && live::is_forbidden(&error) => {
            Ok(Users {
                needs: Some(Need::Has),
                ..seen
            })
        }
        found => found,
    }
}

/// Returns when to try again to write the finalizer, after the API server refused it with this message.
pub(crate) fn retry(message: &str) -> Then {
    Then::Retry {
        reason: "SetMetadata",
        message: format!("the finalizer {IN_USE_FINALIZER} could not be written: {message}"),
        until: Timestamp::MAX,
    }
}

fn is_ours(finalizer: &str) -> bool {
    [IN_USE_FINALIZER, ENDING_FINALIZER].contains(&finalizer)
}

/// The patch that leaves the finalizers of others.
fn released(object: &ObjectMeta) -> MetadataPatch {
    let finalizers = object.finalizers.iter().flatten();
    let others = finalizers.filter(|it| !is_ours(it)).cloned();
    MetadataPatch {
        finalizers: Some(others.collect()),
        ..MetadataPatch::default()
    }
}

/// The patch that leaves this finalizer of ours, and those of others.
fn with(object: &ObjectMeta, finalizer: &str) -> MetadataPatch {
    let mut patch = released(object);
    if let Some(finalizers) = &mut patch.finalizers {
        finalizers.push(finalizer.to_owned());
    }
    patch
}

#[cfg(test)]
mod tests;
