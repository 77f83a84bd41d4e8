//! The context of every call of the user's code.

use tokio_util::sync::CancellationToken;
use tracing::Span;

/// The context of one call of a [`Source`](crate::Source), [`Storage`](crate::Storage), [`Handler`](crate::Handler) or
/// [`ObjectLocker`](crate::ObjectLocker).
///
/// Cheap to clone. The default is for calling a handler in a test: it never stops, and it is the first attempt.
///
/// The loop cancels the tokens but does not listen to them: if the called code cancels one, nothing else stops.
#[derive(Clone, Debug)]
pub struct Ctx {
    /// The loop is shutting down: finish soon, and start nothing long.
    pub stopping: CancellationToken,
    /// Stop now: the time is up, the lock is lost, or the drain is over. A call that continues is dropped a few seconds later, and
    /// whatever it still returns counts as a failure.
    pub cancel: CancellationToken,
    /// The number of this attempt: 1, plus 1 for each failure since the last success. Lists and watches have one too.
    pub attempt: u32,
    /// The fencing token of the held lock, larger than that of any earlier holder. None if the lock has none.
    pub fence: Option<u64>,
    /// The span of the call, for tasks that it spawns.
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
