use serde_json::{Value, json};

use super::{Asked, ask_with, check};

const DEFAULT: &str = "portal.gosuda.org/is-default-class";

fn expose(url: &str) -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "team-a" },
        "spec": {
            "app": { "name": "web", "service": { "name": "web", "port": 80 } },
            "relay": { "targets": [{ "name": "a", "url": url }] },
        },
    })
}

fn class(name: &str, annotations: &Value, version: &str) -> Value {
    json!({
        "metadata": { "name": name, "annotations": annotations },
        "spec": { "replicas": 1, "size": "small", "client": { "image": "i", "version": version } },
    })
}

/// Sends a review of these TunnelClasses.
async fn review(plural: &str, classes: &[Value], request: &Value) -> Asked {
    let typed = |class: &Value| serde_json::from_value(class.clone()).expect("it is a class");
    ask_with(plural, request, classes.iter().map(typed).collect()).await
}

#[tokio::test]
async fn an_expose_whose_class_is_missing_is_admitted_with_a_warning() {
    let request = json!({ "object": expose("wss://h.org/relay") });
    let missing = format!(
        "spec.tunnelClassName: no TunnelClass has the annotation {DEFAULT}: \"true\"; add it to one, or set spec.tunnelClassName"
    );
    check(
        &review("portalexposes", &[], &request).await,
        None,
        &[&missing],
    );
    let default = class("a", &json!({ DEFAULT: "true" }), "2.4.3");
    check(
        &review("portalexposes", &[default], &request).await,
        None,
        &[],
    );
}

#[tokio::test]
async fn an_expose_that_can_never_work_is_refused() {
    let default = class("a", &json!({ DEFAULT: "true" }), "2.4.3");
    let mut twice = expose("wss://h.org/relay");
    let targets = twice["spec"]["relay"]["targets"].as_array_mut();
    targets
        .expect("it is a list")
        .push(json!({ "name": "b", "url": "https://H.org" }));
    let message = "spec.relay.targets[1].url: it is the relay h.org, as spec.relay.targets[0].url is; remove one of the two: scheme \
                   and path make no other relay";
    let request = json!({ "object": twice });
    let asked = review("portalexposes", std::slice::from_ref(&default), &request).await;
    check(&asked, Some((422, message)), &[]);
    // What is stored already is no reason to refuse an update.
    let mut edited = twice.clone();
    edited["spec"]["app"]["service"]["port"] = json!(81);
    let request = json!({ "operation": "UPDATE", "object": edited, "oldObject": twice });
    check(
        &review("portalexposes", &[default], &request).await,
        None,
        &[message],
    );
}

#[tokio::test]
async fn a_class_that_can_never_work_is_refused() {
    let request = json!({ "object": class("old", &Value::Null, "2.0.9") });
    let message = "spec.client.version: it is 2.0.9; the oldest client that works is 2.1.1";
    check(
        &review("tunnelclasses", &[], &request).await,
        Some((422, message)),
        &[],
    );
}

#[tokio::test]
async fn a_second_default_and_several_pods_are_warned_of() {
    let annotated = json!({ DEFAULT: "true" });
    let mut second = class("second", &annotated, "2.4.3");
    second["spec"]["replicas"] = json!(2);
    let first = class("first", &annotated, "2.4.3");
    let asked = review("tunnelclasses", &[first], &json!({ "object": second })).await;
    let pods = "spec.replicas: each tunnel has 2 pods that share one hostname; a relay serves one of them at a time, so this is no \
                high availability";
    let default = format!(
        "metadata.annotations[\"{DEFAULT}\"]: several TunnelClasses ask to be the default, and first is used: first, second; remove \
         the annotation from all but one"
    );
    check(&asked, None, &[pods, &default]);
}
