use std::fs;
use std::path::Path;

use super::{INSTALLED, check_installed, check_visible, failed};

#[test]
fn a_missing_program_is_named_with_its_package() {
    let directory = tempfile::tempdir().unwrap();
    for (name, _) in INSTALLED {
        fs::write(directory.path().join(name), "").unwrap();
    }
    check_installed(directory.path().as_os_str()).unwrap();
    fs::remove_file(directory.path().join("runc")).unwrap();
    fs::remove_file(directory.path().join("setpriv")).unwrap();
    fs::remove_file(directory.path().join("unshare")).unwrap();
    let error = check_installed(directory.path().as_os_str()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "runc, setpriv, unshare not found on PATH; on Debian, `apt-get install runc util-linux` installs what is missing"
    );
}

#[test]
fn directories_that_the_node_replaces_are_refused() {
    check_visible(Path::new("/tmp"), "TMPDIR").unwrap();
    check_visible(Path::new("/variable"), "TMPDIR").unwrap();
    let error = check_visible(Path::new("/var/tmp"), "TMPDIR").unwrap_err();
    assert!(error.to_string().contains("set TMPDIR"), "{error}");
}

#[test]
fn a_directory_is_refused_before_it_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("cache");
    std::os::unix::fs::symlink("/var", &link).unwrap();
    check_visible(&link.join("podloom/digest"), "XDG_CACHE_HOME").unwrap_err();
}

#[track_caller]
fn check_failed(names: &str, errors: &str, expected: &str) {
    let error = failed(names, errors, Path::new("/tmp/attempt")).to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_failed_attempt_says_what_failed_and_what_the_program_said() {
    check_failed(
        "",
        "unshare: unshare failed: Operation not permitted\n",
        "namespaces with a network: unshare: unshare failed: Operation not permitted",
    );
    check_failed(
        "network\n",
        "RTNETLINK answers: Operation not supported\n",
        "namespaces with a network: RTNETLINK answers: Operation not supported",
    );
    check_failed(
        "network\noverlay\n",
        "mount: /tmp/attempt/merged: unknown filesystem type 'overlay'.\n       dmesg(1) may have more information\n",
        "in /tmp: mount: /tmp/attempt/merged: unknown filesystem type 'overlay'.; `modprobe overlay`",
    );
    check_failed(
        "network\noverlay\nnat\n",
        "modprobe: FATAL: Module ip_tables not found\n\
         iptables v1.8.9 (legacy): can't initialize iptables table `nat': Table does not exist (do you need to insmod?)\n\
         Perhaps iptables or your kernel needs to be upgraded.\n",
        "to the API server: iptables v1.8.9 (legacy): can't initialize iptables table `nat': Table does not exist",
    );
}
