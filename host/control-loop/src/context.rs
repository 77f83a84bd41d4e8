//! What every call into foreign code is told.

use tokio_util::sync::CancellationToken;
use tracing::Span;

/// The circumstances of one call of a [`Source`](crate::Source), [`Storage`](crate::Storage), [`Handler`](crate::Handler) or
/// [`ObjectLocker`](crate::ObjectLocker).
///
/// Cheap to clone. The default is for calling a handler by hand, in a test: it never stops, and it is the first attempt.
///
/// The loop only fires the tokens, it does not listen to them: cancelling one of them oneself stops nobody else.
#[derive(Clone, Debug)]
pub struct Ctx {
    /// The loop is shutting down: what has begun should end soon, and nothing long should begin.
    pub stopping: CancellationToken,
    /// Stop now: the time is up, the lock is lost, or the drain is over. Whoever goes on is dropped a few seconds later, and whatever
    /// it still returns counts as a failure.
    pub cancel: CancellationToken,
    /// One for the first attempt, one more for each that failed since the last success. Of a list and a watch, too.
    pub attempt: u32,
    /// The fencing token of the lock that is held: larger than that of any holder before. None if the lock has none.
    pub fence: Option<u64>,
    /// The span that the call runs in, for what it spawns.
    pub span: Span,
}

impl Default for Ctx {
    fn default() -> Self {
        Self {
            stopping: CancellationToken::new(),
            cancel: CancellationToken::new(),
            attempt: 1,
            fence: None,
            span: Span::none(),
        }
    }
}
