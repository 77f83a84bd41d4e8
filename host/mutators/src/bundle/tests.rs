use std::error::Error;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::Bundle;
use crate::limits::{BUNDLE_BYTES, PluginSize};

const SHIPPED_BYTES: usize = PluginSize::Standard.shipped_bytes();

const MANIFEST: &str =
    "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n- name: a\n  file: a.wasm\n";

fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().expect("a directory");
    for (name, content) in files {
        fs::write(directory.path().join(name), content).expect("a file");
    }
    directory
}

#[track_caller]
fn check_error(directory: &Path, expected: &str) {
    let error = Bundle::read(directory).expect_err("a refusal").to_string();
    assert_eq!(
        error.replace(&directory.display().to_string(), "DIR"),
        expected
    );
}

/// Updates a volume as the kubelet does: a new directory, then one rename of the link.
fn swap(volume: &Path, version: &str, content: &str) {
    let target = volume.join(format!("..{version}"));
    fs::create_dir(&target).expect("a directory");
    fs::write(target.join("chain.yaml"), MANIFEST).expect("a file");
    fs::write(target.join("a.wasm"), content).expect("a file");
    symlink(format!("..{version}"), volume.join("..data_tmp")).expect("a link");
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).expect("a swap");
}

fn content(bundle: &Bundle) -> String {
    bundle
        .files
        .values()
        .map(|content| String::from_utf8_lossy(content).into_owned())
        .collect()
}

#[test]
fn a_plain_directory_is_read() {
    let directory = directory(&[
        ("chain.yaml", MANIFEST),
        ("a.wasm", "one"),
        ("README", "ignored"),
    ]);
    let bundle = Bundle::read(directory.path()).expect("a bundle");
    assert_eq!((bundle.files.len(), content(&bundle).as_str()), (1, "one"));
}

#[test]
fn a_volume_is_read_where_its_link_points() {
    let volume = directory(&[]);
    swap(volume.path(), "first", "one");
    symlink("..data/chain.yaml", volume.path().join("chain.yaml")).expect("a link");
    symlink("..data/a.wasm", volume.path().join("a.wasm")).expect("a link");
    assert_eq!(
        content(&Bundle::read(volume.path()).expect("a bundle")),
        "one"
    );
    for (version, text) in [("second", "two"), ("third", "three")] {
        swap(volume.path(), version, text);
        assert_eq!(
            content(&Bundle::read(volume.path()).expect("a bundle")),
            text
        );
    }
}

#[test]
fn errors_say_why_a_directory_is_not_a_bundle() {
    let empty = directory(&[]);
    check_error(
        empty.path(),
        "DIR holds no chain.yaml, so it is not a plugin bundle; for a chain without plugins, add a chain.yaml with `plugins: []`",
    );
    check_error(
        &empty.path().join("missing"),
        "cannot open the plugin directory DIR",
    );
    let file = directory(&[("chain.yaml", MANIFEST)]);
    check_error(
        &file.path().join("chain.yaml"),
        "cannot open the plugin directory DIR",
    );
    check_error(
        file.path(),
        "chain.yaml:4: plugin a names the file a.wasm, which is not in the bundle; the bundle holds nothing",
    );
    let other = directory(&[("chain.yaml", MANIFEST), ("b.wasm", ""), ("c.wasm.gz", "")]);
    check_error(
        other.path(),
        "chain.yaml:4: plugin a names the file a.wasm, which is not in the bundle; the bundle holds b.wasm and c.wasm.gz",
    );
    let wrong = directory(&[("chain.yaml", "kind: 7\n")]);
    assert!(
        Bundle::read(wrong.path())
            .expect_err("a refusal")
            .to_string()
            .contains("chain.yaml:1:7")
    );
}

#[test]
fn only_regular_files_are_read() {
    let directory = directory(&[("chain.yaml", MANIFEST)]);
    fs::create_dir(directory.path().join("a.wasm")).expect("a directory");
    check_error(
        directory.path(),
        "chain.yaml:4: cannot read the file a.wasm of plugin a",
    );
    let endless = self::directory(&[("chain.yaml", MANIFEST)]);
    symlink("/dev/zero", endless.path().join("a.wasm")).expect("a link");
    check_error(
        endless.path(),
        "chain.yaml:4: cannot read the file a.wasm of plugin a",
    );
}

#[test]
fn a_dangling_data_link_is_ignored() {
    let volume = directory(&[("chain.yaml", MANIFEST), ("a.wasm", "one")]);
    symlink("..gone", volume.path().join("..data")).expect("a link");
    assert_eq!(
        content(&Bundle::read(volume.path()).expect("a bundle")),
        "one"
    );
}

