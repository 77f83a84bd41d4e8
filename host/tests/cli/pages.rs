//! What pages of the repository show of `podloom` is what it prints.

use std::fs;
use std::path::Path;

use super::{bundle, podloom_in, root};

/// Pages with excerpts: blocks of `console` whose first line is a command.
const PAGES: [&str; 4] = [
    "README.md",
    "deploy/CHANGES.md",
    "deploy/CLEANER.md",
    "deploy/TROUBLESHOOTING.md",
];

/// Where the pages have the plugins: what `cargo xtask plugins` leaves there.
const PLUGINS: &str = "target/plugins";

/// What a reader has edited by then. `tests/blackbox/changes_page.rs` does so, and runs these commands.
const EDITED: &str = "my-chain";

/// Stands for what an excerpt leaves out.
const LEFT_OUT: &str = "...";

#[test]
fn every_excerpt_is_what_podloom_prints() {
    let Some(bundle) = bundle() else { return };
    for page in PAGES {
        let text = fs::read_to_string(root().join(page)).expect("the page is there");
        let excerpts: Vec<_> = excerpts(&text).collect();
        assert!(!excerpts.is_empty(), "{page} has no excerpt");
        for (command, lines) in excerpts {
            check(page, &bundle, command, lines);
        }
    }
}

/// The excerpts of a page: each command of `podloom` that needs no cluster, and the lines below it.
fn excerpts(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let blocks = page.split("```console\n$ podloom ").skip(1);
    blocks
        .filter_map(|block| block.split_once("```")?.0.split_once('\n'))
        .filter(|(command, _)| !command.starts_with("run") && !command.contains(EDITED))
}

#[track_caller]
fn check(page: &str, bundle: &Path, command: &str, lines: &str) {
    let bundle = bundle.to_str().expect("the path is UTF-8");
    let (command, prints_errors_only) = match command.strip_suffix(" >/dev/null") {
        Some(command) => (command, true),
        None => (command, false),
    };
    let arguments: Vec<&str> = command
        .split(' ')
        .map(|word| if word == PLUGINS { bundle } else { word })
        .collect();
    let ran = podloom_in(&root(), &arguments, "");
    let printed = match prints_errors_only {
        true => ran.stderr.clone(),
        false => format!("{}{}", ran.stdout, ran.stderr),
    };
    let mut rest = printed.as_str();
    for part in lines.split(LEFT_OUT) {
        let after = rest.split_once(part).map(|(_, after)| after);
        assert!(
            after.is_some(),
            "{page} shows of `podloom {command}`:\n{part}\nbut it prints:\n{printed}"
        );
        rest = after.unwrap_or_default();
    }
}
