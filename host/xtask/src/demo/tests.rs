//! What README.md shows of the demo is what the demo says.

use std::fs;

use crate::run;

/// The demo's words, in all its files: what it prints is in one of them, but for numbers and names.
fn source() -> String {
    let demo = run::root().join("host/xtask/src/demo");
    let files = fs::read_dir(&demo).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let files = files.filter(|file| file.is_file());
    let texts = files.chain([demo.with_extension("rs")]);
    texts
        .map(|file| fs::read_to_string(file).unwrap())
        .collect()
}

#[test]
fn the_recording_in_the_readme_has_the_words_of_the_demo() {
    let page = fs::read_to_string(run::root().join("README.md")).unwrap();
    let (_, recording) = page.split_once("```console\n$ cargo xtask demo").unwrap();
    let (recording, _) = recording.split_once("```").unwrap();
    let source = source();
    let mut found = 0;
    for line in recording.lines().skip(1) {
        let title = line.split_once(". ").map(|(_, title)| title);
        let said = match line.strip_prefix("  ") {
            None => title.filter(|_| line.starts_with(|first: char| first.is_ascii_digit())),
            Some(said) => said.starts_with(char::is_alphabetic).then_some(said),
        };
        let Some(said) = said else { continue };
        // Up to the first number, or to what stands for the rest.
        let end = |letter: char| letter.is_ascii_digit() || letter == ':';
        let words = said.split(end).next().unwrap().trim();
        // The line of a session begins with its name.
        if words.starts_with("checkout") {
            continue;
        }
        found += 1;
        assert!(source.contains(words), "the demo does not say: {words}");
    }
    assert!(found >= 6, "only {found} lines found");
}