#[test]
fn files_that_are_too_large_together_are_refused() {
    let count = BUNDLE_BYTES / SHIPPED_BYTES;
    let entries = |count: usize| -> String {
        let entry = |number| format!("- name: p{number}\n  file: p{number}.wasm\n");
        let entries: String = (0..count).map(entry).collect();
        MANIFEST.replace("- name: a\n  file: a.wasm\n", &entries)
    };
    let directory = directory(&[("chain.yaml", &entries(count)), ("zeros", "")]);
    let zeros = fs::File::options()
        .write(true)
        .open(directory.path().join("zeros"));
    let size = u64::try_from(SHIPPED_BYTES).expect("it is small");
    zeros.and_then(|zeros| zeros.set_len(size)).expect("zeros");
    for number in 0..=count {
        symlink("zeros", directory.path().join(format!("p{number}.wasm"))).expect("a link");
    }
    let read = Bundle::read(directory.path()).expect("as much as there may be");
    assert_eq!(read.files().count(), count);
    fs::write(directory.path().join("chain.yaml"), entries(count + 1)).expect("one more");
    check_error(
        directory.path(),
        "chain.yaml:36: with the file p16.wasm of plugin p16 the bundle is larger than 64 MiB; compress its plugins, or remove \
         some",
    );
}

#[test]
fn a_link_that_leads_out_of_the_directory_is_refused() {
    let elsewhere = directory(&[("a.wasm", "secret"), ("chain.yaml", MANIFEST)]);
    let why = "a symbolic link that leads out of the plugin directory; put the file itself there";
    let check = |bundle: &Path| {
        let error = Bundle::read(bundle).expect_err("a refusal");
        assert_eq!(error.source().expect("why").to_string(), why);
    };
    let bundle = directory(&[("chain.yaml", MANIFEST)]);
    symlink(
        elsewhere.path().join("a.wasm"),
        bundle.path().join("a.wasm"),
    )
    .expect("a link");
    check(bundle.path());
    let bundle = directory(&[("a.wasm", "one")]);
    symlink(
        elsewhere.path().join("chain.yaml"),
        bundle.path().join("chain.yaml"),
    )
    .expect("a link");
    check(bundle.path());
    let bundle = TempDir::new().expect("a directory");
    symlink(elsewhere.path(), bundle.path().join("..data")).expect("a link");
    check(bundle.path());
}

#[test]
fn links_within_the_directory_are_followed() {
    let bundle = directory(&[("chain.yaml", MANIFEST), ("a-1.wasm", "one")]);
    symlink("a-1.wasm", bundle.path().join("a.wasm")).expect("a link");
    assert_eq!(
        content(&Bundle::read(bundle.path()).expect("a bundle")),
        "one"
    );
    fs::remove_file(bundle.path().join("a.wasm")).expect("the link");
    symlink(bundle.path().join("a-1.wasm"), bundle.path().join("a.wasm")).expect("a link");
    assert_eq!(
        content(&Bundle::read(bundle.path()).expect("a bundle")),
        "one"
    );
    // As the kubelet has it, under a link to the volume.
    let volume = TempDir::new().expect("a directory");
    swap(volume.path(), "2026", "two");
    symlink("..data/chain.yaml", volume.path().join("chain.yaml")).expect("a link");
    symlink("..data/a.wasm", volume.path().join("a.wasm")).expect("a link");
    let outer = TempDir::new().expect("a directory");
    symlink(volume.path(), outer.path().join("plugins")).expect("a link");
    let read = Bundle::read(&outer.path().join("plugins")).expect("a bundle");
    assert_eq!(content(&read), "two");
}

#[test]
fn a_pipe_does_not_block() {
    for (pipe, other) in [("a.wasm", "chain.yaml"), ("chain.yaml", "a.wasm")] {
        let bundle = directory(&[(other, MANIFEST)]);
        let made = Command::new("mkfifo")
            .arg(bundle.path().join(pipe))
            .status();
        assert!(made.expect("mkfifo is of the system").success());
        let error = Bundle::read(bundle.path()).expect_err("a refusal");
        assert_eq!(
            error.source().expect("why").to_string(),
            "not a regular file"
        );
        // Also if it is swapped in after its name was checked.
        let read = super::read(bundle.path(), pipe, 1);
        assert_eq!(read.expect_err("a refusal").kind(), super::NOT_A_FILE);
    }
}

#[test]
fn a_link_in_the_place_of_the_directory_is_not_followed() {
    let elsewhere = directory(&[("chain.yaml", MANIFEST)]);
    let outer = tempfile::tempdir().expect("a directory");
    let (itself, parent) = (outer.path().join("itself"), outer.path().join("parent"));
    symlink(elsewhere.path(), &itself).expect("a link");
    symlink(elsewhere.path().parent().expect("a parent"), &parent).expect("a link");
    let below = parent.join(elsewhere.path().file_name().expect("a name"));
    let read = |path: &Path| super::read(path, "chain.yaml", 1 << 10).map(drop);
    read(elsewhere.path()).expect("the directory itself");
    read(&itself).expect_err("it may lead anywhere");
    assert_eq!(
        read(&below).expect_err("it is elsewhere").kind(),
        std::io::ErrorKind::NotFound
    );
}
