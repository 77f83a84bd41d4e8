//! Names and digests of files.

use crate::chain::edit::{NewFile, NewFiles, rename_files};

const NEW: &str = "00000000000000000000000000000000000000000000000000000000000000ff";
const OLD: &str = "9F86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn changes() -> NewFiles {
    let packed = |old: &str, name: &str| {
        let change = NewFile {
            name: name.to_owned(),
            sha256: NEW.to_owned(),
        };
        (old.to_owned(), change)
    };
    NewFiles::from([
        packed("a.wasm", "a.wasm.gz"),
        packed("named-so.wasm.gz", "named-so.wasm.gz"),
    ])
}

/// Both texts may contain OLD and NEW, which stand for the digests.
#[track_caller]
fn check(plugins: &str, expected: &str) {
    let full = |plugins: &str| {
        let plugins = plugins.replace("OLD", OLD).replace("NEW", NEW);
        format!("apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\n{plugins}")
    };
    assert_eq!(
        rename_files(&full(plugins), &changes()),
        Some(full(expected))
    );
}

#[track_caller]
fn check_error(plugins: &str) {
    assert_eq!(rename_files(plugins, &changes()), None);
}

#[test]
fn only_names_and_digests_change() {
    check("plugins: []\n", "plugins: []\n");
    check(
        "# Größe, and a.wasm in a comment\nplugins:\n- name: a   # first\n  file:   a.wasm # not packed\n  config: {file: a.wasm, sha256: OLD}\n- {name: b, file: b.wasm, sha256: OLD}\n\n# the end",
        "# Größe, and a.wasm in a comment\nplugins:\n- name: a   # first\n  file:   a.wasm.gz # not packed\n  config: {file: a.wasm, sha256: OLD}\n- {name: b, file: b.wasm, sha256: OLD}\n\n# the end",
    );
    check(
        "plugins:\r\n- sha256: OLD\r\n  file: a.wasm\r\n  name: a\r\n",
        "plugins:\r\n- sha256: NEW\r\n  file: a.wasm.gz\r\n  name: a\r\n",
    );
    check(
        "plugins: [{name: a, file: a.wasm, sha256: 'sha256:OLD'}, {name: b, file: \"a.wasm\"}]",
        "plugins: [{name: a, file: a.wasm.gz, sha256: sha256:NEW}, {name: b, file: a.wasm.gz}]",
    );
    check(
        "plugins:\n- {name: a, file: named-so.wasm.gz, sha256: OLD}\n",
        "plugins:\n- {name: a, file: named-so.wasm.gz, sha256: NEW}\n",
    );
}

#[test]
fn the_text_before_is_counted_in_bytes() {
    for before in [
        "\u{feff}",
        "---\n",
        "# \u{1f9f5}\u{1f9f5}\n--- # begins\n",
        "%YAML 1.2\n---\n",
    ] {
        let text = |file: &str| {
            format!("{before}# \u{1f9f5}\nplugins: [{{name: a, file: {file}}}]\n...\n")
        };
        let changed = rename_files(&text("a.wasm"), &changes());
        assert_eq!(changed, Some(text("a.wasm.gz")), "{before:?}");
    }
}

#[test]
fn anchors_and_aliases_are_changed_where_possible() {
    check(
        "plugins:\n- {name: a, file: &file a.wasm}\n- {name: b, file: *file, config: {note: x}}\n",
        "plugins:\n- {name: a, file: &file a.wasm.gz}\n- {name: b, file: a.wasm.gz, config: {note: x}}\n",
    );
    check(
        "plugins:\n- &a {name: a, file: a.wasm, sha256: OLD}\n- {<<: *a, name: b}\n",
        "plugins:\n- &a {name: a, file: a.wasm.gz, sha256: NEW}\n- {<<: *a, name: b}\n",
    );
}

#[test]
fn a_change_that_would_affect_something_else_is_an_error() {
    check_error(
        "plugins:\n- {name: a, file: &file a.wasm}\n- {name: b, file: b.wasm, config: {path: *file}}\n",
    );
    check_error("plugins:\n- name: a\n  file: >-\n    a.wasm\n  config: {}\n");
}
