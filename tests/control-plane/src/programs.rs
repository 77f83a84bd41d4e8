//! Finds the programs of a control plane.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::build;
use crate::go::BuildError;
use crate::program::Program;
use crate::release::{Release, UnknownRelease};
use crate::version::{self, VersionError};

/// Where each program is.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `etcd`.
    pub etcd: PathBuf,
    /// `kube-apiserver`.
    pub api_server: PathBuf,
    /// `kube-controller-manager`.
    pub controller_manager: PathBuf,
    /// `kube-scheduler`.
    pub scheduler: PathBuf,
    /// `kubectl`.
    pub kubectl: PathBuf,
    /// `kwok`.
    pub kwok: PathBuf,
}

/// Why the programs are not available.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// One is not installed, and could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The environment asks for a release of Kubernetes that the tests cannot run on.
    #[error(transparent)]
    Release(#[from] UnknownRelease),
}

impl Programs {
    /// Finds each program, and builds those that are missing.
    ///
    /// It looks in this order: the directory in `KUBEBUILDER_ASSETS`, `PATH`, the cache. An installed program whose minor version is
    /// not that of the chosen release is skipped, with a line on standard error. Builds show their progress there.
    ///
    /// # Errors
    ///
    /// Fails if a program is missing and cannot be built; the message says what to install.
    pub fn find() -> Result<Self, FindError> {
        let release = Release::chosen()?;
        let (found, skipped) = installed(release);
        for (program, path, reason) in skipped {
            eprintln!(
                "control plane: skipping {} at {}: {reason}",
                program.name(),
                path.display()
            );
        }
        Ok(Self::complete(release, found)?)
    }

    /// Builds all programs of a release into the cache, even those that are installed elsewhere, and returns their directories.
    ///
    /// # Errors
    ///
    /// Fails if a program cannot be built; the message says what to install.
    pub fn build(release: Release) -> Result<Vec<PathBuf>, FindError> {
        let built = build::ensure(release, &Program::ALL)?;
        let mut directories: Vec<PathBuf> = built
            .iter()
            .filter_map(|(_, path)| path.parent().map(Path::to_owned))
            .collect();
        directories.sort();
        directories.dedup();
        Ok(directories)
    }

    /// The programs that [`Programs::find`] would build first, which takes minutes.
    ///
    /// # Errors
    ///
    /// Fails if that build cannot even start, because Go is missing; the message says what to install.
    pub fn missing() -> Result<Vec<Program>, FindError> {
        let release = Release::chosen()?;
        let (found, _) = installed(release);
        let missing = not_in(&found);
        if missing.is_empty() {
            return Ok(missing);
        }
        Ok(build::missing(release, &missing)?)
    }

    fn complete(release: Release, found: [Option<PathBuf>; 6]) -> Result<Self, BuildError> {
        // If everything is installed, neither a cache nor a home directory is needed.
        let built = build::ensure(release, &not_in(&found))?;
        let [
            etcd,
            api_server,
            controller_manager,
            scheduler,
            kubectl,
            kwok,
        ] = found;
        let or_built = |path: Option<PathBuf>, program: Program| {
            let of_program = |(built, _): &&(Program, PathBuf)| *built == program;
            let built = || built.iter().find(of_program).map(|(_, path)| path.clone());
            // What was not installed is built now.
            path.or_else(built).unwrap_or_default()
        };
        Ok(Self {
            etcd: or_built(etcd, Program::Etcd),
            api_server: or_built(api_server, Program::ApiServer),
            controller_manager: or_built(controller_manager, Program::ControllerManager),
            scheduler: or_built(scheduler, Program::Scheduler),
            kubectl: or_built(kubectl, Program::Kubectl),
            kwok: or_built(kwok, Program::Kwok),
        })
    }
}

/// A program that is installed but cannot be used, and why.
type Skipped = (Program, PathBuf, VersionError);

fn not_in(found: &[Option<PathBuf>; 6]) -> Vec<Program> {
    let pairs = Program::ALL.into_iter().zip(found);
    pairs
        .filter(|(_, path)| path.is_none())
        .map(|(program, _)| program)
        .collect()
}

/// What `KUBEBUILDER_ASSETS` and `PATH` hold.
fn installed(release: Release) -> ([Option<PathBuf>; 6], Vec<Skipped>) {
    let assets = env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty());
    find_installed(release, assets.as_deref(), env::var_os("PATH").as_deref())
}

/// The installed programs of an acceptable version, in the order of [`Program::ALL`].
fn find_installed(
    release: Release,
    assets: Option<&OsStr>,
    path: Option<&OsStr>,
) -> ([Option<PathBuf>; 6], Vec<Skipped>) {
    let directories: Vec<PathBuf> = assets
        .map(PathBuf::from)
        .into_iter()
        .chain(path.into_iter().flat_map(env::split_paths))
        .collect();
    let mut skipped = Vec::new();
    let found = Program::ALL.map(|program| {
        directories
            .iter()
            .map(|directory| directory.join(program.name()))
            .filter(|file| file.is_file())
            .find(|file| is_acceptable(release, program, file, &mut skipped))
    });
    (found, skipped)
}

fn is_acceptable(
    release: Release,
    program: Program,
    file: &Path,
    skipped: &mut Vec<Skipped>,
) -> bool {
    // On many systems /bin is /usr/bin; the same file is reported once.
    let known = |(_, path, _): &Skipped| path.canonicalize().ok() == file.canonicalize().ok();
    if skipped.iter().any(known) {
        return false;
    }
    match version::check(program, file, release.version(program)) {
        Ok(()) => true,
        Err(reason) => {
            skipped.push((program, file.to_owned(), reason));
            false
        }
    }
}

#[cfg(test)]
mod tests;
