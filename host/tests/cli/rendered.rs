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
