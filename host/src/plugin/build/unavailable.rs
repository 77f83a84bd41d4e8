//! Warns of what compiles for a plugin but does not work in one, with the author's own line.
//!
//! The panics of Rust's standard library name its own files, and the built plugin has no line numbers. So the source is searched.

use std::fs;
use std::path::{Path, PathBuf};

use crate::load;

/// How many lines are told.
const MOST: usize = 20;
/// How many files are read, and how many bytes of each.
const MOST_FILES: usize = 1000;
const MOST_BYTES: u64 = 1 << 20;

/// What does not work: words in the source, and what to do instead.
const UNAVAILABLE: [(&[&str], &str); 7] = [
    (
        &["Instant::now", "SystemTime::now"],
        "plugins have no clock, so this ends the call; let the configuration or the pod say the time",
    ),
    (
        &[
            "std::fs",
            "fs::read",
            "fs::write",
            "File::open",
            "File::create",
        ],
        "plugins have no files, so this fails; use include_str!, or the configuration",
    ),
    (
        &[
            "thread::spawn",
            "thread::scope",
            "thread::sleep",
            "thread::Builder",
        ],
        "plugins have no threads, so this ends the call",
    ),
    (
        &["rand::", "getrandom", "RandomState"],
        "plugins have no randomness: the same pod must give the same result",
    ),
    (
        &["std::net", "TcpStream", "UdpSocket"],
        "plugins have no network, so this fails",
    ),
    (
        &["env::var", "env::args"],
        "plugins have no environment, so this finds nothing; use the configuration",
    ),
    (
        &["println!", "print!(", "eprintln!", "eprint!(", "dbg!"],
        "a plugin prints nowhere; use log(Level::Info, ...) for the operator's log, or note(...) for the user",
    ),
];

/// Warns of each line of the crate's source that uses something that plugins do not have. Tests are left out.
pub(super) fn warn(directory: &Path) {
    let mut found = Vec::new();
    for file in sources(&directory.join("src")) {
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let shown = file.strip_prefix(".").unwrap_or(&file);
        let lines = lines(&text).into_iter();
        found.extend(lines.map(|(line, advice)| format!("{}:{line}: {advice}", shown.display())));
    }
    for message in found.iter().take(MOST) {
        load::warn(message);
    }
    if found.len() > MOST {
        load::warn(&format!("and {} more such lines", found.len() - MOST));
    }
}

/// The files of the plugin itself: those named tests are compiled for tests alone.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        let entries = fs::read_dir(next).into_iter().flatten().flatten();
        for entry in entries.take(MOST_FILES) {
            let path = entry.path();
            let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
            match entry.metadata() {
                Ok(about) if about.is_dir() && !is_test => open.push(path),
                Ok(about) if about.is_file() && about.len() <= MOST_BYTES => {
                    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
                    if is_rust && !is_test && files.len() < MOST_FILES {
                        files.push(path);
                    }
                }
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// The lines of a file that use something unavailable, from 1, each with what to do instead. Comments are left out, and all that
/// follows a module of tests.
fn lines(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut before = "";
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if before == "#[cfg(test)]" && line.starts_with("mod ") && line.ends_with('{') {
            break;
        }
        before = line;
        let code = line.split("//").next().unwrap_or_default();
        let uses = |words: &&[&str]| words.iter().any(|word| has_word(code, word));
        let advice = UNAVAILABLE.iter().find(|(words, _)| uses(words));
        found.extend(advice.map(|(_, advice)| (number, *advice)));
    }
    found
}

/// Whether the code has these words, and not only as the end of a longer name.
fn has_word(code: &str, word: &str) -> bool {
    let is_name = |char: char| char.is_alphanumeric() || char == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(is_name)
    })
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[track_caller]
    fn check(text: &str, expected: &[(usize, &str)]) {
        let found = lines(text);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((line, advice), (at, start)) in found.iter().zip(expected) {
            assert!(line == at && advice.starts_with(start), "{found:?}");
        }
    }

    #[test]
    fn what_plugins_lack_is_found_with_its_line() {
        check(
            "fn f() {\n    let now = std::time::Instant::now();\n    println!(\"{now:?}\");\n}\n",
            &[(2, "plugins have no clock"), (3, "a plugin prints nowhere")],
        );
        check(
            "use std::fs;\nlet t = thread::spawn(f);\nlet r = rand::random();\n",
            &[
                (1, "plugins have no files"),
                (2, "plugins have no threads"),
                (3, "plugins have no randomness"),
            ],
        );
    }

    #[test]
    fn comments_tests_and_longer_names_are_left_out() {
        check(
            "// Instant::now\nlet x = strand::of(); // println!(1)\nmy_println!();\n",
            &[],
        );
        check(
            "#[cfg(test)]\nmod tests {\n    fn f() { println!(\"a\"); }\n}\n",
            &[],
        );
        check(
            "#[cfg(test)]\nmod tests;\nfn f() { dbg!(1); }\n",
            &[(3, "a plugin prints")],
        );
    }
}
