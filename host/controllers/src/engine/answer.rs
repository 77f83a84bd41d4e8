//! What the API server answered to a write, as types.

use kube::core::Status;

use super::error::Error;

/// The longest sentence of the API server that is passed on, in bytes.
const SENTENCE_MAX: usize = 4096;

/// What became of a patch.
#[derive(Debug)]
pub enum Patched<K> {
    /// The object is now like this.
    Object(Box<K>),
    /// The object is gone.
    Gone,
    /// The API server does not allow it, and this is what it says.
    Rejected(String),
}

/// What became of an object that was to be created or applied.
#[derive(Debug)]
pub enum Stored<K> {
    /// It is there, like this.
    Object(Box<K>),
    /// One of that name is there already.
    Exists,
    /// The API server does not accept it as it is.
    Invalid(String),
    /// The API server does not let it in.
    Rejected {
        /// The HTTP status of its answer.
        code: u16,
        /// What it says.
        sentence: String,
    },
    /// Nobody answered, so it may be there all the same; the sentence says what happened.
    Unanswered(String),
}

/// What became of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The object will go.
    Asked,
    /// The object of that UID is gone.
    Gone,
}

/// A webhook may deny with any status, or not answer. Either may change, so the object is tried until its own deadline.
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

/// Returns whether the API server says that there is no such object. A 404 in plain text, from a proxy or from a server that does
/// not serve the kind yet, says nothing about the object.
pub(super) fn is_gone(status: &Status) -> bool {
    status.reason == kube::core::response::reason::NOT_FOUND
}

/// Returns whether the API server says that the object of that name has another UID: an apply that names one would change it.
fn is_anothers(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_invalid()
        && causes
            .into_iter()
            .any(|cause| cause.field == "metadata.uid")
}

pub(super) fn no_answer(error: &kube::Error) -> String {
    format!("no answer from the API server: {error}")
}

/// What the API server says, cut to what a condition can hold: admission may say anything.
pub(super) fn sentence(status: Status) -> String {
    let mut sentence = status.message;
    sentence.truncate(sentence.floor_char_boundary(SENTENCE_MAX));
    sentence
}
