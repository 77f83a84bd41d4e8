//! The API server's answers to writes, as types.

use kube::core::Status;

use super::error::{Attempt, Error};
use super::plain::plain;
use crate::shown::at_most;

/// The longest message of the API server that is passed on, in bytes.
const SENTENCE_MAX: usize = 4096;

/// The result of a patch.
#[derive(Debug)]
pub enum Patched<K> {
    /// The object as it is now.
    Object(Box<K>),
    /// The object does not exist any more.
    Gone,
    /// The API server rejected the patch with this message.
    Rejected(String),
}

/// The result of creating or applying an object.
#[derive(Debug)]
pub enum Stored<K> {
    /// The object as it is now.
    Object(Box<K>),
    /// Another object of that name exists.
    Exists,
    /// The API server calls the object invalid, with this message.
    Invalid(String),
    /// The API server rejected the object for another reason: quota, admission, a missing right.
    Rejected {
        /// The HTTP status of its answer.
        code: u16,
        /// Its message.
        sentence: String,
    },
    /// No answer, so the object may exist or not; the message says what happened.
    Unanswered(String),
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The API server accepted the deletion; the object may still exist for a while.
    Asked,
    /// There is no object of that UID, so there is nothing left to delete.
    Gone,
}

/// Converts an answer. A webhook may deny with any status, or not answer at all; both may change, so neither is an error.
pub(super) fn stored<K>(done: Result<Result<K, kube::Error>, Error>) -> Stored<K> {
    match done {
        Ok(Ok(object)) => Stored::Object(Box::new(object)),
        Ok(Err(kube::Error::Api(status))) if status.is_already_exists() || is_anothers(&status) => {
            Stored::Exists
        }
        Ok(Err(kube::Error::Api(status)))
            if status.is_invalid() || matches!(status.code, 400 | 413) =>
        {
            Stored::Invalid(sentence(*status))
        }
        Ok(Err(kube::Error::Api(status))) => Stored::Rejected {
            code: status.code,
            sentence: sentence(*status),
        },
        Ok(Err(error)) => Stored::Unanswered(no_answer(&error)),
        Err(unanswered) => Stored::Unanswered(unanswered.to_string()),
    }
}

/// Returns whether the answer says that the object does not exist. A 404 in plain text says nothing about the object: it is from a
/// proxy, or from a server that does not serve the kind yet.
pub(super) fn is_gone(status: &Status) -> bool {
    status.reason == kube::core::response::reason::NOT_FOUND
}

/// Returns whether the answer says that the object of that name has another UID than the one that an apply names.
fn is_anothers(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_invalid()
        && causes
            .into_iter()
            .any(|cause| cause.field == "metadata.uid")
}

/// Parts of the API server's own messages that say what kind of rejection it is. They tell nothing of the object.
const TELLING: [&str; 2] = ["failed calling webhook", "because it is being terminated"];

/// Hides what an answer says about an object that is secret, and says where to look instead.
pub(super) fn veiled<K>(
    done: Result<Result<K, kube::Error>, Error>,
    attempt: Attempt,
) -> Result<Result<K, kube::Error>, Error> {
    done.map(|done| match attempt.is_secret {
        true => done.map_err(veil),
        false => done,
    })
}

fn veil(error: kube::Error) -> kube::Error {
    match error {
        kube::Error::Api(mut status) => {
            let telling = TELLING.iter().filter(|part| status.message.contains(*part));
            let parts: String = telling.map(|part| format!(" ({part})")).collect();
            status.message = format!(
                "HTTP {} {}{parts}; the rest of the answer is not shown, since it may quote the Secret: look at the API server's audit \
                 log, and at the quotas and admission policies for Secrets",
                status.code, status.reason
            );
            status.details = None;
            kube::Error::Api(status)
        }
        // It quotes what it did not expect.
        kube::Error::SerdeError(_) => {
            let error = serde::de::Error::custom("the answer has not the form of a Secret");
            kube::Error::SerdeError(error)
        }
        other => other,
    }
}

pub(super) fn no_answer(error: &kube::Error) -> String {
    format!("no answer from the API server: {}", plain(error))
}

/// The message of a status, cut to what a condition can hold, since admission webhooks may send any text.
pub(super) fn sentence(status: Status) -> String {
    at_most(SENTENCE_MAX, status.message)
}
