//! The one release build: whatever runs the operator as its users do runs this binary.
//!
//! It is linked statically with glibc, so that it runs alone in an empty directory. glibc, because its allocator holds up under
//! many threads, and because it is what the tests run on; musl would need a C compiler of its own for the cryptography.
//! Names are resolved through /etc/hosts and DNS as everywhere: both are inside glibc since 2.34, no longer in files beside it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::run;

/// Linked statically; and randomness comes from the kernel's call. By default the crate getrandom looks that call up in a shared
/// library, of which there is none here, and then needs /dev/urandom, which an empty directory does not have.
const FLAGS: &str = "-C target-feature=+crt-static --cfg getrandom_backend=\"linux_getrandom\"";

/// Builds the operator for this machine and returns where it is.
///
/// Everybody who needs it builds it here, so that it is compiled once, whoever comes first.
pub(crate) fn binary() -> Result<PathBuf> {
    let triple = host_triple()?;
    let mut cargo = run::cargo([
        "build",
        "--quiet",
        "--release",
        "--package",
        "podloom",
        "--bin",
        "podloom",
        "--target",
        &triple,
    ]);
    // These would replace the flag below, and the binary would not be static.
    cargo
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    if is_linux(&triple) {
        // With --target, this reaches what is shipped and neither build scripts nor procedural macros, which cannot be static.
        cargo.env(flags_variable(&triple), FLAGS);
    }
    eprintln!("building the operator for {triple}; the first time takes minutes");
    run::succeed(&mut cargo).context(
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
