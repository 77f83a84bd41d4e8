//! Checks rules of the repository that the compiler does not check.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file is one step of the way, complete. A longer one is split by subject; tests and benchmarks apart.
const MAX_LINES: usize = 1000;

/// Files that may be longer, each with its reason.
const LONG: [(&str, &str); 1] = [(
    "plugin-sdk/pod-path/src/schema/table.rs",
    "generated from Kubernetes' OpenAPI document",
)];

/// This crate must build without the workspace, so it has its own versions.
const ALONE: &str = "host/control-loop/Cargo.toml";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file of the repository, including those not yet committed.
fn files() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git starts");
    assert!(output.status.success(), "git ls-files failed");
    let mut files: Vec<String> = String::from_utf8(output.stdout)
        .expect("names are UTF-8")
        .lines()
        .filter(|file| root().join(file).is_file())
        .map(str::to_owned)
        .collect();
    files.sort();
    assert!(files.len() > 20, "only {} files found", files.len());
    files
}

/// The files whose names end with the suffix, with their texts.
fn texts(suffix: &str) -> Vec<(String, String)> {
    files()
        .into_iter()
        .filter(|file| file.ends_with(suffix))
        .filter_map(|file| {
            let text = fs::read_to_string(root().join(&file)).ok()?;
            Some((file, text))
        })
        .collect()
}

fn is_test(file: &str) -> bool {
    file.ends_with("/tests.rs") || file.contains("/tests/") || file.contains("/benches/")
}

/// Fails with the list of all offences.
#[track_caller]
fn none(offences: &[String]) {
    assert!(offences.is_empty(), "\n{}", offences.join("\n"));
}

#[test]
fn the_published_contract_is_the_contract() {
    for (file, text) in texts(".wit") {
        if let Some(name) = file.strip_prefix("wit/0.1/") {
            let copy = root().join("plugin-sdk/wit").join(name);
            let copy = fs::read_to_string(&copy).unwrap_or_default();
            assert_eq!(copy, text, "copy {file} to plugin-sdk/wit/{name}");
        }
    }
}

#[test]
fn files_are_short() {
    let offences: Vec<String> = texts(".rs")
        .iter()
        .filter(|(file, _)| !is_test(file) && LONG.iter().all(|(long, _)| long != file))
        .map(|(file, text)| (file, text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(file, lines)| format!("{file} has {lines} lines; split it by concern"))
        .collect();
    none(&offences);
}

#[test]
fn modules_stand_beside_their_directories() {
    let offences: Vec<String> = files()
        .into_iter()
        .filter(|file| file.ends_with("/mod.rs"))
        .map(|file| format!("{file}: write foo.rs beside foo/"))
        .collect();
    none(&offences);
}

#[test]
fn every_exception_to_a_lint_has_a_reason() {
    let mut offences = Vec::new();
    for (file, text) in texts(".rs") {
        for word in ["[allow(", "[expect("] {
            for (at, _) in text.match_indices(word) {
                let attribute = text[at..].split(")]").next().unwrap_or_default();
                let opened = text[..at].ends_with(['#', '!']);
                if opened && !attribute.contains("reason") {
                    let line = text[..at].lines().count();
                    offences.push(format!("{file}:{line}: {word}..)] without a reason"));
                }
            }
        }
    }
    none(&offences);
}

#[test]
fn tests_neither_hide_nor_expect_panics() {
    let mut offences = Vec::new();
    for (file, text) in texts(".rs") {
        for word in [concat!("#[", "ignore"), concat!("#[", "should_panic")] {
            if text.contains(word) {
                offences.push(format!("{file} has {word}]"));
            }
        }
    }
    none(&offences);
}

#[test]
fn versions_stand_in_the_workspace_alone() {
    let mut offences = Vec::new();
    for (file, text) in texts("Cargo.toml") {
        if file == ALONE {
            let inherited = text
                .lines()
                .filter(|line| line.contains("workspace = true"));
            offences.extend(inherited.map(|line| format!("{file}: {line}")));
            continue;
        }
        if file == "Cargo.toml" {
            continue;
        }
        let mut section = "";
        for line in text.lines() {
            if line.starts_with('[') {
                section = line;
            } else if section.ends_with("dependencies]")
                && line.contains('=')
                && !line.contains("workspace = true")
            {
                offences.push(format!("{file}: {line}"));
            }
        }
    }
    none(&offences);
}

/// The engine serves every kind, so it must name none.
#[test]
fn the_engine_names_no_kind() {
    let words = ["browser", "portal", "infrastructure", "cleaner", "rollout"];
    let mut offences = Vec::new();
    let mut seen = 0;
    for (file, text) in texts("") {
        if !file.starts_with("host/engine/") {
            continue;
        }
        seen += 1;
        for (number, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            if let Some(word) = words.iter().find(|word| line.contains(*word)) {
                offences.push(format!("{file}:{}: {word}", number + 1));
            }
        }
    }
    assert!(seen > 20, "only {seen} files found");
    none(&offences);
}

#[test]
fn nothing_speaks_of_one_machine() {
    let words = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("../sha", "red"),
    ];
    let mut offences = Vec::new();
    for (file, text) in texts("") {
        for (number, line) in text.lines().enumerate() {
            if let Some(word) = words.iter().find(|word| line.contains(*word)) {
                offences.push(format!("{file}:{}: {word}", number + 1));
            }
        }
    }
    none(&offences);
}

