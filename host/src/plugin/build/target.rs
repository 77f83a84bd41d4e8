//! Makes sure that Rust can compile for WebAssembly.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow};

use super::TARGET;
use crate::output::tell;

/// Uses the installed target, else installs it. What is installed depends on the directory: it may name a toolchain.
pub(super) fn ensure(directory: &Path) -> anyhow::Result<()> {
    if is_installed(directory)? {
        return Ok(());
    }
    tell(&format!("Rust lacks the target {TARGET}; rustup adds it\n"));
    let added = Command::new("rustup")
        .args(["target", "add", TARGET])
        .current_dir(directory)
        .stdin(Stdio::null())
        .status();
    if added.is_ok_and(|status| status.success()) && is_installed(directory)? {
        return Ok(());
    }
    Err(anyhow!(
        "Rust cannot compile for {TARGET}, and `rustup target add {TARGET}` did not change that: \
         install Rust with rustup (https://rustup.rs), or the package of your system that holds the target"
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
        .context("could not start rustc; a plugin is built with Rust, see https://rustup.rs")?;
    let libraries = String::from_utf8_lossy(&output.stdout);
    Ok(output.status.success() && Path::new(libraries.trim()).is_dir())
}
