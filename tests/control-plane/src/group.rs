//! A group of processes that ends with its owner, for whatever reason the owner ends.
//!
//! Two shells do it. The *holder* leads the process group, so the group's id stays valid from before the first member starts until
//! after the last one ends. The *cleaner* is outside the group and reads from a pipe whose other end only the owner holds. When the
//! owner drops that end, or dies for any reason, the system closes it; then the cleaner kills the group and removes the directory.
//! The members do not get the Ctrl-C that is typed for the owner, since they are in a group of their own; the cleaner ends them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::keys;
use crate::program::Program;

/// Blocks until the owner is gone.
const HOLDER: &str = "read -r _";

/// `$1` is the group, `$2` the directory. Files may still appear while the group dies, so removing is retried.
const CLEANER: &str = r#"
read -r _
kill -KILL "-$1" 2>/dev/null
if [ -e "$2/keep-logs" ]; then rest=$2/data; else rest=$2; fi
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  rm -rf "$rest" 2>/dev/null && exit
  sleep 0.1
done
"#;

/// The processes, and the directory that goes with them.
///
/// Dropping it kills all members and removes the directory, but not the logs if [`keep_logs`] was called for it.
pub(crate) struct Group {
    /// Holds `data/` and `logs/`.
    pub(crate) directory: PathBuf,
    id: i32,
    holder: Child,
    cleaner: Child,
    members: Mutex<Vec<(Program, Child)>>,
}

impl Group {
    /// A group without members, in a new directory.
    pub(crate) fn new() -> io::Result<Self> {
        let name = format!("podloom-control-plane-{}", keys::token()?);
        let directory = std::env::temp_dir().join(name);
        let mut builder = fs::DirBuilder::new();
        // Only for the owner: tokens and keys are here.
        builder.mode(0o700).recursive(true);
        builder.create(directory.join("data"))?;
        builder.create(directory.join("logs"))?;
        let holder = shell(HOLDER).spawn()?;
        let id = i32::try_from(holder.id()).map_err(io::Error::other)?;
        let cleaner = shell(CLEANER)
            .arg("cleaner")
            .arg(id.to_string())
            .arg(&directory)
            .spawn()?;
        Ok(Self {
            directory,
            id,
            holder,
            cleaner,
            members: Mutex::default(),
        })
    }

    /// Starts a member; one that starts again appends to the same log.
    pub(crate) fn spawn(&self, program: Program, command: &mut Command) -> io::Result<()> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log(program))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(self.id)
            .spawn()?;
        self.members().push((program, child));
        Ok(())
    }

    /// Kills one member, and forgets it.
    pub(crate) fn kill(&self, program: Program) -> io::Result<()> {
        for (_, mut child) in self
            .members()
            .extract_if(.., |(member, _)| *member == program)
        {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// A member that ended by itself.
    pub(crate) fn ended(&self) -> Option<Program> {
        let mut members = self.members();
        let mut ended = members.iter_mut().filter_map(|(program, child)| {
            child.try_wait().ok()??;
            Some(*program)
        });
        ended.next()
    }

    /// The members and their process ids.
    pub(crate) fn processes(&self) -> Vec<(Program, u32)> {
        let id = |(program, child): &(Program, Child)| (*program, child.id());
        self.members().iter().map(id).collect()
    }

    /// Where a member's output is.
    pub(crate) fn log(&self, program: Program) -> PathBuf {
        let name = format!("{}.log", program.name());
        self.directory.join("logs").join(name)
    }

    fn members(&self) -> MutexGuard<'_, Vec<(Program, Child)>> {
        // A panic cannot leave the list in a bad state.
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Closing the pipes makes both shells end; waiting for the cleaner means that nothing is left when we return.
        drop(self.cleaner.stdin.take());
        let _ = self.cleaner.wait();
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
        for (_, child) in self.members().iter_mut() {
            // Only needed if somebody killed the cleaner.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Lets the logs outlive their group; true the first time, false once the directory is gone.
pub(crate) fn keep_logs(directory: &Path) -> bool {
    File::create_new(directory.join("keep-logs")).is_ok()
}

/// A shell in a process group of its own, with a pipe to its input. It keeps none of our outputs and directories open.
fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command
}
