use super::{Module, last_lines};

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
    let first = module("go 1.26.6", &["package main"]).cache().unwrap();
    assert_eq!(
        first,
        module("go 1.26.6", &["package main"]).cache().unwrap()
    );
    assert_ne!(
        first,
        module("go 1.26.7", &["package main"]).cache().unwrap()
    );
    assert_ne!(
        first,
        module("go 1.26.6", &["package main // new"])
            .cache()
            .unwrap()
    );
}
