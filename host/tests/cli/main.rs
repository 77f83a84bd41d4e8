//! The command line as a user sees it: what it prints, where, and with which exit code.

mod admission;
mod blame;
mod bundles;
mod chains;
mod cleaner;
mod context;
mod controllers;
mod diff;
mod drift;
mod examples;
mod export;
mod help;
mod infra;
mod later;
mod options;
mod output;
mod own_crate;
mod pages;
mod pipes;
mod plugin_examples;
mod plugins;
mod portal;
mod proxies;
mod rbac;
mod refused;
mod rendered;
mod reports;
mod sbom;
mod scripts;
mod signed;
mod tighten;
mod tools;
mod workflows;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The result of a command.
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ran {
    /// For snapshots.
    fn text(&self) -> String {
        format!(
            "exit code {}\n---------- stdout\n{}---------- stderr\n{}",
            self.code, self.stdout, self.stderr
        )
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/fixtures")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs podloom in the directory of the fixtures.
fn podloom(arguments: &[&str]) -> Ran {
    podloom_in(&fixtures(), arguments, "")
}

fn podloom_in(directory: &Path, arguments: &[&str], input: &str) -> Ran {
    let ours = std::env::vars_os().map(|(name, _)| name);
    let ours = ours.filter(|name| name.to_string_lossy().starts_with("PODLOOM_"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_podloom"));
    for name in ours {
        command.env_remove(name);
    }
    let mut child = command
        .args(arguments)
        .current_dir(directory)
        .env_remove("CLICOLOR_FORCE")
        .env("COLUMNS", "100")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("podloom starts");
    // A command may close its input without reading it.
    let _unread = child
        .stdin
        .take()
        .expect("the input is a pipe")
        .write_all(input.as_bytes());
    let output = child.wait_with_output().expect("podloom ends");
    Ran {
        code: output.status.code().expect("podloom exits by itself"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// The bundle of the standard plugins; none if it is not built.
///
/// `cargo xtask test` sets PODLOOM_BUNDLE; then the bundle must exist.
fn bundle() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("PODLOOM_BUNDLE") {
        let bundle = PathBuf::from(named);
        assert!(
            bundle.join("chain.yaml").is_file(),
            "PODLOOM_BUNDLE names {}, which is not a bundle",
            bundle.display()
        );
        return Some(bundle);
    }
    // The binary is in target/<target>/<profile>.
    let target = Path::new(env!("CARGO_BIN_EXE_podloom"))
        .ancestors()
        .nth(3)?
        .join("plugins");
    if target.join("chain.yaml").is_file() {
        return Some(target);
    }
    eprintln!("skipped: no bundle; `cargo xtask plugins` builds it");
    None
}
