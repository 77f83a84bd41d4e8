//! Python interpreters.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::OLDEST_PYTHON;
use crate::error::InstallError;

/// Prints the version, and after a tab what decides whether an environment still fits.
const ASK: &str = r"
import platform, sys
print(platform.python_version(), sys.implementation.cache_tag, sys.base_prefix, platform.libc_ver()[0], sep='\t')
";

/// The system's Python.
pub(crate) struct Interpreter {
    /// Such as `3.11.7`.
    pub(crate) version: String,
    /// Two interpreters with the same identity can use the same environment.
    pub(crate) identity: String,
}

impl Interpreter {
    /// `python3` on `PATH`.
    pub(crate) fn system() -> Result<Self, InstallError> {
        let mut command = Self::at(Path::new("python3"));
        let output = command.args(["-c", ASK]).output();
        let output = output.map_err(|_| InstallError::NoPython)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Self::read(&text).ok_or(InstallError::NoPython)?
    }

    /// What [`ASK`] printed; `None` if it is something else.
    pub(crate) fn read(text: &str) -> Option<Result<Self, InstallError>> {
        let (version, identity) = text.trim().split_once('\t')?;
        let found = version.to_owned();
        Some(match minor(version)? < minor(OLDEST_PYTHON)? {
            true => Err(InstallError::OldPython { found }),
            false => Ok(Self {
                version: found,
                identity: identity.to_owned(),
            }),
        })
    }

    /// Debian leaves out parts of Python that making an environment needs.
    pub(crate) fn check_venv(&self) -> Result<(), InstallError> {
        let mut command = self.command();
        command.args(["-c", "import ensurepip, venv"]);
        match command.stderr(Stdio::null()).status() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(InstallError::NoVenv),
        }
    }

    /// The version of IM that this interpreter has, or why it has none.
    pub(crate) fn version_of_im(path: &Path) -> Result<String, String> {
        let mut command = Self::at(path);
        command.args(["-c", "import IM; print(IM.__version__)"]);
        let output = command.output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)
                .lines()
                .last()
                .unwrap_or("nothing")
                .to_owned()),
        }
    }

    pub(crate) fn command(&self) -> Command {
        Self::at(Path::new("python3"))
    }

    /// A command for an interpreter, isolated from the user's own modules.
    pub(crate) fn at(path: &Path) -> Command {
        let mut command = Command::new(path);
        command.arg("-I");
        command
    }
}

/// Major and minor version.
fn minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}
