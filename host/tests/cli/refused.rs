//! Invalid input: every error names its position, and nothing is printed.

use super::{fixtures, podloom, podloom_in};

#[test]
fn each_bad_input_is_explained() {
    insta::glob!("fixtures/refused/*", |path| {
        let file = path.strip_prefix(fixtures()).unwrap().to_str().unwrap();
        let ran = podloom(&["render", "-f", file]);
        assert_eq!(ran.code, 1, "{}", ran.text());
        assert_eq!(ran.stdout, "", "{}", ran.text());
        insta::assert_snapshot!(ran.text());
    });
}

#[track_caller]
fn check(arguments: &[&str], input: &str, code: i32, expected: &str) {
    let ran = podloom_in(&fixtures(), arguments, input);
    assert_eq!(ran.code, code, "{}", ran.text());
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains(expected), "{}", ran.text());
}

#[test]
fn missing_files_are_named() {
    check(
        &["render", "-f", "gone.yaml", "-f", "gone-too.yaml"],
        "",
        1,
        "error: gone.yaml: no such file or directory\nerror: gone-too.yaml: no such file or directory\n",
    );
    check(
        &["render", "-f", "."],
        "",
        1,
        "the directory has no .yaml, .yml or .json file; -R reads subdirectories too",
    );
}

#[test]
fn wrong_usage_has_an_exit_code_of_its_own() {
    check(&["render"], "", 2, "--filename <FILE>");
    check(&["rendre"], "", 2, "a similar subcommand exists: 'render'");
    check(&["render", "-f", "-", "-f", "-"], "", 2, "only once");
    check(
        &["crds", "--selenosis-api", "both"],
        "",
        2,
        "[possible values: seed, split]",
    );
}

#[test]
fn empty_input_is_an_error() {
    for input in ["", "\n\n", "---\n---\n", "# nothing\n"] {
        check(&["render", "-f", "-"], input, 1, "no objects in -");
    }
}

#[test]
fn hostile_input_ends_quickly() {
    let deep = format!(
        "apiVersion: v1\nkind: X\na: {}{}",
        "[".repeat(5000),
        "]".repeat(5000)
    );
    check(&["render", "-f", "-"], &deep, 1, "error: -:3:");
    let deep = (0..200).fold(String::new(), |text, depth| {
        text + &" ".repeat(depth) + "a:\n"
    });
    let expected = "more than 128 levels of nesting";
    check(&["render", "-f", "-"], &deep, 1, expected);
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (name, before) in "bcdefghij".chars().zip("abcdefghi".chars()) {
        let row = vec![format!("*{before}"); 9].join(", ");
        bomb.push_str(&format!("{name}: &{name} [{row}]\n"));
    }
    let expected = "the aliases expand to too much text";
    check(&["render", "-f", "-"], &bomb, 1, expected);
    check(&["render", "-f", "-"], "a: \u{0}\n", 1, "error: -:");
}

#[test]
fn text_that_is_not_utf_8_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.yaml"), b"kind: Pod\nname: \xff\n").unwrap();
    let ran = podloom_in(directory.path(), &["render", "-f", "a.yaml"], "");
    assert_eq!(ran.stderr, "error: a.yaml:2: not UTF-8 text\n");
    let units = || "\u{feff}kind: Pod\n".encode_utf16();
    let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
    for bytes in [&little[..], &little[2..], &big[..], &big[2..]] {
        std::fs::write(directory.path().join("a.yaml"), bytes).unwrap();
        let ran = podloom_in(directory.path(), &["render", "-f", "a.yaml"], "");
        assert!(
            ran.stderr.contains("a.yaml: the text is UTF-16"),
            "{}",
            ran.text()
        );
    }
}

/// As everywhere: what is wrong with one file does not hide what is wrong with the others.
#[test]
fn a_file_that_cannot_be_read_hides_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    std::os::unix::fs::symlink("gone", directory.join("a.yaml")).unwrap();
    std::fs::write(directory.join("b.yaml"), b"\xff").unwrap();
    let large = std::fs::File::create(directory.join("c.yaml")).unwrap();
    large.set_len(17 << 20).unwrap();
    std::fs::write(
        directory.join("d.yaml"),
        "apiVersion: v1\nkind: Pod\nspec: {}\n",
    )
    .unwrap();
    let name = "n".repeat(300);
    let ran = podloom_in(directory, &["render", "-f", &name, "-f", "."], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.text());
    for expected in [
        "nnn: File name too long",
        "error: ./a.yaml: no such file or directory\n",
        "error: ./b.yaml:1: not UTF-8 text\n",
        "error: ./c.yaml: larger than 16 MiB",
        "error: ./d.yaml:3:7: document 1, Pod without a name, spec.containers: the list of containers is missing",
        "5 errors, so nothing was done",
    ] {
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.text());
    }
}