/// The tests' IM server would dial the addresses of machines with a public network, which belong to somebody else, and would fetch
/// what a template imports from the web. So no template asks for either, not even an example.
#[test]
fn no_template_leads_the_im_server_off_this_machine() {
    let words = [
        concat!("public", "_ip"),
        concat!("network", "_name"),
        concat!("network", "_type"),
        concat!("tosca.nodes", ".network"),
        concat!("floating", "ip"),
        concat!("imports", ":"),
        concat!("\"impo", "rts\""),
    ];
    let mut offences = Vec::new();
    let mut templates = 0;
    for (file, text) in texts("") {
        if !text.contains(concat!("tosca_", "simple")) {
            continue;
        }
        templates += 1;
        for (number, line) in text.lines().enumerate() {
            let lower = line.to_lowercase();
            let place = format!("{file}:{}", number + 1);
            if let Some(word) = words.iter().find(|word| lower.contains(*word)) {
                offences.push(format!("{place}: {word}"));
            }
            let from_web = lower.contains("implementation") && lower.contains("http");
            if from_web {
                offences.push(format!("{place}: an implementation from the web"));
            }
            // In whatever way a network is declared, this word is part of it; elsewhere it is the name of an attribute.
            let is_yaml = file.ends_with(".yaml") || file.ends_with(".yml");
            if is_yaml && lower.replace("public_address", "").contains("public") {
                offences.push(format!("{place}: public"));
            }
        }
    }
    assert!(
        templates >= 6,
        "only {templates} files with templates found"
    );
    none(&offences);
}

/// The page that shows where things are.
const MAP: &str = "host/ARCHITECTURE.md";

/// The folders to which the map's paths are relative.
const ON_THE_MAP: [&str; 6] = [
    "",
    "host",
    "host/src",
    "host/mutators/src",
    "plugin-sdk",
    "tests",
];

#[test]
fn the_map_names_what_exists() {
    let text = fs::read_to_string(root().join(MAP)).expect("the map is committed");
    let mut paths = 0;
    let mut offences = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for path in line
            .split([' ', '`', '(', ')', ',', ';', '|'])
            .filter_map(path)
        {
            paths += 1;
            let exists = |base: &&str| root().join(base).join(path).exists();
            if !ON_THE_MAP.iter().any(exists) {
                offences.push(format!("{MAP}:{}: there is no {path}", number + 1));
            }
        }
    }
    assert!(paths > 60, "only {paths} paths found");
    none(&offences);
}

/// The word as a path in the repository; `None` for addresses, patterns, placeholders and names with a domain.
fn path(word: &str) -> Option<&str> {
    let word = word.trim_end_matches(['.', ':']);
    let is_path = word.contains('/') || word.ends_with(".rs");
    let is_other = word.starts_with('/') || word.contains(['<', '*', '=', '…']);
    let has_domain = word
        .split_once('/')
        .is_some_and(|(first, _)| first.contains('.'));
    (is_path && !is_other && !has_domain).then_some(word)
}

#[test]
fn dependencies_come_from_the_public_registry() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock is committed");
    let offences: Vec<String> = lock
        .lines()
        .filter(|line| line.starts_with("source = "))
        .filter(|line| !line.contains("registry+https://github.com/rust-lang/crates.io-index"))
        .map(str::to_owned)
        .collect();
    none(&offences);
}
