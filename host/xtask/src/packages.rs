//! The crates that others use from a registry, as they would be uploaded.

use anyhow::Result;

use crate::run;

/// Each after those that it needs.
const CRATES: [&str; 5] = [
    "podloom-control-loop",
    "podloom-syntax",
    "podloom-pod-path",
    "podloom-config-schema",
    "podloom-plugin-sdk",
];

/// Packages all of them. What is in the packages is not compiled again: that takes minutes, and the sources are those of the tests.
pub(crate) fn check() -> Result<()> {
    let mut package = run::cargo(["package", "--quiet", "--no-verify", "--allow-dirty"]);
    package.args(CRATES.iter().flat_map(|name| ["--package", name]));
    run::succeed(&mut package)
}
