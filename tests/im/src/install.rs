//! Installs the server once, into the user's cache directory.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use podloom_control_plane::{cache, last_lines, lock};

use crate::VERSION;
use crate::error::{InstallError, VARIABLE};
use crate::python::Interpreter;

/// What messages begin with; it also names the directory in the cache.
const TITLE: &str = "IM server";

/// The packages that pip needs to build others, which are installed first.
const BUILD: &str = include_str!("../build-requirements.txt");

/// All other packages.
const REQUIREMENTS: &str = include_str!("../requirements.txt");

/// How many lines of a failed installation's output the error repeats.
const LOG_LINES: usize = 20;

/// The interpreter of an environment that has the server; makes the environment if there is none.
///
/// One process installs at a time, the others wait for it. What a killed process left is removed.
///
/// # Errors
///
/// Fails if `PODLOOM_IM_PYTHON` names an environment without the server, if Python or its module venv is missing, or if a package
/// cannot be installed; the message says what to install.
pub fn python() -> Result<PathBuf, InstallError> {
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return given(PathBuf::from(path));
    }
    let system = Interpreter::system()?;
    let texts = [
        BUILD,
        REQUIREMENTS,
        &system.identity,
        env::consts::OS,
        env::consts::ARCH,
    ];
    let directory = cache(TITLE, texts).ok_or(InstallError::NoCache)?;
    let environment = Environment { directory };
    if !environment.is_complete() {
        environment.install(&system)?;
    }
    Ok(environment.python())
}

fn given(path: PathBuf) -> Result<PathBuf, InstallError> {
    match Interpreter::version_of_im(&path) {
        Ok(version) if version == VERSION => Ok(path),
        Ok(found) | Err(found) => Err(InstallError::Given { path, found }),
    }
}

/// A virtual environment in the cache.
struct Environment {
    directory: PathBuf,
}

impl Environment {
    fn python(&self) -> PathBuf {
        self.directory.join("bin/python")
    }

    /// Written last, since an environment cannot be moved to its place when it is complete: it has its own path in its files.
    fn marker(&self) -> PathBuf {
        self.directory.join("complete")
    }

    /// The interpreter may have gone, or been replaced by one of another version.
    fn is_complete(&self) -> bool {
        self.marker().is_file() && self.python().is_file()
    }

    fn install(&self, system: &Interpreter) -> Result<(), InstallError> {
        let directory = &self.directory;
        let parent = directory.parent().unwrap_or(directory);
        fs::create_dir_all(parent).map_err(in_cache(parent))?;
        let lock_file = directory.with_file_name("lock");
        let _lock = lock(TITLE, &lock_file).map_err(in_cache(&lock_file))?;
        // Another process may have installed it while we waited.
        if self.is_complete() {
            return Ok(());
        }
        system.check_venv()?;
        if directory.exists() {
            fs::remove_dir_all(directory).map_err(in_cache(directory))?;
        }
        let start = Instant::now();
        eprintln!(
            "{TITLE}: installing IM {VERSION} with pip into {}, once; it takes about 40 s and 210 MB",
            directory.display()
        );
        let log = directory.with_extension("log");
        File::create(&log).map_err(in_cache(&log))?;
        let mut venv = system.command();
        self.step(
            "python3 -m venv",
            venv.args(["-m", "venv"]).arg(directory),
            (system, &log),
        )?;
        // pip builds packages with what is already installed, and so fetches nothing without a checksum.
        for (name, text) in [
            ("build-requirements.txt", BUILD),
            ("requirements.txt", REQUIREMENTS),
        ] {
            let file = directory.join(name);
            fs::write(&file, text).map_err(in_cache(&file))?;
            let mut pip = Interpreter::at(&self.python());
            pip.args([
                "-m",
                "pip",
                "install",
                "--disable-pip-version-check",
                "--no-input",
                "--no-deps",
            ]);
            pip.args(["--no-build-isolation", "--require-hashes", "--requirement"])
                .arg(&file);
            self.step("pip install", &mut pip, (system, &log))?;
        }
        let marker = self.marker();
        File::create(&marker).map_err(in_cache(&marker))?;
        eprintln!("{TITLE}: installed in {} s", start.elapsed().as_secs());
        // The log is only useful after a failure.
        fs::remove_file(&log).map_err(in_cache(&log))
    }

    /// Runs a program, with its output in the log.
    fn step(
        &self,
        step: &'static str,
        command: &mut Command,
        (system, log): (&Interpreter, &Path),
    ) -> Result<(), InstallError> {
        let output = File::options()
            .append(true)
            .open(log)
            .map_err(in_cache(log))?;
        let errors = output.try_clone().map_err(in_cache(log))?;
        let ended = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .current_dir(self.directory.parent().unwrap_or(&self.directory))
            .status()
            .map_err(in_cache(&self.directory))?;
        if ended.success() {
            return Ok(());
        }
        Err(InstallError::Failed {
            step,
            python: system.version.clone(),
            output: last_lines(&fs::read_to_string(log).unwrap_or_default(), LOG_LINES),
            log: log.to_owned(),
        })
    }
}

fn in_cache(path: &Path) -> impl FnOnce(io::Error) -> InstallError {
    move |source| InstallError::Cache {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
