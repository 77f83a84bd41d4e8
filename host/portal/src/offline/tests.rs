use podloom_api::{PortalExposeObject, TunnelClassObject};
use podloom_engine::finding::Finding;
use serde_json::{Value, json};

use super::{Around, OfflineTunnel, TunnelSettings, render};

fn rendered(url: &str, class: &Value) -> Result<OfflineTunnel, Vec<Finding>> {
    let expose: PortalExposeObject = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "team" },
        "spec": {
            "app": { "name": "web", "service": { "name": "web", "port": 80 } },
            "relay": { "targets": [{ "name": "a", "url": url }] },
            "tunnelClassName": "small",
        },
    }))
    .unwrap();
    let class: TunnelClassObject = serde_json::from_value(class.clone()).unwrap();
    let around = Around {
        classes: Some(&[(&class).into()]),
        ..Around::default()
    };
    render(&expose, &around, &TunnelSettings::default())
}

fn class(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "replicas": 1, "size": "small" } })
}

#[test]
fn what_only_a_cluster_knows_is_left_out() {
    let tunnel = rendered("wss://h.org", &class("small")).ok().unwrap();
    assert_eq!(tunnel.secret, "web-tunnel-identity");
    let deployment = tunnel.deployment();
    assert_eq!(deployment["metadata"].get("ownerReferences"), None);
    let template = &deployment["spec"]["template"]["metadata"];
    assert_eq!(template.get("annotations"), None);
    assert_eq!(tunnel.with_pod(tunnel.pod()).as_ref(), Ok(deployment));
}

#[test]
fn stamps_of_the_chain_are_on_the_deployment() {
    let tunnel = rendered("wss://h.org", &class("small")).ok().unwrap();
    let mut pod = tunnel.pod();
    pod["metadata"]["annotations"]["podloom.dev/chain"] = json!("abc");
    let deployment = tunnel.with_pod(pod).unwrap();
    let annotations = &deployment["metadata"]["annotations"];
    assert_eq!(*annotations, json!({ "podloom.dev/chain": "abc" }));
    let error = tunnel.with_pod(json!({})).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the plugins changed the label"),
        "{error}"
    );
}

#[test]
fn problems_name_their_field() {
    let problem = |url, class: &Value| rendered(url, class).err().unwrap()[0].to_string();
    assert_eq!(
        problem("wss://h.org", &class("large")),
        "spec.tunnelClassName: TunnelClass small does not exist; create it, or correct spec.tunnelClassName",
    );
    let url = problem("http://h.org", &class("small"));
    assert!(
        url.starts_with("spec.relay.targets[0].url: it is no relay URL"),
        "{url}"
    );
}
