//! Which defaults a template gets.

use serde_json::json;

use crate::blame::authors::Authors;
use crate::blame::submitted;

#[test]
fn defaults_that_the_maker_owns_are_added() {
    let container = json!({ ".": {}, "f:name": {}, "f:imagePullPolicy": {}, "f:securityContext": { "f:privileged": {} } });
    let later = json!({ "f:spec": { "f:priority": {} } });
    let made = json!({ "f:metadata": { "f:labels": { "f:late": {} } }, "f:spec": {
        "f:containers": { "k:{\"name\":\"web\"}": container, "k:{\"name\":\"gone\"}": { ".": {}, "f:name": {} } },
        "f:enableServiceLinks": {}, "f:nodeName": {}, "f:tolerations": {},
    } });
    let plugin = json!([{
        "name": "hardening", "version": "1", "sha256": "", "writes": 1,
        "paths": ["/spec/containers/[name=web]/securityContext"],
    }]);
    let pod = json!({ "kind": "Pod", "metadata": {
        "annotations": { "podloom.dev/chain": "1", "podloom.dev/mutations": plugin.to_string() },
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
    let authors = Authors::of(&pod);
    let template =
        json!({ "spec": { "containers": [{ "name": "web", "image": "x" }], "tolerations": [] } });
    let expected = json!({ "spec": {
        "containers": [{ "name": "web", "image": "x", "imagePullPolicy": "Always" }],
        "enableServiceLinks": true,
        "tolerations": [],
    } });
    assert_eq!(submitted(template, &pod, &authors), expected);
}
