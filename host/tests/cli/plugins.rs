//! The workflow of a plugin's author: create a crate, build it, test the plugin.
//!
//! A black-box test checks that the new crate builds and that its plugin runs: that takes a minute and needs a control plane.
#![expect(
    clippy::unwrap_used,
    reason = "shared helpers may panic, like the tests themselves"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::{Ran, bundle, podloom_in, root};

const TEMPLATE: &str = "podloom-plugin-template";

fn podloom(directory: &TempDir, arguments: &[&str]) -> Ran {
    podloom_in(directory.path(), arguments, "")
}

/// All files below a directory, with their content.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap();
                let content = fs::read(&path).unwrap();
                let text = String::from_utf8_lossy(&content).into_owned();
                files.insert(name.to_str().unwrap().to_owned(), text);
            }
        }
    }
    files
}

fn write(directory: &TempDir, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn a_new_plugin_is_the_template_with_another_name() {
    let mut expected = BTreeMap::new();
    for (name, text) in files(&root().join("plugin-sdk/template")) {
        let name = match name.as_str() {
            // The manifest of the template itself, as a member of our workspace.
            "Cargo.toml" => continue,
            "crate.toml" => "Cargo.toml",
            "cargo-config.toml" => ".cargo/config.toml",
            "gitignore" => ".gitignore",
            name => name,
        };
        let version = format!("podloom-plugin-sdk = \"{}\"", env!("CARGO_PKG_VERSION"));
        let text = text.replace("podloom-plugin-sdk = SDK", &version);
        expected.insert(name.to_owned(), text.replace(TEMPLATE, "tides"));
    }
    let directory = TempDir::new().unwrap();
    let ran = podloom(&directory, &["plugin", "new", "tides"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    insta::assert_snapshot!("new", ran.text());
    let schema = podloom(&directory, &["chain", "schema"]).stdout;
    expected.insert("chain.schema.json".to_owned(), schema);
    let made = files(&directory.path().join("tides"));
    assert_eq!(made, expected);
    let mut named = 0;
    for (file, text) in &made {
        let line = text.lines().next().unwrap_or_default();
        let Some(schema) = line.strip_prefix("# yaml-language-server: $schema=../") else {
            continue;
        };
        named += 1;
        let schema: Value = serde_json::from_str(&made[schema]).unwrap();
        assert!(schema["$id"].as_str().unwrap().starts_with("urn:podloom:"));
        let value: Value = serde_saphyr::from_str(text).unwrap();
        let schema = jsonschema::validator_for(&schema).unwrap();
        assert!(schema.is_valid(&value), "{file}");
    }
    assert_eq!(named, 2);
}

#[test]
fn a_new_plugin_can_have_the_sdk_of_a_checkout() {
    let directory = TempDir::new().unwrap();
    let sdk = root().join("plugin-sdk");
    let arguments = ["plugin", "new", "tides", "deep/down", "--sdk"];
    let arguments = [&arguments[..], &[sdk.to_str().unwrap()]].concat();
    let ran = podloom(&directory, &arguments);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let manifest = &files(&directory.path().join("deep/down"))["Cargo.toml"];
    let sdk = sdk.canonicalize().unwrap();
    let line = format!("podloom-plugin-sdk = {{ path = \"{}\" }}\n", sdk.display());
    assert!(manifest.contains(&line), "{manifest}");
}

#[track_caller]
fn fails(directory: &TempDir, arguments: &[&str], code: i32, expected: &str) {
    let before = files(directory.path());
    let ran = podloom(directory, arguments);
    assert_eq!(ran.code, code, "{}", ran.text());
    assert!(ran.stderr.contains(expected), "{}", ran.text());
    assert_eq!(files(directory.path()), before);
}

#[test]
fn invalid_names_are_an_error() {
    let directory = TempDir::new().unwrap();
    for name in [
        "Tides",
        "tides_",
        "-tides",
        "tides-",
        "7tides",
        "",
        "a.b",
        &"a".repeat(64),
    ] {
        fails(
            &directory,
            &["plugin", "new", "--", name],
            2,
            "use 1 to 63 lower-case letters, digits and dashes",
        );
    }
    for name in ["test", "match", "std", "serde", "podloom-plugin-sdk"] {
        let expected =
            format!("{name} is reserved in Rust; use another name, for example {name}-plugin");
        fails(&directory, &["plugin", "new", name], 2, &expected);
    }
}

#[test]
fn nothing_is_overwritten() {
    let directory = TempDir::new().unwrap();
    write(&directory, &[("tides/notes.txt", ""), ("file", "")]);
    let new = ["plugin", "new", "tides"];
    fails(&directory, &new, 1, "tides: the directory is not empty");
    let new = ["plugin", "new", "tides", "file"];
    fails(
        &directory,
        &new,
        1,
        "file: it is a file; name another directory",
    );
    write(&directory, &[("fresh/.git/HEAD", "")]);
    let ran = podloom(&directory, &["plugin", "new", "tides", "fresh"]);
    assert_eq!(
        ran.code,
        0,
        "a directory with only .git counts as empty: {}",
        ran.text()
    );
}

#[test]
fn a_directory_without_the_sdk_is_an_error() {
    let directory = TempDir::new().unwrap();
    write(
        &directory,
        &[("other/Cargo.toml", "[package]\nname = \"other\"\n")],
    );
    let new = ["plugin", "new", "tides", "--sdk"];
    for (sdk, expected) in [
        ("gone", "--sdk gone: it has no Cargo.toml"),
        (
            "other",
            "--sdk other: it is another crate; name the directory plugin-sdk",
        ),
    ] {
        fails(&directory, &[&new[..], &[sdk]].concat(), 1, expected);
    }
}

#[test]
fn a_failed_build_is_explained() {
    let directory = TempDir::new().unwrap();
    let expected = "gone/Cargo.toml: no such file; name the directory of a plugin's crate";
    fails(&directory, &["plugin", "build", "gone"], 1, expected);
    // From here on Rust needs the target; it is installed where the standard plugins are built.
    if bundle().is_none() {
        return;
    }
    let check = |name: &str, library: &str, text: &str, expected: &str| {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n{library}"
        );
        let files = [("Cargo.toml", manifest.as_str()), ("src/lib.rs", text)];
        let directory = TempDir::new().unwrap();
        write(&directory, &files);
        let ran = podloom(&directory, &["plugin", "build"]);
        assert_eq!(ran.code, 1, "{}", ran.text());
        assert!(ran.stderr.contains(expected), "{}", ran.text());
        assert!(!directory.path().join("bundle").exists(), "{}", ran.text());
    };
    let dynamic = "[lib]\ncrate-type = [\"cdylib\"]\n";
    check(
        "broken",
        dynamic,
        "fn",
        ".: cargo build failed (exit status: 101)",
    );
    check(
        "plain",
        "",
        "",
        "Cargo.toml: cargo built no WebAssembly module; add these lines:\n    [lib]",
    );
    check("empty", dynamic, "", ".: the built module ");
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: shop}\nspec: {containers: [{name: a, image: example.com/a:1}]}\n";

/// The standard plugin `labels` in a bundle of its own, a pod, and a case.
fn bundle_to_test() -> Option<TempDir> {
    let standard = bundle()?;
    let directory = TempDir::new().unwrap();
    let chain = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n\
        - name: team\n  file: labels.wasm.gz\n  sha256: 0000000000000000000000000000000000000000000000000000000000000000\n  \
        allow: [/metadata/labels, /metadata/annotations]\n  match: {kinds: [Browser]}\n  \
        config: {labels: [{key: team, value: web}]}\n\
        - {name: other, file: other.wasm}\n\
        - {name: twice, file: other.wasm}\n";
    write(
        &directory,
        &[
            ("bundle/chain.yaml", chain),
            ("pod.yaml", POD),
            ("cases/plain.pod.yaml", POD),
            (
                "cases/own.pod.yaml",
                &POD.replace("name: shop", "name: shop, labels: {team: sea}"),
            ),
            ("cases/none.pod.yaml", POD),
            (
                "cases/none.config.yaml",
                "labels: [{key: team, value: $(namespace/labels/team), onMissing: deny}]\n",
            ),
        ],
    );
    let file = directory.path().join("bundle/labels.wasm.gz");
    fs::copy(standard.join("labels.wasm.gz"), file).unwrap();
    Some(directory)
}

const TEST: [&str; 3] = ["plugin", "test", "bundle/labels.wasm.gz"];

/// Removes the numbers that differ from run to run.
fn steady(text: &str) -> String {
    text.lines()
        .map(|line| {
            let words = line.split(' ').collect::<Vec<_>>();
            let after = |at: usize| words.get(at + 1).map(|word| word.trim_end_matches(','));
            let is_time = |at: usize| matches!(after(at), Some("us" | "KiB" | "MiB"));
            let words = words.iter().enumerate();
            let words = words.map(|(at, word)| if is_time(at) { "N" } else { word });
            words.collect::<Vec<_>>().join(" ") + "\n"
        })
        .collect()
}

#[track_caller]
fn check_test(directory: &TempDir, arguments: &[&str], code: i32, expected: &[&str]) {
    let ran = podloom(directory, &[&TEST[..], arguments].concat());
    assert_eq!(ran.code, code, "{}", ran.text());
    for expected in expected {
        assert!(ran.text().contains(expected), "{expected}: {}", ran.text());
    }
}

#[test]
fn a_plugin_is_tested_with_the_rights_of_its_chain() {
    let Some(directory) = bundle_to_test() else {
        return;
    };
    let arguments = [&TEST[..], &["--chain", "bundle", "--pod", "pod.yaml"]].concat();
    let ran = podloom(&directory, &arguments);
    insta::assert_snapshot!("rights_of_a_chain", steady(&ran.text()));
    // A `sha256` of another file and a `match` that excludes Pods are ignored.
    assert_eq!(ran.code, 0, "{}", ran.text());
}

#[test]
fn a_mistake_in_a_configuration_file_has_a_line() {
    let Some(directory) = bundle_to_test() else {
        return;
    };
    let wrong = "# Labels.\nlabels:\n- key: team\n  value: web\n- key: tier\n  value: back\n  mode: overwrit\n";
    write(
        &directory,
        &[
            ("wrong.yaml", wrong),
            ("twice.yaml", "inheritLabels: [a]\nlabels: 5\n"),
            // What the plugin itself refuses.
            ("own.yaml", "labels: [{key: a, value: $(team)}]\n"),
            ("cases/own.config.yaml", wrong),
        ],
    );
    let mistake = "7:9: document 1: invalid configuration: config/labels/1/mode: value must be ";
    let of_file = ["--pod", "pod.yaml", "--config", "wrong.yaml"];
    check_test(&directory, &of_file, 1, &[&format!("wrong.yaml:{mistake}")]);
    let of_case = ["--cases", "cases"];
    let expected = format!("cases/own.config.yaml:{mistake}");
    check_test(&directory, &of_case, 1, &[&expected]);
    let inspect = |file, expected: &str| {
        let arguments = [
            "plugin",
            "inspect",
            "bundle/labels.wasm.gz",
            "--config",
            file,
        ];
        fails(&directory, &arguments, 1, expected);
    };
    inspect("wrong.yaml", &format!("wrong.yaml:{mistake}"));
    inspect(
        "twice.yaml",
        "twice.yaml:2:9: document 1: invalid configuration: config/labels: expected a list, found 5",
    );
    inspect(
        "own.yaml",
        "own.yaml: document 1: invalid configuration: label a: value: $(team) is no source",
    );
}

#[test]
fn a_plugin_is_tested_with_other_rights() {
    let Some(directory) = bundle_to_test() else {
        return;
    };
    write(
        &directory,
        &[("config.yaml", "labels: [{key: a, value: b}]\n")],
    );
    let with = |allow: &'static str| {
        [
            "--pod",
            "pod.yaml",
            "--config",
            "config.yaml",
            "--allow",
            allow,
        ]
    };
    check_test(
        &directory,
        &with("/metadata/labels"),
        0,
        &["/metadata/labels/a  /metadata/labels  1\n"],
    );
    let needs = "the plugin needs to write /metadata/labels/a, but `allow` grants only /spec; add /metadata/labels/a";
    check_test(&directory, &with("/spec"), 1, &[needs]);
    check_test(
        &directory,
        &with("spec"),
        1,
        &["the plugin has an invalid path in `allow`"],
    );
    let loose = [&with("/metadata/labels")[..], &["--not-idempotent"]].concat();
    let expected = "idempotent     yes, on this pod; not required\n";
    check_test(&directory, &loose, 0, &[expected]);
}

#[test]
fn the_entry_of_a_chain_is_found() {
    let Some(directory) = bundle_to_test() else {
        return;
    };
    let pod = ["--pod", "pod.yaml", "--chain"];
    let check = |arguments: &[&str], code: i32, expected: &str| {
        check_test(
            &directory,
            &[&pod[..], arguments].concat(),
            code,
            &[expected],
        );
    };
    check(
        &["bundle/chain.yaml", "--entry", "team"],
        0,
        "+ /metadata/labels/team: web",
    );
    check(
        &["bundle", "--entry", "sea"],
        1,
        "bundle/chain.yaml has no plugin sea; choose one of its plugins with --entry NAME: team, other, twice",
    );
    check(&["gone.yaml"], 1, "gone.yaml: no such file");
    write(
        &directory,
        &[(
            "wrong.yaml",
            "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugin: []\n",
        )],
    );
    check(&["wrong.yaml"], 1, "wrong.yaml: chain.yaml:3:1: ");
    let other = directory.path().join("bundle/other.wasm");
    fs::copy(directory.path().join("bundle/labels.wasm.gz"), other).unwrap();
    let arguments = [
        "plugin",
        "test",
        "bundle/other.wasm",
        "--pod",
        "pod.yaml",
        "--chain",
        "bundle",
    ];
    let ran = podloom(&directory, &arguments);
    let expected =
        "has several entries for plugin with the file other.wasm; choose one with --entry NAME";
    assert_eq!(ran.code, 2, "{}", ran.text());
    assert!(ran.stderr.contains(expected), "{}", ran.text());
}

#[test]
fn golden_files_contain_the_expected_results() {
    let Some(directory) = bundle_to_test() else {
        return;
    };
    let cases = ["--chain", "bundle", "--cases", "cases"];
    let missing =
        "error: cases/plain.golden.yaml: no such file; create it from the result with --update\n";
    check_test(&directory, &cases, 1, &["FAIL plain  1 write", missing]);
    let update = [&cases[..], &["--update"]].concat();
    check_test(
        &directory,
        &update,
        0,
        &["ok   none   denied  golden file written\n"],
    );
    check_test(
        &directory,
        &cases,
        0,
        &["ok   own    0 writes", "matches the golden file"],
    );
    let golden = files(&directory.path().join("cases"));
    let all = ["none", "own", "plain"].map(|name| {
        let name = format!("{name}.golden.yaml");
        format!("--- {name}\n{}", golden[&name])
    });
    insta::assert_snapshot!("golden_files", all.concat());
    let other = golden["plain.golden.yaml"].replace("team: web", "team: sea");
    write(&directory, &[("cases/plain.golden.yaml", &other)]);
    let differs = "    -     team: sea\n    +     team: web\n";
    let error = "error: cases/plain.golden.yaml: differs from the result; if the result is right, write it with --update\n";
    check_test(&directory, &cases, 1, &[differs, error, "ok   own"]);
    let golden = [
        "--golden",
        "cases/own.golden.yaml",
        "--chain",
        "bundle",
        "--pod",
    ];
    let one = |pod: &'static str| [&golden[..], &[pod]].concat();
    check_test(
        &directory,
        &one("cases/own.pod.yaml"),
        0,
        &["cases/own.golden.yaml: matches the golden file"],
    );
    check_test(
        &directory,
        &one("pod.yaml"),
        1,
        &["-     team: sea\n", "deterministic  yes"],
    );
}

#[test]
fn invalid_cases_are_explained() {
    let Some(directory) = bundle_to_test() else {
        return;
    };
    let cases = |directory: &'static str| ["--chain", "bundle", "--cases", directory];
    write(
        &directory,
        &[
            ("lost/a.golden.yaml", ""),
            ("bad/a.pod.yaml", "kind: ["),
            ("bad/b.pod.yaml", POD),
        ],
    );
    let lost = "error: lost/a.golden.yaml belongs to no case: add a.pod.yaml, or rename the file\n";
    check_test(&directory, &cases("lost"), 1, &[lost, "lost has no cases"]);
    check_test(
        &directory,
        &cases("gone"),
        1,
        &["error: gone: no such directory\n"],
    );
    // If one is invalid, the others still run.
    check_test(
        &directory,
        &cases("bad"),
        1,
        &["FAIL a\n", "FAIL b  1 write", "error: bad/a.pod.yaml:"],
    );
    let pod = ["--pod", "pod.yaml"];
    let check = |arguments: &[&str], expected: &str| {
        check_test(&directory, &[&pod[..], arguments].concat(), 2, &[expected]);
    };
    check(
        &["--update"],
        "--update needs a golden file to write: name one with --golden",
    );
    check(&["--cases", "cases"], "cannot be used with");
    check(
        &["--allow", "/spec", "--chain", "bundle"],
        "cannot be used with",
    );
}
