use serde_json::{Value, json};

use super::Stamp;

fn object(paths: &Value) -> Value {
    let entry =
        json!([{ "name": "a", "version": "1", "sha256": "0", "writes": 1, "paths": paths }]);
    json!({ "metadata": { "annotations": {
        "podloom.dev/chain": "x".repeat(1000), "podloom.dev/mutations": entry.to_string(),
    } } })
}

#[test]
fn a_stamp_that_somebody_made_long_is_not_read() {
    let stamp = Stamp::of(&object(&json!(["/b", "/a", "/b"]))).unwrap();
    assert_eq!(stamp.digest.unwrap().len(), 64);
    assert_eq!(stamp.entries.unwrap()[0].paths, ["/a", "/b"]);
    let many: Vec<String> = (0..50_000).map(|it| format!("/spec/{it}")).collect();
    assert!(Stamp::of(&object(&json!(many))).unwrap().entries.is_none());
    assert!(Stamp::of(&json!({ "metadata": {} })).is_none());
}
