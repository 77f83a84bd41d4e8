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
    let read = Configuration::parse(&object.to_string(), setup).unwrap();
    read.webhooks.iter().map(|webhook| webhook.place).collect()
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

#[test]
fn the_patch_tests_what_it_was_made_for() {
    let publication = Publication {
        configuration: 0,
        resource_version: "7".to_owned(),
        webhooks: vec![(1, "b".to_owned()), (3, "d".to_owned())],
        bundle: "hello".to_owned(),
    };
    let expected = json!([
        { "op": "test", "path": "/metadata/resourceVersion", "value": "7" },
        { "op": "test", "path": "/webhooks/1/name", "value": "b" },
        { "op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "aGVsbG8=" },
        { "op": "test", "path": "/webhooks/3/name", "value": "d" },
        { "op": "add", "path": "/webhooks/3/clientConfig/caBundle", "value": "aGVsbG8=" },
    ]);
    assert_eq!(publication.patch(), expected);
}
