use std::fs;
use std::path::Path;

use tempfile::{TempDir, tempdir};

use super::Directory;

fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for namespace in fs::read_dir(root).unwrap() {
        let namespace = namespace.unwrap().path();
        if !namespace.is_dir() {
            continue;
        }
        for file in fs::read_dir(&namespace).unwrap() {
            let file = file.unwrap().path();
            found.push(file.strip_prefix(root).unwrap().display().to_string());
        }
    }
    found.sort();
    found
}

/// A recording of namespace shop with these Deployments.
fn record(root: &TempDir, names: &[&str]) -> usize {
    let mut directory = Directory::open(root.path()).unwrap();
    directory.store("shop", "namespace", "a: 1\n").unwrap();
    for name in names {
        let file = format!("deployment.{name}");
        directory.store("shop", &file, "b: 2\n").unwrap();
    }
    directory.finish().unwrap()
}

#[test]
fn what_is_gone_is_removed_and_nothing_else() {
    let root = tempdir().unwrap();
    assert_eq!(record(&root, &["web", "old"]), 0);
    fs::write(root.path().join("shop/mine.yaml"), "c: 3\n").unwrap();
    assert_eq!(record(&root, &["web"]), 1);
    let expected = [
        "shop/deployment.web.yaml",
        "shop/mine.yaml",
        "shop/namespace.yaml",
    ];
    assert_eq!(files(root.path()), expected);
}

#[test]
fn an_unchanged_object_is_not_written() {
    let root = tempdir().unwrap();
    record(&root, &["web"]);
    let mut directory = Directory::open(root.path()).unwrap();
    directory.store("shop", "namespace", "a: 1\n").unwrap();
    directory.store("shop", "deployment.web", "b: 3\n").unwrap();
    assert_eq!((directory.files(), directory.changed), (1, 1));
    assert_eq!(directory.now.len(), 1);
}

#[test]
fn a_file_of_other_origin_is_not_replaced() {
    let root = tempdir().unwrap();
    fs::create_dir(root.path().join("shop")).unwrap();
    fs::write(root.path().join("shop/deployment.web.yaml"), "mine: 1\n").unwrap();
    let mut directory = Directory::open(root.path()).unwrap();
    let refused = directory.store("shop", "deployment.web", "b: 2\n");
    let message = format!("{:?}", refused.unwrap_err());
    assert!(
        message.contains("no recording wrote this file"),
        "{message}"
    );
    let text = fs::read_to_string(root.path().join("shop/deployment.web.yaml")).unwrap();
    assert_eq!(text, "mine: 1\n");
}

#[test]
fn a_list_that_names_other_files_is_refused() {
    for line in [
        "../outside.yaml",
        "/etc/outside.yaml",
        "shop/../../outside.yaml",
        "shop/notes.txt",
        "shop",
    ] {
        let root = tempdir().unwrap();
        fs::write(root.path().join(".podloom-corpus"), format!("{line}\n")).unwrap();
        assert!(Directory::open(root.path()).is_err(), "{line}");
    }
}

#[test]
fn the_longest_names_make_files_of_their_own() {
    let root = tempdir().unwrap();
    let (one, other) = ("a".repeat(253), format!("{}b", "a".repeat(252)));
    record(&root, &[&one, &other]);
    assert_eq!(files(root.path()).len(), 3);
}

#[cfg(unix)]
#[test]
fn links_lead_nowhere() {
    use std::os::unix::fs::symlink;

    let (root, other) = (tempdir().unwrap(), tempdir().unwrap());
    let victim = other.path().join("victim.yaml");
    fs::write(&victim, "mine: 1\n").unwrap();
    symlink(&victim, root.path().join(".podloom-corpus.new")).unwrap();
    record(&root, &["web"]);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine: 1\n");

    // A directory of a namespace that is elsewhere, with a file that the list names.
    fs::remove_dir_all(root.path().join("shop")).unwrap();
    symlink(other.path(), root.path().join("shop")).unwrap();
    fs::write(root.path().join(".podloom-corpus"), "shop/victim.yaml\n").unwrap();
    let mut directory = Directory::open(root.path()).unwrap();
    assert!(directory.store("shop", "deployment.web", "b: 2\n").is_err());
    assert!(directory.finish().is_err());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine: 1\n");
}

#[test]
fn what_could_not_be_read_stays() {
    let root = tempdir().unwrap();
    record(&root, &["web", "unreadable"]);
    let mut directory = Directory::open(root.path()).unwrap();
    assert!(directory.keep("shop", "namespace"));
    assert!(!directory.keep("shop", "deployment.new"));
    directory.store("shop", "deployment.new", "b: 2\n").unwrap();
    directory.keep_list().unwrap();
    assert_eq!(files(root.path()).len(), 4);
    // The next one knows all of them.
    assert_eq!(record(&root, &["new"]), 2);
}
