//! The real IM server, grycap/im, for Podloom's tests and demo: where it is installed, its launcher and our templates.
//!
//! [`python`] takes the environment that `PODLOOM_IM_PYTHON` names, or makes one in the user's cache directory: a Python virtual
//! environment with the packages of `requirements.txt`, each with its checksum. That takes less than a minute the first time, and
//! nothing afterwards. `README.md` beside this crate says what the server may do, and what it may not.

mod error;
mod install;
mod launch;
mod python;

use std::path::{Path, PathBuf};

pub use error::InstallError;
pub use install::python;
pub use launch::{BootMode, LOGS, Launch};

/// The version of the server.
pub const VERSION: &str = "2.0.0";

/// The oldest version of Python that can run the server, because of ansible-core; also the one with which it was tried.
pub(crate) const OLDEST_PYTHON: &str = "3.11";

/// The program that starts the server: `PYTHON -I launch.py FOLDER PORT BOOT_MODE [USER_DB]`.
pub const LAUNCHER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/launch.py");

/// The file of one of our templates.
#[must_use]
pub fn template(name: &str) -> PathBuf {
    let templates = concat!(env!("CARGO_MANIFEST_DIR"), "/templates");
    Path::new(templates).join(name)
}
