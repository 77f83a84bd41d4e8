//! Versions: the pinned ones, and those of installed programs.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::Program;

/// Why an installed program is skipped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VersionError {
    #[error("it does not start: {0}")]
    Start(#[source] io::Error),
    #[error("it prints no version: {0:?}")]
    Silent(String),
    #[error("it is version {found}, but {}.{} is needed", wanted.major, wanted.minor)]
    Other { found: Version, wanted: Version },
}

/// Major, minor and patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) patch: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The version that a `go.mod` pins.
pub(crate) fn pinned(program: Program, go_mod: &str) -> Version {
    let module = program.module();
    go_mod
        .lines()
        .map(str::trim)
        .filter_map(|line| line.strip_prefix(module)?.strip_prefix(' '))
        .find_map(first_version)
        // A test checks that every program is pinned.
        .unwrap_or(Version {
            major: 0,
            minor: 0,
            patch: 0,
        })
}

/// Whether an installed program can be used in place of the version that is wanted. Only the patch version may differ: the controllers, the
/// scheduler and the API server are released together, and stages are written for one minor version of KWOK.
pub(crate) fn check(program: Program, file: &Path, wanted: Version) -> Result<(), VersionError> {
    let output = Command::new(file)
        .args(program.version_arguments())
        .stdin(Stdio::null())
        .output()
        .map_err(VersionError::Start)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = first_version(&text)
        .ok_or_else(|| VersionError::Silent(text.lines().next().unwrap_or_default().to_owned()))?;
    if (found.major, found.minor) == (wanted.major, wanted.minor) {
        Ok(())
    } else {
        Err(VersionError::Other { found, wanted })
    }
}

/// The first `1.2.3` or `v1.2.3` of a text.
pub(crate) fn first_version(text: &str) -> Option<Version> {
    text.split_whitespace().find_map(|word| {
        let word = word.trim_start_matches("go").trim_start_matches('v');
        let mut parts = word.splitn(3, '.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        // `1.36.3-rc.0` and `1.36.3+build` count as 1.36.3, and Go calls its first release go1.26.
        let patch = parts.next().map_or(Some(0), |patch| {
            let digits = patch.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok()
        })?;
        Some(Version {
            major,
            minor,
            patch,
        })
    })
}

#[cfg(test)]
mod tests;
