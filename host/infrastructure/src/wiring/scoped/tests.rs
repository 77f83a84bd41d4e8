use std::sync::Arc;

use futures::{StreamExt, stream};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use podloom_api::ClusterObject;
use podloom_engine::readable::Readable;
use serde_json::json;

use super::super::hub::{Hub, Twins};
use super::followed;
use crate::cluster::fixtures::remembering;
use crate::fixtures::{caches, cluster, known, resources};
use crate::im::{ImState, Reading};
use crate::waking::Waking;

fn hub() -> Hub {
    let reading = Reading {
        state: ImState::Configured,
        vms: [].into(),
    };
    Hub {
        known: known(&[], caches(&[], &[])),
        clusters: Waking::of([None]),
        clouds: Twins::of(&[None]),
        providers: Twins::of(&[None]),
        secrets: podloom_control_loop::Hints::default(),
        memory: remembering(&[("uid-of-a", reading)]),
    }
}

#[tokio::test]
async fn a_cluster_that_vanished_while_the_watch_was_broken_is_forgotten() {
    let (hub, resource) = (hub(), resources().clusters);
    let there: Readable<ClusterObject> = serde_json::from_value(cluster(&json!({}))).unwrap();
    let listed = [Event::Init, Event::InitApply(there), Event::InitDone];
    let again = [Event::Init, Event::InitDone];
    let events = stream::iter(listed.into_iter().chain(again).map(Ok));
    let writer = Writer::new(Arc::clone(&resource));
    let followed = followed(events, writer, resource, hub.clone(), Hub::cluster);
    let mut followed = std::pin::pin!(followed);
    for _ in 0..3 {
        assert!(followed.next().await.is_some());
    }
    assert_eq!(hub.memory.len(), 1);
    while followed.next().await.is_some() {}
    assert_eq!(hub.memory.len(), 0);
}
