//! Shell scripts, and all processes that they start.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Waits until its input is closed, then kills the group of `$1`. The system closes the input even if we are killed.
const CLEANER: &str = r#"read -r _; kill -s KILL -- "-$1" 2>/dev/null"#;

/// A running script. It is killed with all processes that it started when this is dropped, or when our own process ends.
pub struct Script {
    child: Child,
    cleaner: Child,
}

impl Script {
    /// Starts it in a process group of its own, to which the processes that it starts belong too.
    pub fn start(command: &mut Command) -> Self {
        let child = command.process_group(0).spawn().unwrap();
        let cleaner = Command::new("sh")
            .args(["-c", CLEANER, "cleaner", &child.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        Self { child, cleaner }
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        drop(self.cleaner.stdin.take());
        let _ = self.cleaner.wait();
        let _ = self.child.wait();
    }
}
