//! Which defaults a template gets.

use podloom_mutators::MutationEntry;
use serde_json::json;

use crate::blame::WORK;
use crate::blame::authors::Authors;
use crate::blame::submitted;
use crate::managed_fields::ManagedFields;

#[test]
fn defaults_that_the_maker_owns_are_added() {
    let container = json!({ ".": {}, "f:name": {}, "f:imagePullPolicy": {}, "f:securityContext": { "f:privileged": {} } });
    let later = json!({ "f:spec": { "f:priority": {} } });
    let made = json!({ "f:metadata": { "f:labels": { "f:late": {} } }, "f:spec": {
        "f:containers": { "k:{\"name\":\"web\"}": container, "k:{\"name\":\"gone\"}": { ".": {}, "f:name": {} } },
        "f:enableServiceLinks": {}, "f:nodeName": {}, "f:tolerations": {},
    } });
    let pod = json!({ "kind": "Pod", "metadata": {
        "labels": { "late": "x" },
        "managedFields": [
            { "manager": "a", "operation": "Update", "fieldsV1": made },
            { "manager": "b", "operation": "Update", "fieldsV1": later },
        ],
    }, "spec": {
        "containers": [{ "name": "web", "image": "x", "imagePullPolicy": "Always", "securityContext": { "privileged": false } }],
        "enableServiceLinks": true,
        "priority": 7,
        "tolerations": [{ "key": "a" }],
    } });
    let fields = ManagedFields::of(&pod, WORK);
    let plugin = MutationEntry {
        name: "hardening".to_owned(),
        version: "1".to_owned(),
        sha256: String::new(),
        writes: 1,
        paths: vec!["/spec/containers/[name=web]/securityContext".to_owned()],
        cut: false,
    };
    let authors = Authors {
        plugins: &[plugin],
        fields: &fields,
    };
    let template =
        json!({ "spec": { "containers": [{ "name": "web", "image": "x" }], "tolerations": [] } });
    let expected = json!({ "spec": {
        "containers": [{ "name": "web", "image": "x", "imagePullPolicy": "Always" }],
        "enableServiceLinks": true,
        "tolerations": [],
    } });
    assert_eq!(submitted(template, &pod, &authors), expected);
}
