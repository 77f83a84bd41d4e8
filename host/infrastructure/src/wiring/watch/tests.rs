use std::sync::{Arc, OnceLock};

use futures::{StreamExt, stream};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use podloom_api::ClusterObject;
use podloom_engine::readable::Readable;
use serde_json::json;

use super::followed;
use crate::cluster::fixtures::remembering;
use crate::fixtures::{caches, cluster, known, resources, waking};
use crate::im::{ImState, Reading};
use crate::wiring::hub::{Hub, Twins};

fn hub() -> Hub {
    let reading = Reading {
        state: ImState::Configured,
        vms: [].into(),
    };
    Hub {
        known: known(&[], caches(&[], &[])),
        clusters: waking(),
        clouds: Twins {
            namespaced: waking(),
            global: waking(),
        },
        providers: Twins {
            namespaced: waking(),
            global: waking(),
        },
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
    let knot = Arc::new(OnceLock::from(hub.clone()));
    let followed = followed(events, writer, resource, knot, Hub::cluster);
    let mut followed = std::pin::pin!(followed);
    for _ in 0..3 {
        assert!(followed.next().await.is_some());
    }
    assert_eq!(hub.memory.len(), 1);
    while followed.next().await.is_some() {}
    assert_eq!(hub.memory.len(), 0);
}
