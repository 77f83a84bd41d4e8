//! The operator's binary, in the two ways in which it is built.
//!
//! [`local`] is quick to build, for the demo. [`shipped`] is what the image holds, and so what the black-box tests and the cluster
//! benchmark run.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{progress, run};

/// Linked statically, so that the binary runs alone in an empty directory. And randomness comes from the kernel's call: by
/// default the crate getrandom looks that call up in a shared library, of which there is none here, and then needs /dev/urandom,
/// which an empty directory does not have.
const FLAGS: &str = "-C target-feature=+crt-static --cfg getrandom_backend=\"linux_getrandom\"";

/// Builds a binary of the workspace as the tests do, hardly optimized, and returns where it is.
///
/// That takes half the time of an optimized build, and the tests then have its dependencies already.
pub(crate) fn local(binary: &str) -> Result<PathBuf> {
    // With the features that all crates need together, so that one binary shares its dependencies with the next.
    let arguments = ["build", "--quiet", "--workspace", "--bin"];
    progress::step(binary, "compiling; the first time takes minutes", || {
        run::succeed(run::cargo(arguments).arg(binary))
    })?;
    let target = run::workspace()?.target_directory;
    Ok(target.join("debug").join(binary).into_std_path_buf())
}

/// Builds a binary of the workspace with optimizations, and returns where it is.
pub(crate) fn optimized(binary: &str) -> Result<PathBuf> {
    let arguments = ["build", "--quiet", "--workspace", "--release", "--bin"];
    progress::step(binary, "compiling with optimizations takes minutes", || {
        run::succeed(run::cargo(arguments).arg(binary))
    })?;
    let target = run::workspace()?.target_directory;
    Ok(target.join("release").join(binary).into_std_path_buf())
}

/// Builds the operator as it is shipped and returns where it is.
///
/// Every task that needs it calls this, so it is compiled once. It is linked with glibc, because its
/// allocator holds up under many threads, and because it is what the tests run on; musl would need a C compiler of its own for
/// the cryptography. Names are resolved through /etc/hosts and DNS as everywhere: both are inside glibc since 2.34, no longer in
/// files beside it.
pub(crate) fn shipped() -> Result<PathBuf> {
    let triple = host_triple()?;
    let mut cargo = run::cargo(["build", "--quiet", "--release"]);
    cargo
        .args(["--package", "podloom", "--bin", "podloom"])
        .args(["--target", &triple])
        // These would replace the flags below, and the binary would not be static.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    if is_linux(&triple) {
        // With --target, this reaches what is shipped and neither build scripts nor procedural macros, which cannot be static.
        cargo.env(flags_variable(&triple), FLAGS);
    }
    progress::step(
        "podloom as it is shipped",
        "compiling with link-time optimization; the first time takes many minutes",
        || run::succeed(&mut cargo),
    )
    .context(
        "the operator is linked statically; a linker that misses -lc needs libc6-dev on Debian, glibc-static on Fedora",
    )?;
    let path = run::workspace()?
        .target_directory
        .join(&triple)
        .join("release/podloom");
    Ok(path.into_std_path_buf())
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

/// The environment variable with the compiler's flags for one target alone.
fn flags_variable(triple: &str) -> String {
    let triple = triple.to_uppercase().replace(['-', '.'], "_");
    format!("CARGO_TARGET_{triple}_RUSTFLAGS")
}
