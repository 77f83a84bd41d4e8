use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use podloom_scripted::{client, status};
use serde_json::json;
use tokio::time::advance;

use super::super::WatchAges;

#[tokio::test(start_paused = true)]
async fn a_watch_ages_until_the_api_server_answers() {
    let (answering, _) = client(200, json!({ "metadata": {}, "items": [] }));
    let (failing, _) = client(500, status(500, "InternalError", "no"));
    let watch_ages = WatchAges::default();
    let answered = watch_ages.client(&answering, "Pod");
    let failed = watch_ages.client(&failing, "Namespace");
    advance(Duration::from_mins(1)).await;
    assert!(watch_ages.ages()["Pod"] >= Duration::from_mins(1));
    for client in [&answered, &failed] {
        let pods: Api<Pod> = Api::all(client.clone());
        let _ = pods.list(&ListParams::default()).await;
    }
    assert!(watch_ages.ages()["Pod"] < Duration::from_secs(1));
    assert!(watch_ages.ages()["Namespace"] >= Duration::from_mins(1));
}

#[tokio::test]
async fn a_watch_that_ended_has_no_age() {
    let (client, _) = client(200, json!({}));
    let watch_ages = WatchAges::default();
    let watch = watch_ages.client(&client, "Pod");
    assert_eq!(watch_ages.ages().len(), 1);
    drop(watch);
    // Its client's worker ends with the last handle.
    tokio::task::yield_now().await;
    assert!(watch_ages.ages().is_empty());
}
