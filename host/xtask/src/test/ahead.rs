//! A task that is done beside others, with what these leave of the processors.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A running `cargo xtask TASK`. What it does is found done later; whether it failed is seen then, too.
pub(super) struct Ahead(Option<Child>);

impl Ahead {
    /// Starts a task. Without the program `nice` it is not started, and done later.
    pub(super) fn start(task: &str) -> Self {
        let Ok(program) = std::env::current_exe() else {
            return Self(None);
        };
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(program).arg(task);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // In a group of its own, so that it can be ended with all that it started.
        let child = command.stderr(Stdio::null()).process_group(0).spawn();
        Self(child.ok())
    }

    /// Waits until it has ended.
    pub(super) fn wait(mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.wait();
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let Some(child) = &mut self.0 else { return };
        let group = format!("-{}", child.id());
        let _ = Command::new("kill")
            .args(["-s", "TERM", "--", &group])
            .status();
        let _ = child.wait();
    }
}
