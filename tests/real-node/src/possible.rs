//! Whether this machine can run a real node. Asks before anything is built or started.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use podloom_control_plane::{BuildError, module, token};

use crate::cgroups;
use crate::modules::own;

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

/// Tries what a node does in its namespaces, one after the other, and prints the name of each attempt first.
const ATTEMPTS: &str = include_str!("attempts.sh");

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
    /// Containers live in overlay mounts, and there can be none.
    #[error(
        "it cannot make an overlay mount, in which containers live, in {}: {complaint}; `modprobe overlay` may load the file system, \
         or set TMPDIR to a directory on a local disk", directory.display()
    )]
    NoOverlay {
        /// Where it was tried.
        directory: PathBuf,
        /// What `mount` says.
        complaint: String,
    },
    /// Pods reach the API server by address translation, and the kernel or `iptables` refuses it.
    #[error(
        "iptables cannot make the rule that leads pods to the API server: {0}; `modprobe nft_chain_nat` or `modprobe iptable_nat` \
         may load what is missing, and `update-alternatives --config iptables` chooses which of them Debian's iptables uses"
    )]
    NoNat(String),
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
    /// There is no directory to build its programs into.
    #[error(transparent)]
    Cache(#[from] BuildError),
}

/// Checks that this machine can run a real node, by trying what is not allowed everywhere. Takes a few milliseconds, and leaves
/// nothing.
///
/// # Errors
///
/// Fails if it cannot; the message says why, in one line.
pub fn check() -> Result<(), Impossible> {
    let id = Command::new("id").arg("-u").output();
    if !id.is_ok_and(|id| id.stdout == b"0\n") {
        return Err(Impossible::NotRoot);
    }
    check_installed(env::var_os("PATH").unwrap_or_default().as_ref())?;
    check_visible(&env::temp_dir(), "TMPDIR")?;
    check_cache()?;
    check_cgroups()?;
    let parent = env::temp_dir();
    let name = token().map(|token| parent.join(format!("podloom-real-node-{token}")));
    let directory = name.map_err(|error| Impossible::Namespaces(error.to_string()))?;
    let tried = attempt(&directory);
    let _nothing_to_remove = fs::remove_dir_all(&directory);
    tried
}

/// Tries what a node does in its namespaces, in namespaces that end with the attempts.
fn attempt(directory: &Path) -> Result<(), Impossible> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--cgroup", "--net", "--pid", "--ipc", "--uts"]);
    unshare.args(["--fork", "--mount-proc"]);
    unshare
        .args(["sh", "-c", ATTEMPTS, "attempts"])
        .arg(directory);
    let output = unshare.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Impossible::Namespaces(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Err(failed(
        &text(&output.stdout),
        &text(&output.stderr),
        directory,
    ))
}

/// What the failure of the last attempt in `names` means.
fn failed(names: &str, errors: &str, directory: &Path) -> Impossible {
    match names.lines().last() {
        Some("overlay") => Impossible::NoOverlay {
            directory: directory.parent().unwrap_or(directory).to_owned(),
            complaint: complaint(errors, "mount"),
        },
        Some("nat") => Impossible::NoNat(complaint(errors, "iptables")),
        _ => Impossible::Namespaces(complaint(errors, "unshare")),
    }
}

/// The line of a program among its errors; its hints, and the errors of programs that it calls, are other lines.
fn complaint(errors: &str, program: &str) -> String {
    let own = errors.lines().find(|line| line.starts_with(program));
    let line = own.or_else(|| errors.lines().last());
    line.unwrap_or("no message").trim().to_owned()
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
    // What will be made in a directory is where that directory is.
    let real = path.ancestors().find_map(|path| path.canonicalize().ok());
    let real = real.unwrap_or_else(|| path.to_owned());
    match HIDDEN.iter().any(|hidden| real.starts_with(hidden)) {
        true => Err(Impossible::Hidden {
            path: path.to_owned(),
            variable,
        }),
        false => Ok(()),
    }
}

/// Fails if the node would not see the programs that are built for it, whether they are built already or not.
pub(crate) fn check_cache() -> Result<(), Impossible> {
    for module in [module(), own()] {
        check_visible(&module.cache()?, "XDG_CACHE_HOME")?;
    }
    match env::var_os("KUBEBUILDER_ASSETS").filter(|assets| !assets.is_empty()) {
        Some(assets) => check_visible(Path::new(&assets), "KUBEBUILDER_ASSETS"),
        None => Ok(()),
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

#[cfg(test)]
mod tests;
