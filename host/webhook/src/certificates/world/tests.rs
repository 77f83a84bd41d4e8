use serde_json::{Value, json};

use super::*;

fn endpoint() -> Endpoint {
    let hosts = ["webhook.system.svc", "127.0.0.1", "::1"];
    let hosts = hosts.map(|host| ServerName::try_from(host.to_owned()).unwrap());
    Endpoint {
        service: ("system".to_owned(), "webhook".to_owned()),
        hosts: hosts.to_vec(),
    }
}

/// A configuration with these clientConfigs.
fn read(configs: &[Value]) -> Configuration {
    let webhooks: Vec<Value> = configs
        .iter()
        .map(|config| json!({ "name": "a", "clientConfig": config }))
        .collect();
    let object = json!({ "metadata": { "resourceVersion": "1" }, "webhooks": webhooks });
    Configuration::parse(&object.to_string(), &endpoint()).unwrap()
}

#[test]
fn webhooks_are_ours_if_they_call_our_service_or_one_of_our_hosts() {
    let service = |namespace: &str, name: &str| json!({ "service": { "namespace": namespace, "name": name } });
    let url = |url: &str| json!({ "url": url });
    let ours = [
        service("system", "webhook"),
        url("https://127.0.0.1:8443/mutate/pods"),
        url("https://[::1]:8443/mutate/pods"),
        url("https://WEBHOOK.system.svc/validate"),
    ];
    let foreign = [
        service("system", "other"),
        service("other", "webhook"),
        url("https://example.com/webhook.system.svc"),
        url("https://127.0.0.2/"),
        url("not a url"),
        json!({}),
    ];
    for config in &ours {
        assert!(!read(std::slice::from_ref(config)).is_foreign(), "{config}");
    }
    for config in &foreign {
        assert!(read(std::slice::from_ref(config)).is_foreign(), "{config}");
    }
    assert!(read(&[]).is_foreign());
    assert!(!Configuration::Absent.is_foreign());
    // Those that stay keep their places.
    let mixed = read(&[
        foreign[0].clone(),
        ours[0].clone(),
        foreign[2].clone(),
        ours[1].clone(),
    ]);
    let places: Vec<usize> = mixed
        .webhooks()
        .iter()
        .map(|webhook| webhook.place)
        .collect();
    assert_eq!(places, [1, 3]);
}
