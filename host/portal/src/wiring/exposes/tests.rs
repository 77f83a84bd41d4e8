use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream};
use kube::core::ObjectMeta;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use podloom_api::PortalExpose;
use serde_json::json;

use super::{Expose, Exposes, Scope, Traces, Wakes, cached};
use crate::kind::tests::cluster::relays;
use crate::memory::Memory;
use crate::naming;
use crate::rivals::Rivals;
use crate::world::Try;

/// A PortalExpose of a namespace, with this generation and phase.
fn expose(namespace: &str, name: &str, generation: i64, app: &str) -> Expose {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": namespace, "uid": format!("{namespace}/{name}"), "generation": generation,
            "finalizers": ["portal.gosuda.org/cleanup-tunnel-deployment"],
        },
        "spec": {
            "app": { "name": app, "service": { "name": "web", "port": 80 } },
            "relay": { "targets": [{ "name": "one", "url": "wss://relay.example.com" }] },
        },
    }))
    .unwrap()
}

/// Two watch scopes; the second has a PortalExpose `rival` with the application `shop`.
struct Scopes {
    exposes: Exposes,
    traces: Traces,
    first: Writer<Expose>,
}

fn scopes() -> Scopes {
    let resource = Arc::new(PortalExpose::resource());
    let first = Writer::new(Arc::clone(&resource));
    let mut second = Writer::new(Arc::clone(&resource));
    second.apply_watcher_event(&Event::Apply(expose("b", "rival", 1, "shop")));
    let scope = |namespace: &str, writer: &Writer<Expose>| Scope {
        namespace: Some(namespace.to_owned()),
        store: writer.as_reader(),
        resource: Arc::clone(&resource),
        wakes: Wakes::default(),
    };
    let exposes = Exposes([scope("a", &first), scope("b", &second)].into());
    let traces = Traces {
        memory: Memory::default(),
        relays: relays(),
        rivals: Rivals::default(),
    };
    traces.note(&expose("b", "rival", 1, "shop"));
    Scopes {
        exposes,
        traces,
        first,
    }
}

/// What the second scope is asked to look at by the last of these events in the first.
async fn woken(events: Vec<Event<Expose>>) -> Vec<String> {
    let Scopes {
        exposes,
        traces,
        first,
    } = scopes();
    let count = events.len();
    let events = stream::iter(events).map(Ok);
    let mut events = std::pin::pin!(cached(events, first, exposes.clone(), traces));
    let taken = || {
        let taken = std::pin::pin!(exposes.0[1].woken()).next().now_or_never();
        taken.flatten().map(|object| object.name)
    };
    for _ in 1..count {
        events.next().await;
        while taken().is_some() {}
    }
    events.next().await;
    std::iter::from_fn(taken).collect()
}

fn applied(generation: i64, app: &str) -> Event<Expose> {
    Event::Apply(expose("a", "shop", generation, app))
}

#[tokio::test]
async fn one_with_the_same_hostname_is_woken_in_another_scope() {
    assert_eq!(woken(vec![applied(1, "shop")]).await, ["rival"]);
    assert_eq!(woken(vec![applied(1, "blog")]).await, [""; 0]);
}

/// It came later, so it takes the hostname from nobody.
#[tokio::test]
async fn one_that_loses_wakes_nobody() {
    let late = Event::Apply(expose("c", "shop", 1, "shop"));
    assert_eq!(woken(vec![late]).await, [""; 0]);
}

/// Else the first pass would believe that a hostname is free.
#[tokio::test]
async fn hostnames_are_known_before_the_cache_is_filled() {
    let Scopes {
        exposes,
        traces,
        first,
    } = scopes();
    let (rivals, store) = (traces.rivals.clone(), first.as_reader());
    let events = [
        Event::Init,
        Event::InitApply(expose("a", "shop", 1, "shop")),
    ];
    let events = cached(stream::iter(events).map(Ok), first, exposes, traces);
    events.for_each(|_| std::future::ready(())).await;
    assert!(store.state().is_empty());
    let late = expose("b", "rival", 1, "shop").0.unwrap();
    assert!(rivals.conflict(&late).is_some());
}

#[tokio::test]
async fn a_hostname_that_becomes_free_wakes_those_that_want_it() {
    assert_eq!(
        woken(vec![applied(1, "shop"), applied(2, "blog")]).await,
        ["rival"]
    );
    let gone = Event::Delete(expose("a", "shop", 1, "shop"));
    assert_eq!(woken(vec![applied(1, "shop"), gone]).await, ["rival"]);
}

#[tokio::test]
async fn a_status_wakes_no_neighbour() {
    assert_eq!(
        woken(vec![applied(1, "shop"), applied(1, "shop")]).await,
        [""; 0]
    );
}

