//! What a node needs is tried before anything is built, with messages that say what is missing.
//!
//! Each case runs this binary again, in an environment that lacks something.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::cluster::is_enabled;

/// Set in the process that asks.
const ASKS: &str = "PODLOOM_TEST_ASKS";

/// The answer in an environment that differs in one variable.
#[track_caller]
fn check(variable: &str, value: &str, expected: &str) {
    let output = Command::new(env::current_exe().unwrap())
        .args([
            "possible::what_is_missing_is_named_before_anything_is_built",
            "--exact",
            "--nocapture",
        ])
        .env(ASKS, "1")
        .env(variable, value)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(expected), "{errors}");
}

/// A directory with a program that only complains, and the value of PATH that prefers it.
fn broken(directory: &Path, program: &str) -> String {
    let directory = directory.join(format!("no-{program}"));
    fs::create_dir(&directory).unwrap();
    let file = directory.join(program);
    fs::write(
        &file,
        format!("#!/bin/sh\necho '{program}: refused' >&2\nexit 1\n"),
    )
    .unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    format!("{}:{}", directory.display(), env::var("PATH").unwrap())
}

#[test]
fn what_is_missing_is_named_before_anything_is_built() {
    if env::var_os(ASKS).is_some() {
        match podloom_real_node::check() {
            Ok(()) => eprintln!("possible"),
            Err(reason) => eprintln!("{reason}"),
        }
        return;
    }
    if !is_enabled() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    check("UNUSED", "", "possible");
    check(
        "PATH",
        &broken(directory.path(), "mount"),
        &format!(
            "an overlay mount, in which containers live, in {}: mount: refused; ",
            env::temp_dir().display()
        ),
    );
    check(
        "PATH",
        &broken(directory.path(), "iptables"),
        "leads pods to the API server: iptables: refused; `modprobe nft_chain_nat`",
    );
    for variable in ["TMPDIR", "XDG_CACHE_HOME", "KUBEBUILDER_ASSETS"] {
        check(
            variable,
            "/var/cache",
            &format!("set {variable} to a directory elsewhere"),
        );
    }
}
