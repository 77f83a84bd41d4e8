//! Builds the programs from the Go modules pinned in `go/`, once, into the user's cache directory.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::program::Program;
use crate::version::{self, GO_MOD, Version};

/// The checksums of what is built.
const GO_SUM: &str = include_str!("../go/go.sum");

/// Where `go build` runs.
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");

/// Without debug information, which the linker would drop anyway: an eighth less processor time. It does not change what is built,
/// so it is no part of [`digest`].
const QUICKER: [&str; 1] = ["-gcflags=all=-dwarf=false"];

/// How many lines of a failed build's output the error repeats.
const LOG_LINES: usize = 20;

/// How often a slow build shows that it is still running.
const PROGRESS: Duration = Duration::from_mins(1);

/// Why the programs could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is no cache directory to build into.
    #[error("neither XDG_CACHE_HOME nor HOME names a directory to build the control plane into")]
    NoCache,
    /// Go is not installed.
    #[error(
        "building {programs} needs Go {wanted} or newer, and there is no `go` on PATH; install it from https://go.dev/dl, \
         or set KUBEBUILDER_ASSETS to a directory with {alternatives}"
    )]
    NoGo {
        /// The programs to build.
        programs: String,
        /// The oldest version that can build them.
        wanted: String,
        /// The programs and versions that make the build unnecessary.
        alternatives: String,
    },
    /// Go is installed, but too old, and does not fetch a newer one by itself.
    #[error(
        "building {programs} needs Go {wanted} or newer, and `go version` says {found:?}; install it from https://go.dev/dl, \
         unset GOTOOLCHAIN so that Go fetches it, or set KUBEBUILDER_ASSETS to a directory with {alternatives}"
    )]
    OldGo {
        /// The programs to build.
        programs: String,
        /// The oldest version that can build them.
        wanted: String,
        /// The output of `go version`.
        found: String,
        /// The programs and versions that make the build unnecessary.
        alternatives: String,
    },
    /// A file or directory of the cache could not be used.
    #[error("{}", path.display())]
    Cache {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `go build` could not be started.
    #[error("could not start go build")]
    Start(#[source] io::Error),
    /// `go build` failed.
    #[error("go build {package} failed; the whole output is in {}:\n{output}", log.display())]
    Failed {
        /// The Go package.
        package: &'static str,
        /// The file with its whole output.
        log: PathBuf,
        /// Its last lines.
        output: String,
    },
}

/// Builds those of `programs` that are missing, and returns the directory that then holds all of them.
///
/// One process builds at a time, the others wait for it. A program appears under its name only when it is complete.
pub(crate) fn ensure(programs: &[Program]) -> Result<PathBuf, BuildError> {
    let directory = directory()?;
    if absent(programs, &directory).is_empty() {
        return Ok(directory);
    }
    fs::create_dir_all(&directory).map_err(in_cache(&directory))?;
    let lock_file = directory.with_file_name("lock");
    let _lock = lock(&lock_file).map_err(in_cache(&lock_file))?;
    // Another process may have built them while we waited.
    let absent = absent(programs, &directory);
    if absent.is_empty() {
        return Ok(directory);
    }
    check_go(&absent)?;
    remove_partial(&directory).map_err(in_cache(&directory))?;
    let start = Instant::now();
    eprintln!(
        "control plane: building {} programs with Go into {}; this happens once, and two cores take about six minutes for all",
        absent.len(),
        directory.display()
    );
    for (index, program) in absent.iter().enumerate() {
        let title = format!("{} ({} of {})", program.name(), index + 1, absent.len());
        build(*program, &directory, &title)?;
    }
    eprintln!("control plane: built in {} s", start.elapsed().as_secs());
    Ok(directory)
}

/// Those of `programs` that [`ensure`] would build. Fails at once if Go is missing or too old.
pub(crate) fn missing(programs: &[Program]) -> Result<Vec<Program>, BuildError> {
    let absent = absent(programs, &directory()?);
    if !absent.is_empty() {
        check_go(&absent)?;
    }
    Ok(absent)
}

/// Where the programs of these versions and flags are, once they are built.
fn directory() -> Result<PathBuf, BuildError> {
    let home =
        cache_home(env::var_os("XDG_CACHE_HOME"), env::home_dir()).ok_or(BuildError::NoCache)?;
    Ok(home.join("podloom").join("control-plane").join(digest()))
}

fn in_cache(path: &Path) -> impl FnOnce(io::Error) -> BuildError {
    move |source| BuildError::Cache {
        path: path.to_owned(),
        source,
    }
}

/// As in the XDG Base Directory Specification, a path that is not absolute is ignored.
fn cache_home(xdg: Option<std::ffi::OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    xdg.map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(home.filter(|path| path.is_absolute())?.join(".cache")))
}

