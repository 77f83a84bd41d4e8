//! Asks cargo what a crate is built from.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use auditable_serde::VersionInfo;

use crate::tree::{self, TreeError};

/// Why the crates are not known.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// Cargo could not be started.
    #[error("could not start cargo tree")]
    Start(#[source] io::Error),
    /// Cargo failed.
    #[error("cargo tree failed: {0}")]
    Failed(String),
    /// Cargo printed something that we do not understand.
    #[error("cargo tree printed something unknown")]
    Tree(#[from] TreeError),
}

/// Returns the crates whose code is in a package that is built for a target with its default features, and which crate uses which.
/// Procedural macros and build scripts are left out: they run on the machine that builds.
///
/// `cargo tree` knows the features of this package alone; `cargo metadata` would unite those of all packages of a workspace. Nothing is
/// downloaded: call this for what was built or is being built.
///
/// # Errors
///
/// If cargo does not start or fails, for example because the package does not exist.
pub fn collect(
    directory: &Path,
    package: Option<&str>,
    target: &str,
) -> Result<VersionInfo, CollectError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command
        .args(["tree", "--quiet", "--offline", "--color", "never"])
        .args(["--charset", "utf8", "--prefix", "depth", "--format", "{p}"])
        .args(["--edges", "normal,no-proc-macro", "--target", target])
        .current_dir(directory)
        .stdin(Stdio::null());
    if let Some(package) = package {
        command.args(["--package", package]);
    }
    let output = command.output().map_err(CollectError::Start)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(CollectError::Failed(said.trim().to_owned()));
    }
    Ok(tree::parse(&String::from_utf8_lossy(&output.stdout))?)
}
