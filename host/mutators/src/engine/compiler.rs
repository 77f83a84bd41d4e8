//! Compiling: one plugin at a time, on a thread of its own, and nobody waits for it longer than he wants.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::text::one_line;
use crate::until::Until;

/// Cranelift and the encoder recurse over hostile input on a stack of known size.
const STACK: usize = 16 << 20;

/// Whose turn it is to compile.
#[derive(Default)]
pub(super) struct Compiler {
    turn: Arc<Mutex<()>>,
}

/// Why a step of compiling gave no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CompileThreadError {
    #[error("cannot start a thread to compile on: {0}")]
    Start(String),
    #[error("the compiler gave up on it: {0}")]
    Panicked(String),
    /// Nobody waits for it any longer.
    #[error("it takes too long")]
    TooLong,
}

impl Compiler {
    /// Looks at a plugin, and compiles it if that found nothing wrong; both on a thread of its own, so that a panic in the
    /// compiler over hostile input is an error of that input and costs the process nothing.
    ///
    /// The compiler cannot be interrupted. When the time is over it is left to its end, and what it makes is dropped. Until
    /// then nothing else is compiled, which holds up later plugins for a second or two, since the look bounds what is
    /// compiled; it needs no turn, so what is refused is refused at once.
    pub(super) fn run<L: Send + 'static, T: Send + 'static, E: Send + 'static>(
        &self,
        look: impl FnOnce() -> Result<L, E> + Send + 'static,
        compile: impl FnOnce(L) -> Result<T, E> + Send + 'static,
        until: Until,
    ) -> Result<Result<T, E>, CompileThreadError> {
        let (answer, compiled) = mpsc::sync_channel(1);
        let turn = Arc::clone(&self.turn);
        let steps = move || {
            let looked = match look() {
                Ok(looked) => looked,
                Err(error) => return drop(answer.send(Err(error))),
            };
            let _one_at_a_time = turn.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever gave up while another plugin was compiled leaves nothing to do.
            if !until.is_over() {
                drop(answer.send(compile(looked)));
            }
        };
        let thread = thread::Builder::new()
            .name("podloom-compile".to_owned())
            .stack_size(STACK)
            .spawn(steps)
            .map_err(|error| CompileThreadError::Start(error.to_string()))?;
        let compiled = match until.left() {
            None => compiled.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(left) => compiled.recv_timeout(left),
        };
        match compiled {
            Ok(compiled) => Ok(compiled),
            Err(RecvTimeoutError::Timeout) => Err(CompileThreadError::TooLong),
            // The thread has ended, or is about to.
            Err(RecvTimeoutError::Disconnected) => Err(match thread.join() {
                Ok(()) => CompileThreadError::TooLong,
                Err(panic) => CompileThreadError::Panicked(panic_message(panic.as_ref())),
            }),
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    one_line(text.unwrap_or("no reason given"), 200)
}

#[cfg(test)]
mod tests;
