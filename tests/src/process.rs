//! Processes that end with the test binary, for whatever reason it ends.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Waits until its input is closed, then kills `$1`. The system closes the input even if we are killed.
const CLEANER: &str = r#"read -r _; kill -KILL "$1" 2>/dev/null"#;

/// A signal for a process.
#[derive(Clone, Copy, Debug)]
pub enum Signal {
    /// End gracefully.
    Terminate,
    /// Pause.
    Stop,
    /// Continue after a pause.
    Continue,
}

/// A process that is killed when this is dropped, or when our own process ends.
pub(crate) struct Process {
    child: Child,
    cleaner: Child,
}

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        // In a group of its own, so that a Ctrl-C for us does not reach it; the cleaner ends it.
        let child = command.process_group(0).spawn()?;
        let cleaner = Command::new("sh")
            .args(["-c", CLEANER, "cleaner", &child.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { child, cleaner })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let name = match signal {
            Signal::Terminate => "TERM",
            Signal::Stop => "STOP",
            Signal::Continue => "CONT",
        };
        // The shell's own kill, since std has none.
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{name} {}", self.child.id())])
            .status()
            .unwrap();
        assert!(sent.success(), "could not send SIG{name}");
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        // The cleaner first: once the child is reaped, another process may get its id.
        let _ = self.cleaner.kill();
        let _ = self.cleaner.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
