//! Why the server cannot be installed.

use std::io;
use std::path::PathBuf;

use crate::{OLDEST_PYTHON, VERSION};

/// The interpreter of an environment that has the server, if the user made one.
pub(crate) const VARIABLE: &str = "PODLOOM_IM_PYTHON";

/// Why the server is not available.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Python is not installed.
    #[error(
        "installing the IM server needs Python {OLDEST_PYTHON} or newer, and there is no `python3` on PATH; install it with its module venv"
    )]
    NoPython,
    /// Python is too old.
    #[error(
        "installing the IM server needs Python {OLDEST_PYTHON} or newer, and `python3` is {found}; put a newer one on PATH"
    )]
    OldPython {
        /// Its version.
        found: String,
    },
    /// Python cannot make environments.
    #[error(
        "installing the IM server needs Python's module venv with pip; install it (Debian's package is python3-venv)"
    )]
    NoVenv,
    /// There is no cache directory to install into.
    #[error("neither XDG_CACHE_HOME nor HOME names a directory to install the IM server into")]
    NoCache,
    /// `PODLOOM_IM_PYTHON` names an interpreter that does not have the server.
    #[error("{VARIABLE} names {}, where `import IM` finds {found} instead of {VERSION}", path.display())]
    Given {
        /// The interpreter.
        path: PathBuf,
        /// The version that it has, or why it has none.
        found: String,
    },
    /// A file or directory of the cache could not be used.
    #[error("{}", path.display())]
    Cache {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The environment could not be made.
    #[error(
        "{step} failed with Python {python}; the IM server is known to work with Python {OLDEST_PYTHON}; the whole output is in {}:\n{output}",
        log.display()
    )]
    Failed {
        /// The step.
        step: &'static str,
        /// The version of Python.
        python: String,
        /// The file with its whole output.
        log: PathBuf,
        /// Its last lines.
        output: String,
    },
}
