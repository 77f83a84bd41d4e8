use super::super::super::tests::api::Api;
use super::super::super::tests::setup;
use super::super::*;

/// The places of those webhooks that are ours.
fn read(setup: &OwnSetup, configs: &[Value]) -> Vec<usize> {
    let webhooks: Vec<Value> = configs
        .iter()
        .map(|config| json!({ "name": "a", "clientConfig": config }))
        .collect();
    let object = json!({ "metadata": { "resourceVersion": "1" }, "webhooks": webhooks });
    let read: Configuration = serde_json::from_value(object).unwrap();
    let ours = read.seen_by(setup).webhooks;
    let ours = ours.iter().enumerate();
    ours.filter(|(_, webhook)| webhook.is_ours())
        .map(|(place, _)| place)
        .collect()
}

#[tokio::test]
async fn webhooks_are_ours_if_they_call_our_service_or_one_of_our_hosts() {
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
    let api = Api::default().plain_client();
    let setup = setup(api, &["webhook.system.svc", "127.0.0.1", "::1"]);
    for config in &ours {
        let read = read(&setup, std::slice::from_ref(config));
        assert_eq!(read, [0], "{config}");
    }
    let none: [usize; 0] = [];
    assert_eq!(read(&setup, &foreign), none);
    assert_eq!(read(&setup, &[]), none);
    // Those that stay keep their places.
    let [one, two, ..] = ours;
    let [first, _, third, ..] = foreign;
    assert_eq!(read(&setup, &[first, one, third, two]), [1, 3]);
}

#[tokio::test]
async fn the_patch_tests_what_it_was_made_for() {
    let setup = setup(Api::default().plain_client(), &["::1"]);
    let webhook = |name: &str, url: &str, bundle: &str| {
        let bundle = ByteString(bundle.as_bytes().to_vec());
        json!({ "name": name, "clientConfig": { "url": url, "caBundle": bundle } })
    };
    let object = json!({ "metadata": { "resourceVersion": "7" }, "webhooks": [
        webhook("a", "https://[::1]/", "hello"),
        webhook("b", "https://[::1]/", "garbage"),
        webhook("c", "https://example.com/", "garbage"),
        webhook("d", "https://[::1]/", ""),
    ] });
    let read: Configuration = serde_json::from_value(object).unwrap();
    let read = read.seen_by(&setup);
    let expected = json!([
        { "op": "test", "path": "/metadata/resourceVersion", "value": "7" },
        { "op": "test", "path": "/webhooks/1/name", "value": "b" },
        { "op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "aGVsbG8=" },
        { "op": "test", "path": "/webhooks/3/name", "value": "d" },
        { "op": "add", "path": "/webhooks/3/clientConfig/caBundle", "value": "aGVsbG8=" },
    ]);
    let outdated = read.outdated("hello");
    assert_eq!(read.patch(&outdated, "hello"), expected);
}
