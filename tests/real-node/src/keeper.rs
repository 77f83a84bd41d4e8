//! The namespaces of a node, which end with their owner, for whatever reason the owner ends.
//!
//! A shell, the *keeper*, makes them as its child, and reads from a pipe whose other end only the owner holds. When the owner drops
//! that end, or dies, the system closes it. Then the keeper kills the first process in the namespaces, so the kernel ends all
//! others, and removes cgroups and files. If the keeper is killed too, the namespaces die with it, and the next start removes the
//! cgroups and files: see [`crate::leftovers`].

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use podloom_control_plane::{PATIENCE, last_lines, token, until};

use crate::cgroups;
use crate::error::NodeError;

const KEEPER: &str = include_str!("keeper.sh");
const NAMESPACES: &str = include_str!("namespaces.sh");
const ENTER: &str = include_str!("enter.sh");

/// The start of the names of directories and cgroups.
pub(crate) const NAME: &str = "podloom-real-node-";

/// The namespaces, and the directory and cgroups that go with them. Dropping it ends and removes all.
pub(crate) struct Keeper {
    /// Holds `var/`, which is the node's own /var, and `logs/`.
    pub(crate) directory: PathBuf,
    /// The first process in the namespaces, as seen from outside.
    first: u32,
    keeper: Child,
    /// Locked while the directory is in use.
    _lock: File,
}

impl Keeper {
    /// Makes the namespaces, in a new directory, and waits until they are prepared.
    pub(crate) fn start() -> Result<Self, NodeError> {
        let parent = std::env::temp_dir();
        let in_parent = |source| NodeError::File {
            path: parent.clone(),
            source,
        };
        let name = format!("{NAME}{}", token().map_err(in_parent)?);
        let directory = parent.join(&name);
        let in_directory = |source| NodeError::File {
            path: directory.clone(),
            source,
        };
        let lock = create(&directory).map_err(in_directory)?;
        let prepared = prepare(&directory, &name);
        if let Err(error) = prepared {
            // There is no keeper yet that would do it.
            let _stays_for_the_next_start = fs::remove_dir_all(&directory);
            return Err(error);
        }
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(&directory)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(lock.try_clone().map_err(in_directory)?)
            .stderr(Stdio::null())
            // Not in our group: Ctrl-C is not for the keeper, which has work to do then.
            .process_group(0)
            .spawn()
            .map_err(in_directory)?;
        let mut started = Self {
            directory,
            first: 0,
            keeper,
            _lock: lock,
        };
        started.first = started
            .until_prepared()
            .inspect_err(|_| started.keep_logs())?;
        Ok(started)
    }

    /// Leaves the logs behind when the node ends.
    pub(crate) fn keep_logs(&self) {
        if File::create_new(self.directory.join("keep-logs")).is_ok() {
            let logs = self.directory.join("logs");
            eprintln!("real node: logs are kept in {}", logs.display());
        }
    }

    /// Waits until the first process has prepared everything, and returns its id.
    fn until_prepared(&self) -> Result<u32, NodeError> {
        let prepared = self.directory.join("prepared");
        let unshare = self.directory.join("unshare");
        let found = until(Instant::now() + PATIENCE, || {
            let unshare = fs::read_to_string(&unshare).unwrap_or_default();
            let Ok(id) = unshare.trim().parse::<u32>() else {
                return Ok(None);
            };
            if prepared.exists() {
                let children = format!("/proc/{id}/task/{id}/children");
                let children = fs::read_to_string(children).unwrap_or_default();
                return Ok(children
                    .split_whitespace()
                    .next()
                    .and_then(|id| id.parse().ok()));
            }
            if is_ended(id) {
                return Err(self.ended("the first process of its namespaces", "namespaces"));
            }
            Ok(None)
        })?;
        found.ok_or_else(|| NodeError::NotReady {
            what: "the node's network",
            logs: self.directory.join("logs"),
        })
    }

    /// A program inside all namespaces and cgroups of the node. It sees the node's own /var and /run.
    pub(crate) fn inside(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", ENTER, "enter", &self.first.to_string()])
            .arg(self.directory.join("cgroups"))
            .arg(program);
        command
    }

    /// A program in the node's network, that is otherwise outside: it sees the files of this machine.
    pub(crate) fn in_network(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.first.to_string(), "--net", "--"])
            .arg(program);
        command
    }

    /// The node's root directory with all of its mounts, as seen from this machine while the node runs.
    pub(crate) fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.first))
    }

    /// Where a program's output is.
    pub(crate) fn log(&self, program: &str) -> PathBuf {
        self.directory.join("logs").join(format!("{program}.log"))
    }

    /// The error for a program that ended by itself.
    pub(crate) fn ended(&self, program: &str, log: &str) -> NodeError {
        let log = self.log(log);
        NodeError::Ended {
            program: program.to_owned(),
            output: last_lines(&fs::read_to_string(&log).unwrap_or_default(), 20),
            log,
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Closing the pipe makes the keeper clean up; waiting for it means that nothing is left when we return.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// A new directory with its lock. The lock gets its name when it is held, so that nobody takes the directory for a leftover.
fn create(directory: &Path) -> io::Result<File> {
    let mut builder = fs::DirBuilder::new();
    // Only for the owner: tokens and keys are here.
    builder.mode(0o700).create(directory)?;
    // The node's /var: containers look for files in it that are not only for root.
    for name in ["logs", "var", "var/lib", "var/log", "var/node"] {
        fs::create_dir(directory.join(name))?;
    }
    std::os::unix::fs::symlink("/run", directory.join("var/run"))?;
    let new = directory.join("lock.new");
    let lock = File::create_new(&new)?;
    lock.lock()?;
    fs::rename(new, directory.join("lock"))?;
    Ok(lock)
}

/// Makes the cgroups, and writes what the keeper reads.
fn prepare(directory: &Path, name: &str) -> Result<(), NodeError> {
    write(&directory.join("namespaces.sh"), NAMESPACES)?;
    let cgroups = cgroups::create(name).map_err(|source| NodeError::File {
        path: PathBuf::from("/sys/fs/cgroup"),
        source,
    })?;
    let lines: Vec<_> = cgroups.iter().map(|path| path.to_string_lossy()).collect();
    let written = write(&directory.join("cgroups"), &(lines.join("\n") + "\n"));
    written.inspect_err(|_| cgroups::remove(&cgroups))
}

fn write(path: &Path, text: &str) -> Result<(), NodeError> {
    fs::write(path, text).map_err(|source| NodeError::File {
        path: path.to_owned(),
        source,
    })
}

/// Whether a process is gone, or has ended and nobody has waited for it.
fn is_ended(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = status.rsplit_once(')').map_or("", |(_, rest)| rest.trim());
    state.is_empty() || state.starts_with('Z')
}
