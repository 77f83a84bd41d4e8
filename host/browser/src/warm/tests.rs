use serde_json::json;

use super::*;

fn pod(spec: &Value) -> Value {
    json!({ "metadata": { "name": "a" }, "spec": spec })
}

#[test]
fn all_that_cannot_change_is_compared() {
    let of = |spec: &Value| Recipe::of(pod(spec), None);
    let one = of(&json!({ "hostname": "a", "containers": [{ "name": "browser", "image": "x" }] }));
    let session = |spec: Value| json!({ "metadata": { "name": "b" }, "spec": spec });
    let renamed =
        session(json!({ "hostname": "b", "containers": [{ "name": "browser", "image": "x" }] }));
    assert_eq!(one.difference(&renamed), None);
    // A host name that is not made from the pod's name is what somebody wants.
    let host =
        session(json!({ "hostname": "h", "containers": [{ "name": "browser", "image": "x" }] }));
    assert_eq!(
        one.difference(&host).as_deref(),
        Some("spec.hostname is not that of the warm pods")
    );
    let image =
        session(json!({ "hostname": "b", "containers": [{ "name": "browser", "image": "y" }] }));
    assert_eq!(
        one.difference(&image).as_deref(),
        Some("spec.containers[0].image is not that of the warm pods")
    );
}

#[test]
fn a_recipe_is_another_one_if_its_metadata_is_but_for_the_stamps() {
    let of = |metadata: Value, policy| {
        Recipe::of(json!({ "metadata": metadata, "spec": {} }), policy).hash
    };
    let plain = of(json!({ "name": "a" }), None);
    let stamps = json!({ "name": "a", "annotations": { "podloom.dev/chain": "x", "podloom.dev/mutations": "y" } });
    let none = json!({ "name": "a", "annotations": {} });
    assert_eq!(of(stamps, None), of(none, None));
    assert_ne!(
        plain,
        of(json!({ "name": "a", "labels": { "team": "x" } }), None)
    );
    let policy = Some(podloom_api::SessionNetworkPolicy::default());
    assert_ne!(plain, of(json!({ "name": "a" }), policy));
}

#[test]
fn a_difference_names_the_first_place() {
    let warm = Recipe::of(
        pod(&json!({ "containers": [{ "name": "browser" }], "volumes": [] })),
        None,
    );
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
        let told = format!("{place} is not that of the warm pods");
        assert_eq!(warm.difference(&pod(&spec)), Some(told));
    }
}
