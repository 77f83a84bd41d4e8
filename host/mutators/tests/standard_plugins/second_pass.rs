//! Pods that pass the chain twice, and what others wrote into them.

use serde_json::{Value, json};

use super::{bundle, hardening, labels, load, mutate, names, pod, sidecar, violations};

#[test]
fn a_second_pass_writes_nothing() {
    let Some(bundle) = bundle() else { return };
    let chain = load(&bundle, &[labels(), sidecar(), hardening()]);
    assert_eq!(chain.prove(), []);
    let first = mutate(&chain, pod()).pod;
    let second = mutate(&chain, first.clone());
    let writes: Vec<_> = second.runs.iter().flat_map(|run| &run.writes).collect();
    assert_eq!(writes, Vec::<&podloom_mutation::Write>::new());
    assert_eq!(second.pod.to_string(), first.to_string());
}

#[test]
fn a_container_that_came_later_is_covered_by_a_second_pass() {
    let Some(bundle) = bundle() else { return };
    let chain = load(&bundle, &[labels(), sidecar(), hardening()]);
    let mut pod = mutate(&chain, pod()).pod;
    let late = json!({ "name": "late", "image": "registry.example.com/late:1.0" });
    pod["spec"]["containers"].as_array_mut().unwrap().push(late);
    let pod = mutate(&chain, pod).pod;
    assert_eq!(
        names(&pod, "containers"),
        ["browser", "seleniferous", "x-server", "alpha", "late"]
    );
    assert_eq!(violations(&pod), Vec::<String>::new());
}

#[test]
fn what_others_wrote_survives_the_chain() {
    let Some(bundle) = bundle() else { return };
    let mut before = pod();
    before["spec"]["initContainers"] = json!([
        { "name": "b-init", "image": "registry.example.com/init:1", "securityContext": { "runAsUser": 7 } },
        { "name": "a-init", "image": "registry.example.com/init:1", "futureField": { "kept": true } },
    ]);
    let after = mutate(
        &load(&bundle, &[labels(), sidecar(), hardening()]),
        before.clone(),
    )
    .pod;
    missing(&before, &after, &mut String::new());
    assert_eq!(after["spec"]["initContainers"].as_array().unwrap().len(), 3);
}

/// Fails if something of `before` is not in `after`. Elements of lists are found by name, or they keep their order.
#[track_caller]
fn missing(before: &Value, after: &Value, path: &mut String) {
    let length = path.len();
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                path.push_str(&format!("/{key}"));
                missing(
                    value,
                    after.get(key).unwrap_or_else(|| panic!("{path} is gone")),
                    path,
                );
                path.truncate(length);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            let mut rest = after.iter();
            for value in before {
                path.push_str(&format!("/[{}]", value["name"]));
                let same =
                    |other: &&Value| value["name"].is_null() || other["name"] == value["name"];
                missing(
                    value,
                    rest.find(same)
                        .unwrap_or_else(|| panic!("{path} is gone or moved")),
                    path,
                );
                path.truncate(length);
            }
        }
        _ => assert_eq!(before, after, "{path}"),
    }
}
