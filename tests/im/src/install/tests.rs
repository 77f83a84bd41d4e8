use std::path::PathBuf;

use super::{BUILD, REQUIREMENTS, given};
use crate::VERSION;
use crate::error::InstallError;
use crate::python::Interpreter;

#[test]
fn only_a_python_that_is_new_enough_is_used() {
    let read = |text| Interpreter::read(text).map(|read| read.map(|python| python.identity));
    assert!(
        matches!(read("3.11.7\tcpython-311\t/usr\n"), Some(Ok(identity)) if identity == "cpython-311\t/usr")
    );
    assert!(matches!(read("3.13.0\tcpython-313\t/usr"), Some(Ok(_))));
    assert!(
        matches!(read("3.9.2\tcpython-39\t/usr"), Some(Err(InstallError::OldPython { found })) if found == "3.9.2")
    );
    assert!(read("Python 3").is_none());
}

#[test]
fn an_environment_without_the_server_is_refused() {
    let error = given(PathBuf::from("/nowhere/python"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("PODLOOM_IM_PYTHON names /nowhere/python"),
        "{error}"
    );
    assert!(error.ends_with("instead of 2.0.0"), "{error}");
}

/// The lines of a list, each requirement with its checksums as one.
fn requirements(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", "");
    joined.lines().map(str::to_owned).collect()
}

#[test]
fn every_package_has_one_version_and_its_checksums() {
    let all = [requirements(BUILD), requirements(REQUIREMENTS)].concat();
    assert!(all.len() > 60, "only {} packages", all.len());
    for line in all {
        let mut words = line.split_whitespace();
        let pin = words.next().unwrap_or_default();
        assert!(pin.contains("=="), "{line}");
        let hashes: Vec<&str> = words.collect();
        assert!(!hashes.is_empty(), "{line}");
        for hash in hashes {
            assert!(hash.starts_with("--hash=sha256:"), "{line}");
        }
    }
    let im = format!("\nim=={VERSION} ");
    assert!(REQUIREMENTS.contains(&im), "VERSION is that of the list");
}
