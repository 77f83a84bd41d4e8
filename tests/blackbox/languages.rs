//! The page on plugins in other languages: its commands build each plugin, and it loads, labels a pod, and denies one.
//!
//! They install compilers from PyPI, npm and crates.io, which takes minutes, so they run in `cargo xtask soak --only languages` alone.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use podloom_tests::binary;
use tempfile::TempDir;

/// Asks for these tests.
const VARIABLE: &str = "PODLOOM_LANGUAGES";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The first `sh` block of a section.
fn block<'p>(page: &'p str, section: &str) -> &'p str {
    let from = page.split_once(&format!("\n## {section}\n")).unwrap().1;
    let block = from.split_once("```sh\n").unwrap().1;
    block.split_once("```").unwrap().0
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A checkout with the page, and `podloom` on the path.
struct Checkout(TempDir);

impl Checkout {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        for part in ["plugin-sdk/languages", "wit"] {
            copy(&root().join(part), &home.path().join(part));
        }
        fs::create_dir(home.path().join("bin")).unwrap();
        symlink(binary().unwrap(), home.path().join("bin/podloom")).unwrap();
        Self(home)
    }

    fn run(&self, script: &str) -> Output {
        let others = std::env::var_os("PATH").unwrap();
        let path = [self.0.path().join("bin")]
            .into_iter()
            .chain(std::env::split_paths(&others));
        Command::new("sh")
            .args(["-euc", script])
            .current_dir(self.0.path().join("plugin-sdk/languages"))
            .env("PATH", std::env::join_paths(path).unwrap())
            .output()
            .unwrap()
    }

    #[track_caller]
    fn succeeds(&self, script: &str) -> String {
        let output = self.run(script);
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{script}\n{said}");
        text(&output.stdout)
    }
}

fn check(language: &str) {
    if binary().is_none() || std::env::var_os(VARIABLE).is_none_or(|value| value != "1") {
        eprintln!("skipped: cargo xtask soak --only languages runs it");
        return;
    }
    let page = fs::read_to_string(root().join("plugin-sdk/languages/README.md")).unwrap();
    let checkout = Checkout::new();
    checkout.succeeds(block(&page, language));
    // Its last command fails, as its comment says.
    let (allowed, denied) = block(&page, "Try it").trim().rsplit_once('\n').unwrap();
    let printed = checkout.succeeds(allowed);
    assert!(printed.contains("team: web"), "{printed}");
    let output = checkout.run(denied);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("denies the pod"), "{said}");
}

#[test]
fn a_plugin_in_python_works() {
    check("Python");
}

#[test]
fn a_plugin_in_javascript_works() {
    check("JavaScript");
}

#[test]
fn a_plugin_in_c_works() {
    check("C");
}
