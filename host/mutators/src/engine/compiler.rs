//! Compiles one plugin at a time on a thread of its own; callers wait no longer than their deadline.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;

use podloom_turns::lock;

use crate::text::one_line;
use crate::until::Until;

/// Stack size of the thread: Cranelift and the encoder recurse over hostile input.
const STACK: usize = 16 << 20;

/// Lets one plugin compile at a time.
#[derive(Default)]
pub(super) struct Compiler {
    turn: Arc<Mutex<()>>,
}

/// Why compiling gave no result.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CompileThreadError {
    #[error("cannot start a thread to compile on: {0}")]
    Start(String),
    #[error("the compiler panicked: {0}")]
    Panicked(String),
    /// The deadline has passed.
    #[error("it takes too long")]
    TooLong,
}

impl Compiler {
    /// Inspects a plugin, then compiles it if the inspection found nothing wrong. Both run on a thread of their own, so a panic
    /// of the compiler over hostile input becomes an error, and the process goes on.
    ///
    /// The compiler cannot be interrupted. When the deadline passes, it goes on in the background and its result is dropped. Later
    /// plugins wait for that a second or two at most, since the inspection bounds what is compiled. The inspection itself does
    /// not wait for other plugins, so a bad file is refused at once.
    pub(super) fn run<L: Send + 'static, T: Send + 'static, E: Send + 'static>(
        &self,
        inspect: impl FnOnce() -> Result<L, E> + Send + 'static,
        compile: impl FnOnce(L) -> Result<T, E> + Send + 'static,
        until: Until,
    ) -> Result<Result<T, E>, CompileThreadError> {
        let (answer, compiled) = mpsc::sync_channel(1);
        let turn = Arc::clone(&self.turn);
        let steps = move || {
            let inspected = match inspect() {
                Ok(inspected) => inspected,
                Err(error) => return drop(answer.send(Err(error))),
            };
            let _one_at_a_time = lock(&turn);
            // The caller may have given up while another plugin was compiled.
            if !until.is_over() {
                drop(answer.send(compile(inspected)));
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
