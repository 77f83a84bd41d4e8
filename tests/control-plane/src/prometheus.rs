//! The real Prometheus, for tests of the dashboard and the alerts.
//!
//! Debian and Ubuntu have it as a package, which needs nothing but libc, so it is unpacked and not installed. apt checks the package
//! by the signed list of its archive; a checksum of ours would fail as soon as the archive has the next version.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache;
use crate::go::last_lines;

/// The package, and what is cached.
const PACKAGE: &str = "prometheus";
/// The server, and the tool that checks rules.
const PROGRAMS: [&str; 2] = ["prometheus", "promtool"];
/// How many lines of a failed command the error repeats.
const LOG_LINES: usize = 10;

/// Where the programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prometheus {
    /// The server.
    pub server: PathBuf,
    /// The tool that checks rules.
    pub promtool: PathBuf,
}

/// Why there is no Prometheus.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// There is no cache directory to unpack it into.
    #[error("neither XDG_CACHE_HOME nor HOME names a directory to unpack Prometheus into")]
    NoCache,
    /// A file or directory of the cache could not be used.
    #[error("{}", path.display())]
    Cache {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The package could not be fetched or unpacked.
    #[error(
        "{command} failed: install Prometheus yourself, so that prometheus and promtool are on PATH; if apt knows no such package, \
         run apt-get update first:\n{output}"
    )]
    Failed {
        /// What was run.
        command: String,
        /// The last lines of its output, or why it did not start.
        output: String,
    },
}

/// Returns the programs on `PATH`, else those in the user's cache directory, where the package of Debian or Ubuntu is unpacked once.
///
/// # Errors
///
/// Fails if the package cannot be fetched or unpacked, or if the cache cannot be written.
pub fn prometheus() -> Result<Prometheus, PackageError> {
    let path = env::var_os("PATH").unwrap_or_default();
    if let Some(found) = env::split_paths(&path).find_map(|directory| within(&directory)) {
        return Ok(found);
    }
    let directory =
        cache::cache(PACKAGE, ["package", env::consts::ARCH]).ok_or(PackageError::NoCache)?;
    let programs = directory.join("usr/bin");
    if let Some(found) = within(&programs) {
        return Ok(found);
    }
    let parent = directory.parent().unwrap_or(&directory);
    fs::create_dir_all(parent).map_err(in_cache(parent))?;
    let lock_file = parent.join("lock");
    let _lock = cache::lock(PACKAGE, &lock_file).map_err(in_cache(&lock_file))?;
    // Another process may have unpacked it while we waited.
    if within(&programs).is_none() {
        unpack(&directory)?;
    }
    within(&programs).ok_or_else(|| PackageError::Failed {
        command: format!("finding {} in the package", PROGRAMS.join(" and ")),
        output: format!("there is nothing of that name in {}", programs.display()),
    })
}

/// The programs, if a directory has both.
fn within(directory: &Path) -> Option<Prometheus> {
    let [server, promtool] = PROGRAMS.map(|name| directory.join(name));
    let is_both = server.is_file() && promtool.is_file();
    is_both.then_some(Prometheus { server, promtool })
}

/// Fetches the package and unpacks it. The directory appears only when it is complete.
fn unpack(directory: &Path) -> Result<(), PackageError> {
    let partial = directory.with_extension("partial");
    let _absent = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial).map_err(in_cache(&partial))?;
    eprintln!(
        "{PACKAGE}: fetching the package into {}, once",
        directory.display()
    );
    let mut fetch = Command::new("apt-get");
    fetch.args(["download", "--quiet", PACKAGE]);
    run(fetch.current_dir(&partial))?;
    let files = fs::read_dir(&partial).map_err(in_cache(&partial))?;
    for file in files {
        let file = file.map_err(in_cache(&partial))?.path();
        run(Command::new("dpkg-deb")
            .arg("--extract")
            .arg(&file)
            .arg(&partial))?;
        fs::remove_file(&file).map_err(in_cache(&file))?;
    }
    fs::rename(&partial, directory).map_err(in_cache(directory))
}

fn run(command: &mut Command) -> Result<(), PackageError> {
    let output = command.output();
    let failure = match &output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => last_lines(&String::from_utf8_lossy(&output.stderr), LOG_LINES),
        Err(error) => error.to_string(),
    };
    Err(PackageError::Failed {
        command: command.get_program().to_string_lossy().into_owned(),
        output: failure,
    })
}

fn in_cache(path: &Path) -> impl Fn(io::Error) -> PackageError {
    move |source| PackageError::Cache {
        path: path.to_owned(),
        source,
    }
}
