//! Why a review gets no answer.

/// Why a review gets no answer. The failurePolicy of the webhook configuration decides what becomes of the object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unavailable {
    /// The requests that are being answered take all the memory that they may.
    #[error("too many requests at once; try again in a second")]
    Full,
    /// The deadline came while the pod waited for its turn, or before the chain had finished.
    #[error("the webhook is busy: the pod did not pass the chain in time; try again in a second")]
    Busy,
    /// No chain is loaded, or it did not end in time.
    #[error("{0}")]
    NoChain(String),
    /// A plugin needs to know the namespace of the pod, and the API server did not say what it is like. Holds its name, and which plugin.
    #[error("namespace {0}; try again in a second")]
    Namespace(String),
    /// What controls the pod is not known, so nor is which labels it needs.
    #[error("the controller of the pod could not be read, {0}")]
    Owner(String),
}
