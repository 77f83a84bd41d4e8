//! Installs Rust's WebAssembly target if it is missing.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow};

use super::TARGET;
use crate::output::print_note;

/// Installs the target if it is missing. It runs in the crate's directory, which may select a toolchain of its own.
pub(super) fn ensure(directory: &Path) -> anyhow::Result<()> {
    if is_installed(directory)? {
        return Ok(());
    }
    print_note(&format!("installing Rust's target {TARGET} with rustup\n"));
    let added = Command::new("rustup")
        .args(["target", "add", TARGET])
        .current_dir(directory)
        .stdin(Stdio::null())
        .status();
    if added.is_ok_and(|status| status.success()) && is_installed(directory)? {
        return Ok(());
    }
    Err(anyhow!(
        "Rust's target {TARGET} is missing, and `rustup target add {TARGET}` did not install it: \
         install Rust with rustup (https://rustup.rs), or install your system's package for the target"
    ))
}

fn is_installed(directory: &Path) -> anyhow::Result<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("could not start rustc; install Rust, see https://rustup.rs")?;
    let libraries = String::from_utf8_lossy(&output.stdout);
    Ok(output.status.success() && Path::new(libraries.trim()).is_dir())
}
