//! The binaries of the workspace, in the ways in which they are built.
//!
//! [`local`] is quick to build, and what the tests have built already. [`shipped`] is what the image holds, what the benchmarks
//! measure and what the soaks run.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::run;

/// The profile of what is shipped and measured, in Cargo.toml.
pub(crate) const DIST: &str = "dist";

/// Builds a binary of the workspace, hardly optimized, and returns where it is. After `cargo test --workspace` nothing is left to
/// compile.
pub(crate) fn local(binary: &str) -> Result<PathBuf> {
    // With the features that all crates need together, so that one binary shares its dependencies with the next.
    let arguments = ["build", "--quiet", "--workspace", "--bin"];
    run::step(binary, "compiling; the first time takes minutes", || {
        run::succeed(run::cargo(arguments).arg(binary))
    })?;
    built("debug", binary)
}

/// Builds a binary of the workspace with optimizations, and returns where it is.
pub(crate) fn optimized(binary: &str) -> Result<PathBuf> {
    let arguments = ["build", "--quiet", "--workspace", "--release", "--bin"];
    run::step(binary, "compiling with optimizations takes minutes", || {
        run::succeed(run::cargo(arguments).arg(binary))
    })?;
    built("release", binary)
}

/// Builds the operator as it is shipped and returns where it is.
///
/// Every task that needs it calls this, so it is compiled once.
pub(crate) fn shipped() -> Result<PathBuf> {
    let mut cargo = run::cargo(["build", "--quiet", "--profile", DIST]);
    cargo
        .args(["--package", "podloom", "--bin", "podloom"])
        // These would replace the flags of .cargo/config.toml, and the binary would not be static.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    run::step(
        "podloom as it is shipped",
        "compiling with link-time optimization; the first time takes many minutes",
        || run::succeed(&mut cargo),
    )
    .context(
        "the operator is linked statically; a linker that misses -lc needs libc6-dev on Debian, glibc-static on Fedora",
    )?;
    built(DIST, "podloom")
}

/// Where cargo leaves a binary.
pub(crate) fn built(profile: &str, binary: &str) -> Result<PathBuf> {
    run::target(&format!("{}/{profile}/{binary}", host_triple()?))
}

/// Whether what is built runs on Linux, as what is shipped has to.
pub(crate) fn is_linux(triple: &str) -> bool {
    triple.contains("-linux-")
}

/// What this machine is called by rustc.
pub(crate) fn host_triple() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = run::output(Command::new(rustc).arg("-vV").current_dir(run::root()))?;
    version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("rustc -vV names no host")
}