#[tokio::test]
async fn all_look_after_a_list() {
    assert_eq!(woken(vec![Event::Init, Event::InitDone]).await, ["rival"]);
}

/// It went while the watch was broken.
#[tokio::test]
async fn what_is_gone_after_a_list_is_forgotten() {
    let Scopes {
        exposes,
        traces,
        first,
    } = scopes();
    let memory = traces.memory.clone();
    memory.queued("a/shop", Try::Identity { generation: None });
    memory.queued("b/rival", Try::Identity { generation: None });
    let rivals = traces.rivals.clone();
    let events = [applied(1, "blog"), Event::Init, Event::InitDone];
    let events = cached(stream::iter(events).map(Ok), first, exposes, traces);
    events.for_each(|_| std::future::ready(())).await;
    // The hostname of the other scope is still wanted.
    assert_eq!(rivals.len(), 1);
    assert_eq!(memory.waits("a/shop"), None);
    assert!(memory.waits("b/rival").is_some());
}

#[tokio::test]
async fn those_that_refer_to_an_object_are_of_its_namespace() {
    let Scopes { exposes, .. } = scopes();
    let service = |namespace: &str| kube::core::ObjectMeta {
        name: Some("web".to_owned()),
        namespace: Some(namespace.to_owned()),
        ..kube::core::ObjectMeta::default()
    };
    let scope = &exposes.0[1];
    let refers =
        |expose: &podloom_api::PortalExposeObject, name: &str| expose.spec.app.service.name == name;
    assert_eq!(scope.referring(&service("b"), refers).len(), 1);
    assert_eq!(scope.referring(&service("c"), refers).len(), 0);
}

#[tokio::test]
async fn a_secret_wakes_the_one_whose_identity_it_has() {
    let Scopes { exposes, .. } = scopes();
    let scope = &exposes.0[1];
    let secret = |name: &str| kube::core::ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("b".to_owned()),
        ..kube::core::ObjectMeta::default()
    };
    let woken = || {
        std::pin::pin!(scope.woken())
            .next()
            .now_or_never()
            .flatten()
    };
    scope.wake_owner(&secret("other-tunnel-identity"));
    assert!(woken().is_none());
    scope.wake_owner(&secret("rival-tunnel-identity"));
    assert_eq!(woken().unwrap().name, "rival");
}

/// Returns which of these are woken by a Deployment of this name, in namespace `a` and without any label or owner.
fn having(exposes: &[&str], deployment: &str) -> Vec<String> {
    let Scopes {
        exposes: scopes,
        mut first,
        ..
    } = scopes();
    for name in exposes {
        first.apply_watcher_event(&Event::Apply(expose("a", name, 1, "app")));
    }
    let child = ObjectMeta {
        name: Some(deployment.to_owned()),
        namespace: Some("a".to_owned()),
        ..ObjectMeta::default()
    };
    let woken = scopes.0[0].having(&child, naming::DEPLOYMENT);
    woken.into_iter().map(|expose| expose.name).collect()
}

#[test]
fn a_deployment_without_labels_and_owners_wakes_the_one_of_its_name() {
    let long = "a".repeat(70);
    let all = ["shop", "shop-tunnel", long.as_str(), "web-0123abcd"];
    assert_eq!(having(&all, "shop-tunnel"), ["shop"]);
    assert_eq!(having(&all, "shop-tunnel-tunnel"), ["shop-tunnel"]);
    assert_eq!(
        having(&all, &naming::deployment_name(&long)),
        [long.as_str()]
    );
    assert_eq!(having(&all, "web-0123abcd-tunnel"), ["web-0123abcd"]);
    assert_eq!(having(&all, "blog-tunnel"), [""; 0]);
    assert_eq!(having(&all, "shop"), [""; 0]);
    // It is in the other scope's namespace.
    assert_eq!(having(&all, "rival-tunnel"), [""; 0]);
}

#[tokio::test]
async fn a_namespace_that_changes_wakes_those_in_it() {
    let Scopes {
        exposes, mut first, ..
    } = scopes();
    first.apply_watcher_event(&Event::Apply(expose("a", "shop", 1, "app")));
    let changed = Wakes::default();
    let following = super::super::wake_in_namespaces(&changed, exposes.clone());
    let following = tokio::spawn(following);
    changed.wake("", "a");
    let woken = std::pin::pin!(exposes.0[0].woken()).next().await;
    assert_eq!(woken.unwrap().name, "shop");
    assert!(
        std::pin::pin!(exposes.0[1].woken())
            .next()
            .now_or_never()
            .is_none()
    );
    following.abort();
}
