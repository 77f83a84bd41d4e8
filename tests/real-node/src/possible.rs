//! Whether this machine can run a real node. Asks before anything is built or started.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use podloom_control_plane::token;

use crate::cgroups;

/// The programs that must be installed, and Debian's package for each.
const INSTALLED: [(&str, &str); 6] = [
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("nsenter", "util-linux"),
    ("runc", "runc"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
];

/// Controllers of cgroup v1 without which the kubelet does not start.
const CONTROLLERS: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// Inside the node's mount namespace these directories are the node's own.
const HIDDEN: [&str; 2] = ["/run", "/var"];

/// Why this machine cannot run a real node.
#[derive(Debug, thiserror::Error)]
pub enum Impossible {
    /// Not root.
    #[error("only root can make its namespaces and cgroups")]
    NotRoot,
    /// Programs are missing.
    #[error(
        "{programs} not found on PATH; on Debian, `apt-get install {packages}` installs what is missing"
    )]
    NotInstalled {
        /// Their names.
        programs: String,
        /// Debian's packages.
        packages: String,
    },
    /// Container runtimes and sandboxes often forbid namespaces.
    #[error("it may not make namespaces with a network: {0}")]
    Namespaces(String),
    /// The kernel has no overlay file system, in which containers live.
    #[error("the kernel has no overlay file system; `modprobe overlay` may load it")]
    NoOverlay,
    /// cgroups that the node could not use.
    #[error("it needs cgroup v1, and the controllers {0} are not mounted below /sys/fs/cgroup")]
    NoControllers(String),
    /// cgroups are read-only, as in most containers.
    #[error("it may not make a cgroup below its own: {0}")]
    Cgroups(String),
    /// Directories that the node would not see.
    #[error("{} would be hidden inside the node, which has its own /var and /run; set {variable} to a directory elsewhere", path.display())]
    Hidden {
        /// The directory.
        path: PathBuf,
        /// The environment variable that names another one.
        variable: &'static str,
    },
}

/// Checks that this machine can run a real node. Takes a few milliseconds, and leaves nothing.
///
/// # Errors
///
/// Fails if it cannot; the message says why, in one line.
pub fn check() -> Result<(), Impossible> {
    let id = answer(Command::new("id").arg("-u"));
    if id.as_deref() != Ok("0") {
        return Err(Impossible::NotRoot);
    }
    check_installed(env::var_os("PATH").unwrap_or_default().as_ref())?;
    check_visible(&env::temp_dir(), "TMPDIR")?;
    check_cgroups()?;
    let file_systems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !file_systems
        .split_whitespace()
        .any(|name| name == "overlay")
    {
        return Err(Impossible::NoOverlay);
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--cgroup", "--net", "--pid", "--ipc", "--uts"]);
    unshare.args(["--fork", "--mount-proc"]);
    unshare.args(["ip", "link", "add", "node0", "type", "bridge"]);
    answer(&mut unshare)
        .map(drop)
        .map_err(Impossible::Namespaces)
}

fn check_installed(path: &std::ffi::OsStr) -> Result<(), Impossible> {
    let is_missing = |name: &str| !env::split_paths(path).any(|dir| dir.join(name).is_file());
    let missing = INSTALLED.into_iter().filter(|(name, _)| is_missing(name));
    let (programs, mut packages): (Vec<_>, Vec<_>) = missing.unzip();
    packages.dedup();
    if programs.is_empty() {
        return Ok(());
    }
    Err(Impossible::NotInstalled {
        programs: programs.join(", "),
        packages: packages.join(" "),
    })
}

/// Fails if the node would not see a directory.
pub(crate) fn check_visible(path: &Path, variable: &'static str) -> Result<(), Impossible> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match HIDDEN.iter().any(|hidden| real.starts_with(hidden)) {
        true => Err(Impossible::Hidden {
            path: path.to_owned(),
            variable,
        }),
        false => Ok(()),
    }
}

fn check_cgroups() -> Result<(), Impossible> {
    // Each is mounted, and our own cgroup is in it: in some containers it is not.
    let own = cgroups::of_this_process().unwrap_or_default();
    let missing = CONTROLLERS.into_iter().filter(|controller| {
        let hierarchy = Path::new("/sys/fs/cgroup").join(controller);
        let hierarchy = hierarchy.canonicalize();
        !hierarchy.is_ok_and(|hierarchy| own.iter().any(|cgroup| cgroup.starts_with(&hierarchy)))
    });
    let missing: Vec<&str> = missing.collect();
    if !missing.is_empty() {
        return Err(Impossible::NoControllers(missing.join(", ")));
    }
    let name = token().map(|token| format!("podloom-real-node-{token}"));
    let created = name.and_then(|name| cgroups::create(&name));
    match created {
        Ok(created) => {
            cgroups::remove(&created);
            Ok(())
        }
        Err(error) => Err(Impossible::Cgroups(error.to_string())),
    }
}

/// What a command prints, or the last line of its complaint.
fn answer(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let complaint = text(&output.stderr);
    Err(complaint.lines().last().unwrap_or("no message").to_owned())
}

#[cfg(test)]
mod tests;
