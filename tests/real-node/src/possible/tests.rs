use std::fs;
use std::path::Path;

use super::{INSTALLED, check_installed, check_visible};

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
