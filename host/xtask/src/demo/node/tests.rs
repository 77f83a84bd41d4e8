//! The demo shows what the guides say.

use std::fs;

use super::*;

#[test]
fn the_commands_are_those_of_the_guides() {
    for (file, commands) in [
        ("README.md", &INSTALL[..]),
        ("README.md", &[TRY]),
        ("deploy/README.md", &UNINSTALL[..]),
    ] {
        let text = fs::read_to_string(run::root().join(file)).unwrap();
        for command in commands {
            let is_there = text
                .lines()
                .any(|line| line.split(" #").next().unwrap().trim() == *command);
            assert!(is_there, "{file} lacks {command}");
        }
    }
}

#[test]
fn the_large_example_exists() {
    let browsers = run::root().join("deploy/examples/browsers.yaml");
    let browsers = fs::read_to_string(browsers).unwrap();
    assert!(browsers.contains(&format!("  name: {LARGE}\n")));
}
