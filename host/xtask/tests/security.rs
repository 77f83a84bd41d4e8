//! Each test that the page about security names is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where tests are.
const PLACES: [&str; 4] = ["host", "plugin-sdk", "plugins", "tests"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What the page writes as code in one word with underscores: the names of tests.
fn named(page: &str) -> BTreeSet<&str> {
    let code = page.split('`').skip(1).step_by(2);
    let is_test = |word: &&str| {
        word.contains('_') && word.bytes().all(|it| it.is_ascii_lowercase() || it == b'_')
    };
    code.filter(is_test).collect()
}

fn remove_found(directory: &Path, missing: &mut BTreeSet<&str>) {
    for entry in directory.read_dir().expect("the directory is there") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                remove_found(&path, missing);
            }
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).expect("code is UTF-8");
            missing.retain(|name| !text.contains(&format!("fn {name}()")));
        }
    }
}

#[test]
fn every_named_test_is_there() {
    let page = fs::read_to_string(root().join("deploy/SECURITY.md")).expect("the page is there");
    let mut missing = named(&page);
    assert!(missing.len() > 30, "{missing:?}");
    for place in PLACES {
        remove_found(&root().join(place), &mut missing);
    }
    assert!(missing.is_empty(), "no such tests: {missing:?}");
}
