use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::find_installed;
use crate::program::Program;
use crate::release::PINNED;

/// A program that prints a line.
fn install(directory: &Path, name: &str, line: &str) {
    let file = directory.join(name);
    fs::write(&file, format!("#!/bin/sh\necho '{line}'\n")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
}

/// With these lines as the API server's version in KUBEBUILDER_ASSETS and on PATH: which one is used, and why the others are not.
#[track_caller]
fn check(assets: Option<&str>, path: Option<&str>, expected: Option<&str>, reasons: &[&str]) {
    let root = tempfile::tempdir().unwrap();
    let directory = |name: &str, line: Option<&str>| {
        let directory = root.path().join(name);
        fs::create_dir(&directory).unwrap();
        if let Some(line) = line {
            install(&directory, "kube-apiserver", line);
        }
        directory
    };
    let assets = directory("assets", assets);
    let path = directory("path", path);
    let (found, skipped) = find_installed(PINNED, Some(assets.as_os_str()), Some(path.as_os_str()));
    let [etcd, api_server, ..] = found;
    assert_eq!(etcd, None);
    let expected = expected.map(|name| root.path().join(name).join("kube-apiserver"));
    assert_eq!(api_server, expected);
    let found_reasons: Vec<String> = skipped
        .iter()
        .map(|(_, _, reason)| reason.to_string())
        .collect();
    assert_eq!(found_reasons, reasons);
    assert!(
        skipped
            .iter()
            .all(|(program, ..)| *program == Program::ApiServer)
    );
}

#[test]
fn installed_programs_of_the_pinned_minor_version_are_used() {
    let (good, patched, old) = (
        "Kubernetes v1.36.3",
        "Kubernetes v1.36.9",
        "Kubernetes v1.35.0",
    );
    let is_old = "it is version 1.35.0, but 1.36 is needed";
    check(Some(good), Some(good), Some("assets"), &[]);
    check(Some(patched), None, Some("assets"), &[]);
    check(None, Some(good), Some("path"), &[]);
    check(Some(old), Some(good), Some("path"), &[is_old]);
    check(Some(old), Some(old), None, &[is_old, is_old]);
    check(
        Some("hello"),
        None,
        None,
        &["it prints no version: \"hello\""],
    );
    check(None, None, None, &[]);
}
