//! The client of Infrastructure Managers (IM), of grycap/im and its REST API.
//!
//! - `target` is where a request goes and as whom, and writes that into the header `Authorization`.
//! - `call` is what is asked, and `answer` what came back. `failure` sorts everything else.
//! - `client` sends a call with the client of `outbound`.
//! - `words` makes the sentences of IM fit to be shown: short, in one line, and without the secrets that it repeats.
//!
//! IM loses answers, answers late, and does what it was asked although nobody waits for the answer any more. So each failure says
//! whether IM may have acted ([`Sent`]).

mod answer;
mod call;
mod client;
mod failure;
mod target;
mod words;

use futures::future::BoxFuture;

pub(crate) use self::answer::Answer;
pub(crate) use self::answer::{ImState, Reading};
pub(crate) use self::call::Call;
pub(crate) use self::client::ImMetrics;
#[cfg(test)]
pub(crate) use self::client::read;
pub(crate) use self::client::{ImClient, ImRules};
pub(crate) use self::failure::{Failure, FailureKind, Sent};
pub(crate) use self::target::InfrastructureId;
pub(crate) use self::target::{CloudLogin, Hidden, Owner, Target};

/// Whoever answers calls as an Infrastructure Manager does. Tests script one for what the real one cannot be made to do.
pub(crate) trait InfrastructureManager: Send + Sync + 'static {
    /// Sends a call once, and returns the answer.
    ///
    /// Dropping the future does not undo the call: IM may act on it.
    fn call<'a>(
        &'a self,
        target: &'a Target,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Answer, Failure>>;
}

#[cfg(test)]
mod tests;
