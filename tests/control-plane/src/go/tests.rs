use std::path::PathBuf;

use super::{Module, cache_home, last_lines};

#[track_caller]
fn check(xdg: Option<&str>, home: Option<&str>, expected: Option<&str>) {
    let found = cache_home(xdg.map(Into::into), home.map(PathBuf::from));
    assert_eq!(found, expected.map(PathBuf::from));
}

#[test]
fn the_cache_is_where_the_user_wants_it() {
    check(Some("/cache"), Some("/home/me"), Some("/cache"));
    check(None, Some("/home/me"), Some("/home/me/.cache"));
    check(Some(""), Some("/home/me"), Some("/home/me/.cache"));
    check(Some("relative"), Some("/home/me"), Some("/home/me/.cache"));
    check(None, Some(""), None);
    check(None, None, None);
}

#[test]
fn an_error_shows_the_last_lines() {
    assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
    assert_eq!(last_lines("a", 2), "a");
}

fn module(go_mod: &'static str, sources: &'static [&'static str]) -> Module {
    Module {
        title: "test",
        directory: "/",
        go_mod,
        go_sum: "",
        sources,
        link: String::new(),
        time: "no time",
        instead: |_| String::new(),
    }
}

#[test]
fn programs_are_built_again_when_a_version_or_a_file_of_ours_changes() {
    let first = module("go 1.26.6", &["package main"]).digest();
    assert_eq!(first, module("go 1.26.6", &["package main"]).digest());
    assert_ne!(first, module("go 1.26.7", &["package main"]).digest());
    assert_ne!(
        first,
        module("go 1.26.6", &["package main // new"]).digest()
    );
}
