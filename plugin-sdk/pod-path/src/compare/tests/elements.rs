//! Elements have the names that writes give them.

use serde_json::json;

use super::super::element_segments;
use crate::{Access, Transaction};

#[test]
fn names_are_those_of_writes() {
    let pod = json!({ "spec": {
        "containers": [{
            "name": "a/b",
            "env": [{ "name": "X" }, { "name": "Y]=" }],
            "ports": [{ "containerPort": 80 }, { "containerPort": 80, "protocol": "UDP" }],
            "volumeMounts": [{ "mountPath": "/data", "name": "d" }],
        }],
        "tolerations": [{ "key": "a" }],
        "newer": [{ "name": "a" }],
    } });
    for (list, index, field) in [
        ("/spec/containers", 0, "image"),
        ("/spec/containers/0/env", 1, "value"),
        ("/spec/containers/0/ports", 1, "name"),
        ("/spec/containers/0/volumeMounts", 0, "subPath"),
        ("/spec/tolerations", 0, "value"),
        ("/spec/newer", 0, "value"),
    ] {
        let elements = pod.pointer(list).and_then(|list| list.as_array());
        let segments = element_segments(list, elements.expect("a list"));
        let access = Access::unrestricted().into();
        let mut transaction = Transaction::begin(pod.clone(), access, [].into());
        let path = format!("{list}/{index}/{field}");
        transaction.set(&path, "\"x\"".to_owned()).expect("a write");
        let (_, writes) = transaction.commit();
        let expected = format!("/{}/{field}", segments[index]);
        assert!(
            writes[0].path.ends_with(&expected),
            "{} {expected}",
            writes[0].path
        );
    }
}

#[test]
fn lists_that_are_not_there_have_names_too() {
    let named = [json!({ "name": "a" })];
    for (path, expected) in [
        ("/spec/containers", "[name=a]"),
        ("/spec/containers/[name=x]/env", "[name=a]"),
        ("/spec/containers/0/env", "[name=a]"),
        ("/spec/containers/x/env", "0"),
        ("/metadata/labels", "0"),
        ("", "0"),
        ("x", "0"),
        ("/", "0"),
    ] {
        assert_eq!(element_segments(path, &named), [expected], "{path}");
    }
    assert!(element_segments("/spec/containers", &[]).is_empty());
}
