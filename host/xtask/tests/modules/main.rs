//! Checks that the modules of a crate depend on each other in one direction.
//!
//! A module depends on each module that a `use` or a path in its code leads to, through re-exports too. A module and its submodules
//! may depend on each other. Sibling modules must not depend on each other in a circle; a submodule counts as its parent. Tests are
//! left out.

mod graph;
mod source;

use std::path::{Path, PathBuf};
use std::process::Command;

use graph::circles;
use source::Crate;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The source folders in the repository, including those not yet committed.
fn crates() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .args(["*/src/lib.rs", "*/src/main.rs"])
        .current_dir(root())
        .output()
        .expect("git starts");
    assert!(output.status.success(), "git ls-files failed");
    let files = String::from_utf8(output.stdout).expect("names are UTF-8");
    let mut crates: Vec<String> = files
        .lines()
        .filter_map(|file| Some(file.rsplit_once('/')?.0.to_owned()))
        .collect();
    crates.dedup();
    assert!(crates.len() > 10, "only {crates:?} found");
    crates
}

#[test]
fn modules_go_in_no_circles() {
    let mut offences = Vec::new();
    for sources in crates() {
        let found = circles(&Crate::read(&root().join(&sources)));
        offences.extend(found.iter().map(|circle| format!("{sources}: {circle}")));
    }
    assert!(offences.is_empty(), "\n{}", offences.join("\n"));
}

/// Checks the circles of a crate with these modules; the name of the root module is empty.
#[track_caller]
fn check(modules: &[(&str, &str)], expected: &[&str]) {
    let found = circles(&Crate::of(modules));
    assert_eq!(found, expected, "{modules:?}");
}

#[test]
fn siblings_that_depend_on_each_other_are_a_circle() {
    check(
        &[
            ("", "mod a; mod b; mod c;"),
            ("a", "use crate::b::{B, C as D}; pub struct A;"),
            ("b", "pub struct B; fn f() { super::c::c() }"),
            ("c", "use crate::a; fn c() -> a::A {}"),
        ],
        &["a (crate::b::B) -> b (super::c::c) -> c (a::A) -> a"],
    );
}

#[test]
fn a_submodule_counts_as_its_parent() {
    check(
        &[
            ("", "mod a; mod b;"),
            ("a", "mod deep;"),
            ("a::deep", "use crate::b::B;"),
            ("b", "mod other; pub struct B;"),
            ("b::other", "fn f(a: crate::a::A) {}"),
        ],
        &["a (crate::b::B in a::deep) -> b (crate::a::A in b::other) -> a"],
    );
}

#[test]
fn a_module_and_its_submodules_may_depend_on_each_other() {
    check(
        &[
            ("", "mod a; pub use a::A; pub fn f() {}"),
            (
                "a",
                "mod b; use b::B; pub struct A; use crate::f; fn g() { self::b::h() }",
            ),
            ("a::b", "use super::A; pub struct B; pub fn h() {}"),
        ],
        &[],
    );
}

#[test]
fn a_re_export_does_not_hide_a_circle() {
    check(
        &[
            (
                "",
                "mod a; mod b; pub use b::inner::B; pub use a::A as Other;",
            ),
            ("a", "use crate::B; pub struct A;"),
            (
                "b",
                "pub mod inner; fn f() { inner::g(crate::Other::new()) }",
            ),
            ("b::inner", "pub struct B;"),
        ],
        &["a (crate::B) -> b (crate::Other::new) -> a"],
    );
}

#[test]
fn paths_in_macros_count_too() {
    check(
        &[
            ("", "mod a; mod b;"),
            ("a", "fn f() { println!(\"{}\", crate::b::B) }"),
            ("b", "macro_rules! m { () => { $crate::a::A } }"),
        ],
        &["a (crate::b::B) -> b (crate::a::A) -> a"],
    );
}

#[test]
fn paths_in_brackets_count_too() {
    for b in [
        "fn f() { vec![crate::a::A] }",
        "fn f() { println!(\"{}\", g(crate::a::A)) }",
        "fn f() { println!(\"{}\", [g(&super::a::A)]) }",
        "macro_rules! m { () => { use crate::{c::C, a::A}; } }",
        "#[derive(D)] struct S(#[serde(with = \"crate::a::A\")] u8);",
        "#[error(fmt = crate::a::A)] struct S;",
    ] {
        let modules = [
            ("", "mod a; mod b; mod c;"),
            ("a", "use crate::b::B;"),
            ("b", b),
            ("c", ""),
        ];
        let found = circles(&Crate::of(&modules));
        assert_eq!(found.len(), 1, "{b}: {found:?}");
        assert!(found[0].starts_with("a (crate::b::B) -> b ("), "{found:?}");
    }
}

/// This test cannot see which names a glob imports, so a circle could hide behind it.
#[test]
fn modules_are_not_imported_by_globs() {
    let mut offences = Vec::new();
    for sources in crates() {
        let globs = Crate::read(&root().join(&sources)).globs();
        offences.extend(globs.iter().map(|glob| format!("{sources}: {glob}")));
    }
    assert!(offences.is_empty(), "\n{}", offences.join("\n"));
}

#[test]
fn globs_are_found() {
    let modules = [
        ("", "mod a; mod b; use std::collections::*;"),
        (
            "a",
            "use super::*; #[cfg(test)] mod tests { use super::*; }",
        ),
        ("b", "use crate::a::*; use podloom_plugin_sdk::prelude::*;"),
    ];
    let found = Crate::of(&modules).globs();
    assert_eq!(found, ["a (use super::*)", "b (use crate::a::*)"]);
}

#[test]
fn tests_are_left_out() {
    check(
        &[
            ("", "mod a; mod b; #[cfg(test)] mod fixtures;"),
            ("a", "use crate::b::B; #[cfg(test)] mod tests;"),
            ("a::tests", "use crate::b::B;"),
            (
                "b",
                "pub struct B; #[cfg(test)] use crate::a; #[cfg(test)] mod more { use crate::a; }",
            ),
            ("fixtures", "use crate::a; use crate::b;"),
        ],
        &[],
    );
}
