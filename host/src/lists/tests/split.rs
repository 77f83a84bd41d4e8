//! Which objects an answer has.

use serde_json::{Value, json};

use super::super::{LONGEST, Splitter, read};

/// The objects of an answer that arrives in pieces of this length, and what is left of it.
fn split(answer: &str, length: usize) -> (Vec<Vec<u8>>, Value) {
    let mut splitter = Splitter::default();
    let mut objects = Vec::new();
    for mut piece in answer.as_bytes().chunks(length) {
        while !piece.is_empty() {
            let (taken, object) = splitter.take(piece);
            piece = &piece[taken..];
            objects.extend(object);
        }
    }
    (objects, serde_json::from_slice(&splitter.frame).unwrap())
}

#[track_caller]
fn check(answer: &str, expected: &[Value]) {
    for length in [1, 2, 7, 1_000_000] {
        let (objects, frame) = split(answer, length);
        let objects: Vec<Value> = objects.iter().map(|it| read(it).unwrap()).collect();
        assert_eq!(objects, expected, "{length}");
        assert_eq!(frame["metadata"]["continue"], "next", "{length}");
    }
}

#[test]
fn objects_are_split_wherever_the_answer_breaks() {
    let objects = [
        json!({ "metadata": { "name": "a", "labels": {} }, "items": [{ "x": [] }] }),
        json!({ "text": "}],\"items\":[{\\\" é \u{1f600}" }),
        json!({}),
    ];
    let items = json!(objects);
    let metadata = json!({ "continue": "next", "resourceVersion": "7" });
    check(
        &format!("{{\"kind\":\"PodList\",\"metadata\":{metadata},\"items\":{items}}}"),
        &objects,
    );
    // Lists of custom kinds are sorted by name.
    check(
        &format!("{{\"apiVersion\":\"v1\",\"items\":{items},\"metadata\":{metadata}}}\n"),
        &objects,
    );
    let list = json!({ "metadata": metadata, "items": items });
    check(&serde_json::to_string_pretty(&list).unwrap(), &objects);
    check(
        &json!({ "metadata": metadata, "items": [] }).to_string(),
        &[],
    );
    check(
        &json!({ "metadata": metadata, "items": null }).to_string(),
        &[],
    );
}

#[test]
fn an_object_that_is_too_long_costs_only_itself() {
    let long = json!({ "a": "x".repeat(LONGEST) });
    let longest = json!({ "a": "x".repeat(LONGEST - r#"{"a":""}"#.len()) });
    let list = json!({ "items": [{ "b": 1 }, long, longest, { "b": 2 }] });
    let (objects, _) = split(&list.to_string(), 4096);
    assert_eq!(objects.len(), 4);
    assert!(objects[1].is_empty());
    let read: Vec<bool> = objects.iter().map(|it| read(it).is_some()).collect();
    assert_eq!(read, [true, false, true, true]);
}

#[test]
fn an_object_that_is_nested_too_deep_costs_only_itself() {
    let deep = format!(
        "{}{}",
        "{\"a\":".repeat(10_000),
        "1".to_owned() + &"}".repeat(10_000)
    );
    let (objects, _) = split(&format!("{{\"items\":[{deep},{{\"b\":2}}]}}"), 4096);
    let read = objects.iter().map(|it| read(it));
    assert_eq!(read.collect::<Vec<_>>(), [None, Some(json!({ "b": 2 }))]);
}
