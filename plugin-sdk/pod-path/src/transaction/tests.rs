//! What accesses do to a pod.

use serde_json::{Value, json};

use super::Transaction;
use crate::Access;

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "a", "labels": { "app": "web", "a/b": "c~d" }, "creationTimestamp": null, "annotations": null },
        "spec": { "containers": [
            { "name": "browser", "image": "chrome", "ports": [{ "containerPort": 8080 }, { "containerPort": 9090, "protocol": "UDP" }] },
            { "name": "proxy", "image": "envoy", "env": [{ "name": "TZ", "value": "UTC" }] },
        ] },
    })
}

fn begin(pod: Value) -> Transaction {
    Transaction::begin(pod, Access::unrestricted().into(), [].into())
}

#[test]
fn smoke() {
    let mut t = begin(pod());
    assert_eq!(
        t.get("/spec/containers/[name=proxy]/env/[name=TZ]/value")
            .unwrap()
            .as_deref(),
        Some("\"UTC\"")
    );
    t.set("/metadata/annotations/x", "\"y\"".into()).unwrap();
    t.set("/spec/volumes/-", r#"{"name":"tmp"}"#.into())
        .unwrap();
    t.set(
        "/spec/containers/[name=browser]/ports/[containerPort=1]",
        r#"{"name":"tmp"}"#.into(),
    )
    .unwrap();
    t.insert("/spec/containers/0", r#"{"name":"init"}"#.into())
        .unwrap();
    t.remove("/spec/containers/1").unwrap();
    t.set(
        "/spec/containers/[name=proxy]/securityContext/seccompProfile/type",
        "\"RuntimeDefault\"".into(),
    )
    .unwrap();
    assert_eq!(t.rollback(), pod());
}
