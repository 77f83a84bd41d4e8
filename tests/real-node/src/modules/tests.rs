use std::fs;
use std::path::Path;

use super::{SOURCES, own};

#[test]
fn every_go_file_of_ours_decides_what_is_built() {
    let files = go_files(Path::new(own().directory));
    assert!(!files.is_empty());
    for file in &files {
        assert!(SOURCES.contains(&file.as_str()), "SOURCES lacks:\n{file}");
    }
    assert_eq!(files.len(), SOURCES.len());
}

/// The text of each Go file below a directory.
fn go_files(directory: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(go_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "go") {
            files.push(fs::read_to_string(path).unwrap());
        }
    }
    files
}
