use std::time::Duration;

use k8s_openapi::ByteString;
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use tokio::time::advance;

use crate::fixtures::{metas, secret};
use crate::resolve::SecretKey;
use crate::secrets::{Entries, KEPT, Lately};

fn key() -> SecretKey {
    SecretKey {
        namespace: "team".to_owned(),
        name: "account".to_owned(),
    }
}

/// The Secret in this version, as the watch shows it.
fn seen(version: &str) -> Value {
    let mut seen = secret("team", "account", &[]);
    let changes = json!({ "metadata": { "uid": "u", "resourceVersion": version } });
    json_patch::merge(&mut seen, &changes);
    seen
}

fn metadata(version: &str) -> ObjectMeta {
    serde_json::from_value(seen(version)["metadata"].clone()).unwrap()
}

fn entries(value: &str) -> Entries {
    Entries::from([("password".to_owned(), ByteString(value.as_bytes().to_vec()))])
}

#[tokio::test(start_paused = true)]
async fn what_was_read_lately_is_not_read_again() {
    let lately = Lately::new(metas(&[seen("1")]));
    assert_eq!(lately.get(&key()), None);
    lately.put(&key(), &metadata("1"), &entries("p"));
    assert_eq!(lately.get(&key()), Some(entries("p")));
    advance(KEPT).await;
    assert_eq!(lately.get(&key()), None);
}

/// Nobody may get a password that was changed since.
#[tokio::test(start_paused = true)]
async fn only_the_version_that_the_watch_shows_counts() {
    let lately = Lately::new(metas(&[seen("1")]));
    lately.put(&key(), &metadata("1"), &entries("p"));
    let changed = Lately {
        metas: metas(&[seen("2")]),
        ..lately.clone()
    };
    assert_eq!(changed.get(&key()), None);
    // The watch is behind.
    lately.put(&key(), &metadata("2"), &entries("q"));
    assert_eq!(lately.get(&key()), Some(entries("p")));
    let unwatched = Lately {
        metas: metas(&[]),
        ..lately
    };
    assert_eq!(unwatched.get(&key()), None);
}

#[tokio::test(start_paused = true)]
async fn nothing_stays_in_memory() {
    let lately = Lately::new(metas(&[seen("1")]));
    lately.put(&key(), &metadata("1"), &entries("p"));
    tokio::spawn({
        let lately = lately.clone();
        async move { lately.forget().await }
    });
    tokio::time::sleep(KEPT * 2 + Duration::from_millis(1)).await;
    assert_eq!(lately.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn large_secrets_are_not_kept() {
    let lately = Lately::new(metas(&[seen("1")]));
    lately.put(&key(), &metadata("1"), &entries(&"p".repeat(100_000)));
    assert_eq!(lately.len(), 0);
}
