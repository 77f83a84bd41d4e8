//! Builds the programs from the Go modules pinned in `go/`, once, into the user's cache directory.

use std::env;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::programs::Program;
use crate::version::{self, Version};

/// What is built, and from what.
pub(crate) const GO_MOD: &str = include_str!("../go/go.mod");
const GO_SUM: &str = include_str!("../go/go.sum");

/// Where `go build` runs.
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");

/// How much of a failed build's output the error repeats.
const TOLD_LINES: usize = 20;

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
        /// What is to be built.
        programs: String,
        /// The oldest version that can.
        wanted: String,
        /// The programs and versions that would do instead.
        alternatives: String,
    },
    /// Go is installed, but too old, and does not fetch a newer one by itself.
    #[error(
        "building {programs} needs Go {wanted} or newer, and `go version` says {found:?}; install it from https://go.dev/dl, \
         unset GOTOOLCHAIN so that Go fetches it, or set KUBEBUILDER_ASSETS to a directory with {alternatives}"
    )]
    OldGo {
        /// What is to be built.
        programs: String,
        /// The oldest version that can.
        wanted: String,
        /// What `go version` says.
        found: String,
        /// The programs and versions that would do instead.
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
        /// Where all that it said is.
        log: PathBuf,
        /// Its last lines.
        output: String,
    },
}

/// Builds what is missing of `programs`, and returns the directory that then holds them.
///
/// One process builds at a time, the others wait for it. A program appears under its name only when it is complete.
pub(crate) fn ensure(programs: &[Program]) -> Result<PathBuf, BuildError> {
    let home =
        cache_home(env::var_os("XDG_CACHE_HOME"), env::home_dir()).ok_or(BuildError::NoCache)?;
    let home = home.join("podloom").join("control-plane");
    let directory = home.join(digest());
    if missing(programs, &directory).is_empty() {
        return Ok(directory);
    }
    let in_cache = |path: &Path, source| BuildError::Cache {
        path: path.to_owned(),
        source,
    };
    fs::create_dir_all(&directory).map_err(|source| in_cache(&directory, source))?;
    let _lock = lock(&home.join("lock")).map_err(|source| in_cache(&home.join("lock"), source))?;
    // Another process may have built them while we waited.
    let missing = missing(programs, &directory);
    if missing.is_empty() {
        return Ok(directory);
    }
    check_go(&missing)?;
    remove_partial(&directory).map_err(|source| in_cache(&directory, source))?;
    let start = Instant::now();
    eprintln!(
        "control plane: building {} programs into {}; this is done once and takes minutes",
        missing.len(),
        directory.display()
    );
    for (index, program) in missing.iter().enumerate() {
        let progress = format!("[{}/{}] {}", index + 1, missing.len(), program.name());
        build(*program, &directory, &progress)?;
    }
    eprintln!("control plane: built in {} s", start.elapsed().as_secs());
    Ok(directory)
}

/// As the XDG Base Directory Specification says: a path that is not absolute is ignored.
fn cache_home(xdg: Option<std::ffi::OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    xdg.map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(home.filter(|path| path.is_absolute())?.join(".cache")))
}

/// Names everything that decides what is built.
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

fn missing(programs: &[Program], directory: &Path) -> Vec<Program> {
    let is_missing = |program: &Program| !directory.join(program.name()).is_file();
    programs.iter().copied().filter(is_missing).collect()
}

/// What builders that were killed left behind.
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

/// Holds the lock until the file is dropped; the system drops it for a process that was killed.
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

/// Without the versions linked in, the API server calls itself v0.0.0 and clients misbehave.
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
        // On the command line these win over the user's GOFLAGS; whatever else is set there, a proxy for example, stays.
        "-mod=readonly".to_owned(),
        "-trimpath".to_owned(),
        "-buildvcs=false".to_owned(),
        "-ldflags".to_owned(),
        link.join(" "),
    ]
}

fn go() -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(MODULE)
        .env("CGO_ENABLED", "0")
        // Neither a workspace around the checkout nor a cross build that the user is busy with is ours.
        .env("GOWORK", "off")
        .env_remove("GOOS")
        .env_remove("GOARCH")
        .stdin(Stdio::null());
    command
}

/// Asked in the module's directory, since there Go switches to the version that the module asks for, if it may.
fn check_go(missing: &[Program]) -> Result<(), BuildError> {
    let programs = missing
        .iter()
        .map(|program| program.name())
        .collect::<Vec<_>>()
        .join(", ");
    let alternatives = missing
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
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && version::first_version(&said) >= wanted {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(BuildError::OldGo {
        programs,
        wanted: wanted_text,
        found: format!("{}{}", said.trim(), error.trim()),
        alternatives,
    })
}

/// Builds one program beside its place and moves it there.
fn build(program: Program, directory: &Path, progress: &str) -> Result<(), BuildError> {
    let in_cache = |path: &Path, source| BuildError::Cache {
        path: path.to_owned(),
        source,
    };
    let start = Instant::now();
    let log = directory.join(format!("{}.log", program.name()));
    // A name of our own: the `go build` of a builder that was killed may still be writing to its own.
    let partial = directory.join(format!("{}.{}.partial", program.name(), process::id()));
    let output = File::create(&log).map_err(|source| in_cache(&log, source))?;
    let errors = output
        .try_clone()
        .map_err(|source| in_cache(&log, source))?;
    let mut child = go()
        .arg("build")
        .args(flags())
        .arg("-o")
        .args([partial.as_os_str(), program.package().as_ref()])
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(BuildError::Start)?;
    let live = io::stderr().is_terminal();
    if !live {
        eprintln!("control plane: {progress} ...");
    }
    let status = loop {
        if let Some(status) = child.try_wait().map_err(BuildError::Start)? {
            break status;
        }
        if live {
            eprint!(
                "\rcontrol plane: {progress} ... {} s",
                start.elapsed().as_secs()
            );
        }
        thread::sleep(Duration::from_millis(200));
    };
    let again = if live { "\r" } else { "" };
    eprintln!(
        "{again}control plane: {progress} ... {} s",
        start.elapsed().as_secs()
    );
    if !status.success() {
        return Err(BuildError::Failed {
            package: program.package(),
            output: last_lines(&fs::read_to_string(&log).unwrap_or_default(), TOLD_LINES),
            log,
        });
    }
    let place = directory.join(program.name());
    fs::rename(&partial, &place).map_err(|source| in_cache(&place, source))?;
    // Only of use after a failure.
    fs::remove_file(&log).map_err(|source| in_cache(&log, source))
}

/// The end of a long text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let skip = lines.len().saturating_sub(count);
    lines.into_iter().skip(skip).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
