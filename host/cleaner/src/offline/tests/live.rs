use podloom_scripted::client;
use serde_json::json;

use super::super::live;

/// A file could else have anything read with the rights of whoever checks it.
#[tokio::test]
async fn names_from_files_lead_to_no_other_object() {
    for (namespace, name) in [
        ("..", "shop"),
        ("../../secrets", "shop"),
        ("demo/x", "shop"),
        ("demo", ".."),
        ("demo", "../../configmaps/a"),
        ("", "shop"),
    ] {
        let (client, requests) = client(200, json!({}));
        let read = live(client, namespace, name).await;
        assert!(read.is_err(), "{namespace}/{name}");
        assert_eq!(requests.made(), Vec::<String>::new());
    }
    let (client, requests) = client(200, json!({}));
    live(client, "demo", "shop").await.unwrap();
    assert_eq!(
        requests.made(),
        ["GET /apis/cleaner.vtex.dev/v1alpha/namespaces/demo/cleaners/shop"]
    );
}
