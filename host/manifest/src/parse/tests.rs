mod scalar;
mod verbatim;

use super::{Source, parse};
use crate::{Step, steps};

fn source(text: &str) -> Source {
    Source {
        name: "a.yaml".into(),
        text: text.into(),
    }
}

#[test]
fn fields_have_positions() {
    let text = "\u{feff}# a comment\napiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    env: [{name: B, value: 'ä'}, {name: C}]\n";
    let documents = parse(&source(text)).checked().unwrap();
    let document = documents.first().unwrap();
    for (pointer, line, column) in [
        ("", 2, 1),
        ("/kind", 3, 7),
        ("/spec/containers/0/name", 6, 11),
        ("/spec/containers/0/env/0/value", 7, 28),
        ("/spec/containers/0/env/1/name", 7, 41),
        // A missing field has the position of the map that it would be in.
        ("/spec/containers/0/image", 6, 5),
    ] {
        let position = document.position(&steps(&document.value, pointer));
        assert_eq!(
            (position.line, position.column),
            (line, column),
            "{pointer}"
        );
    }
    let value = steps(&document.value, "/spec/containers/0/env/0/value");
    assert_eq!(document.written(&value), Some("'ä'"));
}

#[test]
fn an_alias_is_where_its_anchor_is() {
    let text = "apiVersion: v1\nkind: X\na: &it\n  b: 1\nc: *it\n";
    let documents = parse(&source(text)).checked().unwrap();
    let document = documents.first().unwrap();
    let path = [Step::from("c"), Step::from("b")];
    assert_eq!(document.position(&path).line, 4);
    assert_eq!(document.value["c"]["b"], 1);
}

#[test]
fn a_file_of_many_objects_is_read() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n";
    let documents = parse(&source(&pod.repeat(3000))).checked().unwrap();
    assert_eq!(documents.len(), 3000);
    assert_eq!(documents.last().unwrap().position(&[]).document, 3000);
}

#[test]
fn a_text_that_is_too_large_is_an_error_with_the_limit() {
    let text = "---\na: 1\n".repeat(60_000);
    let errors = parse(&source(&text)).checked().unwrap_err();
    let expected = "more than 50000 documents: split the file";
    assert_eq!(errors.first().unwrap().message, expected);
}

#[test]
fn lists_are_split_into_their_items() {
    let text = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n- {apiVersion: apps/v1, kind: DeploymentList, items: [{metadata: {name: b}}]}\n---\napiVersion: example.com/v1\nkind: AllowList\nspec: {}\n---\napiVersion: v1\nkind: List\n";
    let documents = parse(&source(text)).checked().unwrap();
    let found: Vec<_> = documents
        .iter()
        .map(|document| {
            (
                document.value["apiVersion"].as_str(),
                document.kind.as_str(),
                document.name(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (Some("v1"), "Pod", "a"),
            (Some("apps/v1"), "Deployment", "b"),
            (Some("example.com/v1"), "AllowList", ""),
        ]
    );
}
