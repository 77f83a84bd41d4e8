//! Makes sure that Rust can compile to WebAssembly.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::TARGET;
use crate::run;

/// Uses the installed target, else installs it.
pub(super) fn ensure() -> Result<()> {
    if installed()? {
        return Ok(());
    }
    eprintln!("installing Rust's target {TARGET}");
    let mut rustup = Command::new("rustup");
    rustup
        .args(["target", "add", TARGET])
        .current_dir(run::root());
    if run::succeed(&mut rustup).is_ok() && installed()? {
        return Ok(());
    }
    bail!(
        "Rust's target {TARGET} is missing, and `rustup target add {TARGET}` did not install it.\n\
         Where rustup cannot download, install Debian's rustc-web, cargo-web and rust-web-src, and build the plugins with them:\n  \
         RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 /usr/bin/cargo build --profile plugin --target {TARGET} -Zbuild-std=std,panic_abort\n\
         with the linker set to the rustup toolchain's rust-lld"
    )
}

fn installed() -> Result<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = run::output(
        Command::new(rustc)
            .args(["--print", "sysroot"])
            .current_dir(run::root()),
    )?;
    Ok(Path::new(sysroot.trim())
        .join("lib/rustlib")
        .join(TARGET)
        .join("lib")
        .is_dir())
}
