use serde_json::json;

use super::*;

fn pod(spec: &Value) -> Value {
    json!({ "metadata": { "name": "a" }, "spec": spec })
}

#[test]
fn the_hash_is_of_all_that_cannot_change() {
    let one = pod(&json!({ "hostname": "a", "containers": [{ "name": "browser", "image": "x" }] }));
    let renamed =
        pod(&json!({ "hostname": "b", "containers": [{ "name": "browser", "image": "x" }] }));
    let other =
        pod(&json!({ "hostname": "a", "containers": [{ "name": "browser", "image": "y" }] }));
    assert_eq!(hash_of_spec(&one), hash_of_spec(&renamed));
    assert_ne!(hash_of_spec(&one), hash_of_spec(&other));
    assert_eq!(difference(&one, &renamed), None);
    assert_eq!(
        difference(&one, &other).as_deref(),
        Some("spec.containers[0].image")
    );
}

#[test]
fn a_difference_names_the_first_place() {
    let warm = pod(&json!({ "containers": [{ "name": "browser" }], "volumes": [] }));
    for (spec, place) in [
        (
            json!({ "containers": [{ "name": "browser", "env": [] }], "volumes": [] }),
            "spec.containers[0].env",
        ),
        (
            json!({ "containers": [{ "name": "browser" }], "volumes": [{}] }),
            "spec.volumes",
        ),
        (
            json!({ "containers": [{ "name": "browser" }] }),
            "spec.volumes",
        ),
    ] {
        assert_eq!(difference(&warm, &pod(&spec)).as_deref(), Some(place));
    }
}
