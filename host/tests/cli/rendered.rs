//! Valid input rendered without a chain.

use super::{fixtures, podloom, podloom_in};

#[test]
fn each_good_input_is_rendered() {
    insta::glob!("fixtures/rendered/*", |path| {
        let file = path.strip_prefix(fixtures()).unwrap().to_str().unwrap();
        let ran = podloom(&["render", "-f", file]);
        assert_eq!(ran.code, 0, "{}", ran.text());
        insta::assert_snapshot!(ran.text());
    });
}

#[test]
fn rendered_objects_render_to_themselves() {
    for entry in std::fs::read_dir(fixtures().join("rendered")).unwrap() {
        let path = entry.unwrap().path();
        let once = podloom(&["render", "-f", path.to_str().unwrap()]);
        if once.stdout.is_empty() {
            continue;
        }
        let twice = podloom_in(&fixtures(), &["render", "-f", "-"], &once.stdout);
        assert_eq!(twice.stdout, once.stdout, "{}", twice.stderr);
    }
}

#[test]
fn json_is_one_object_or_a_list() {
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: a, image: b}}]}}\n---\n"
        )
    };
    let kinds = [(pod("a"), "Pod"), (pod("a") + &pod("b"), "List")];
    for (input, kind) in kinds {
        let ran = podloom_in(&fixtures(), &["render", "-f", "-", "-o", "json"], &input);
        let object: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(object["kind"], kind);
        let again = podloom_in(
            &fixtures(),
            &["render", "-f", "-", "-o", "json"],
            &ran.stdout,
        );
        assert_eq!(again.stdout, ran.stdout);
    }
}

#[test]
fn directories_are_read_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let name = name.replace(['/', '.'], "-").to_lowercase();
        let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n");
        std::fs::write(path, text).unwrap();
    };
    for name in [
        "b.yaml",
        "a.json",
        "c.yml",
        "README.md",
        "in/d.yaml",
        "..data/e.yaml",
    ] {
        write(name);
    }
    let names = |arguments: &[&str]| {
        let ran = podloom_in(directory.path(), arguments, "");
        let names: Vec<String> = ran
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix("  name: ").map(str::to_owned))
            .collect();
        names
    };
    assert_eq!(names(&["render", "-f", "."]), ["a-json", "b-yaml", "c-yml"]);
    assert_eq!(
        names(&["render", "-R", "-f", "."]),
        ["a-json", "b-yaml", "c-yml", "in-d-yaml"]
    );
    assert_eq!(
        names(&["render", "-f", "c.yml", "b.yaml"]),
        ["c-yml", "b-yaml"]
    );
}

/// As `cat` leaves them, and as kubectl reads them; in text they are text.
#[test]
fn byte_order_marks_begin_documents() {
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: \"\u{feff}\"}\n";
    let expected = [object, object].join("---\n");
    for separator in ["---\n\u{feff}", "---\r\n\u{feff}", "---\n\u{feff}---\n"] {
        let input = ["\u{feff}", object, separator, object].concat();
        let ran = podloom_in(&fixtures(), &["render", "-f", "-"], &input);
        assert_eq!(
            (ran.code, &ran.stdout),
            (0, &expected),
            "{separator:?}: {}",
            ran.text()
        );
    }
}

#[test]
fn a_commit_is_text() {
    let input = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {commit: 83e2010}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {commit: 83e2010}}\nspec: {containers: [{name: a, image: b}]}\n";
    let ran = podloom_in(
        &fixtures(),
        &["render", "-f", "-", "-p", "bundles/empty"],
        input,
    );
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(
        ran.stdout.contains("data: {commit: 83e2010}\n"),
        "{}",
        ran.text()
    );
    assert!(
        ran.stdout.contains("commit: \"83e2010\"\n"),
        "{}",
        ran.text()
    );
}
