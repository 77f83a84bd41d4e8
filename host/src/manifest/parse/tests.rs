use super::{Source, document_number, parse};
use crate::manifest::field::Step;

fn source(text: &str) -> Source {
    Source {
        name: "a.yaml".into(),
        text: text.into(),
    }
}

#[test]
fn fields_know_their_places() {
    let text = "\u{feff}# a comment\napiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    env: [{name: B, value: 'ä'}, {name: C}]\n";
    let documents = parse(&source(text)).unwrap();
    let document = documents.first().unwrap();
    for (pointer, line, column) in [
        ("", 2, 1),
        ("/kind", 3, 7),
        ("/spec/containers/0/name", 6, 11),
        ("/spec/containers/0/env/0/value", 7, 28),
        ("/spec/containers/0/env/1/name", 7, 41),
        // What is not there is where it would be.
        ("/spec/containers/0/image", 6, 5),
    ] {
        let place = document.place(&document.steps(pointer));
        assert_eq!((place.line, place.column), (line, column), "{pointer}");
    }
    let value = document.steps("/spec/containers/0/env/0/value");
    assert_eq!(document.written(&value), Some("'ä'"));
}

#[test]
fn an_alias_is_where_its_anchor_is() {
    let text = "apiVersion: v1\nkind: X\na: &it\n  b: 1\nc: *it\n";
    let documents = parse(&source(text)).unwrap();
    let document = documents.first().unwrap();
    let path = [Step::from("c"), Step::from("b")];
    assert_eq!(document.place(&path).line, 4);
    assert_eq!(document.value["c"]["b"], 1);
}

#[test]
fn documents_are_counted_as_people_count() {
    let text = "# a comment\n%YAML 1.2\n---\na: 1\n---\n\n--- # third\nb: 1\n";
    for (line, number) in [(3, 1), (4, 1), (6, 2), (8, 3)] {
        assert_eq!(document_number(text, line), number, "line {line}");
    }
    assert_eq!(document_number("a: 1\n---\nb: 1\n", 3), 2);
    assert_eq!(document_number("{}", 1), 1);
}