/// A digest of everything that decides what is built.
fn digest() -> String {
    let mut hash = Sha256::new();
    for text in [
        GO_MOD,
        GO_SUM,
        &flags().join("\n"),
        env::consts::OS,
        env::consts::ARCH,
    ] {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    hash.finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn absent(programs: &[Program], directory: &Path) -> Vec<Program> {
    let is_absent = |program: &Program| !directory.join(program.name()).is_file();
    programs.iter().copied().filter(is_absent).collect()
}

/// Removes what killed builds left behind.
fn remove_partial(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "partial")
        {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Holds the lock until the file is dropped; if the process is killed, the system releases it.
fn lock(path: &Path) -> io::Result<File> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    if file.try_lock().is_err() {
        eprintln!("control plane: another process is building; waiting for it");
        file.lock()?;
    }
    Ok(file)
}

/// The versions are linked in; without them the API server reports v0.0.0, and clients misbehave.
fn flags() -> [String; 5] {
    let kubernetes = version::pinned(Program::ApiServer);
    let kwok = version::pinned(Program::Kwok);
    let base = "k8s.io/component-base/version";
    let link = [
        "-s -w".to_owned(),
        format!("-X {base}.gitVersion=v{kubernetes}"),
        format!("-X {base}.gitMajor={}", kubernetes.major),
        format!("-X {base}.gitMinor={}", kubernetes.minor),
        format!("-X k8s.io/client-go/pkg/version.gitVersion=v{kubernetes}"),
        format!("-X sigs.k8s.io/kwok/pkg/consts.Version=v{kwok}"),
    ];
    [
        // On the command line these win over the user's GOFLAGS; other flags there stay.
        "-mod=readonly".to_owned(),
        "-trimpath".to_owned(),
        "-buildvcs=false".to_owned(),
        "-ldflags".to_owned(),
        link.join(" "),
    ]
}

fn go() -> Command {
    let mut command = Command::new("go");
    if env::var_os("GOGC").is_none() {
        // The compiler collects garbage less often: a fifth less processor time, for a few hundred MiB of memory.
        command.env("GOGC", "400");
    }
    command
        .current_dir(MODULE)
        .env("CGO_ENABLED", "0")
        // Ignore a Go workspace around the checkout, and the target of the user's cross builds.
        .env("GOWORK", "off")
        .env_remove("GOOS")
        .env_remove("GOARCH")
        .stdin(Stdio::null());
    command
}

/// Runs `go version` in the module's directory, since there Go switches to the version that the module needs, unless the user
/// has disabled that.
fn check_go(absent: &[Program]) -> Result<(), BuildError> {
    let programs = absent
        .iter()
        .map(|program| program.name())
        .collect::<Vec<_>>()
        .join(", ");
    let alternatives = absent
        .iter()
        .map(|program| {
            let version = version::pinned(*program);
            format!("{} {}.{}", program.name(), version.major, version.minor)
        })
        .collect::<Vec<_>>()
        .join(", ");
    let wanted = GO_MOD
        .lines()
        .find_map(|line| version::first_version(line.strip_prefix("go ")?));
    let wanted_text = wanted.map_or_else(String::new, |wanted: Version| wanted.to_string());
    let Ok(output) = go().arg("version").output() else {
        return Err(BuildError::NoGo {
            programs,
            wanted: wanted_text,
            alternatives,
        });
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && version::first_version(&printed) >= wanted {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(BuildError::OldGo {
        programs,
        wanted: wanted_text,
        found: format!("{}{}", printed.trim(), error.trim()),
        alternatives,
    })
}

/// Builds one program under a temporary name, and renames it when it is complete.
fn build(program: Program, directory: &Path, title: &str) -> Result<(), BuildError> {
    let start = Instant::now();
    let log = directory.join(format!("{}.log", program.name()));
    // With our process id in the name, since the `go build` of a killed process may still be writing to its own file.
    let partial = directory.join(format!("{}.{}.partial", program.name(), process::id()));
    let output = File::create(&log).map_err(in_cache(&log))?;
    let errors = output.try_clone().map_err(in_cache(&log))?;
    eprintln!("control plane: building {title}");
    let mut child = go()
        .arg("build")
        .args(flags())
        .args(QUICKER)
        .arg("-o")
        .args([partial.as_os_str(), program.package().as_ref()])
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(BuildError::Start)?;
    let mut next_message = PROGRESS;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(BuildError::Start)? {
            break status;
        }
        if start.elapsed() >= next_message {
            eprintln!(
                "control plane: still building {title}, {} s so far",
                next_message.as_secs()
            );
            next_message += PROGRESS;
        }
        thread::sleep(Duration::from_millis(200));
    };
    if !status.success() {
        return Err(BuildError::Failed {
            package: program.package(),
            output: last_lines(&fs::read_to_string(&log).unwrap_or_default(), LOG_LINES),
            log,
        });
    }
    eprintln!(
        "control plane: {title} built in {} s",
        start.elapsed().as_secs()
    );
    let complete = directory.join(program.name());
    fs::rename(&partial, &complete).map_err(in_cache(&complete))?;
    // The log is only useful after a failure.
    fs::remove_file(&log).map_err(in_cache(&log))
}

/// The last lines of a text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let skip = lines.len().saturating_sub(count);
    lines.into_iter().skip(skip).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
