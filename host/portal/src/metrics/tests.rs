use std::sync::Arc;

use podloom_api::{PortalExpose, TunnelClass};
use podloom_engine::cache::Watch;
use podloom_engine::metrics::Objects;
use podloom_engine::outbound::OutboundMetrics;
use podloom_engine::wiring::phases;
use prometheus_client::encoding::text;
use serde_json::{Value, json};

use super::*;

fn registered() -> (Registry, PortalMetrics) {
    let mut registry = Registry::default();
    let objects = Objects::default();
    registry.register_collector(Box::new(objects.clone()));
    let outbound = OutboundMetrics::register(&mut registry);
    let metrics = PortalMetrics::declared(&mut registry, &objects, outbound);
    (registry, metrics)
}

fn encoded(registry: &Registry) -> String {
    let mut encoded = String::new();
    text::encode(&mut encoded, registry).expect("encoded");
    encoded
}

#[track_caller]
fn check_has(encoded: &str, line: &str) {
    assert!(
        encoded.contains(&format!("{line}\n")),
        "{line} in {encoded}"
    );
}

#[test]
fn every_phase_and_state_is_there_before_the_first_tunnel() {
    let (registry, _metrics) = registered();
    let encoded = encoded(&registry);
    for phase in PortalPhase::ALL
        .map(PortalPhase::as_str)
        .into_iter()
        .chain([NONE, UNREADABLE])
    {
        check_has(
            &encoded,
            &format!("objects{{controller=\"portalexpose\",phase=\"{phase}\"}} 0"),
        );
    }
    for state in RelayConnection::ALL.map(RelayConnection::as_str) {
        check_has(
            &encoded,
            &format!("portal_relay_connections{{status=\"{state}\"}} 0"),
        );
    }
}

fn expose(name: &str, class: &str, states: &[&str]) -> Readable<PortalExposeObject> {
    let relays: Vec<Value> = states
        .iter()
        .map(|it| json!({ "name": it, "status": it }))
        .collect();
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "team" },
        "spec": { "app": { "name": "a", "service": { "name": "a", "port": 1 } }, "relay": { "targets": [] } },
        "status": { "tunnelClassName": class, "relay": { "connected": relays } },
    }))
    .unwrap()
}

fn cache(exposes: impl IntoIterator<Item = Readable<PortalExposeObject>>) -> Exposes {
    let resource = Arc::new(PortalExpose::resource());
    Cache::of(Watch::ours("", "", &resource), exposes)
}

#[test]
fn tunnels_are_counted_while_their_controllers_run() {
    let (registry, metrics) = registered();
    let exposes = [
        expose("a", "small", &["Connected", "Disconnected"]),
        expose("b", "small", &["Connected", "Unknown"]),
        expose("c", "gone", &["Connected"]),
    ];
    let classes = ["small", "unused"].map(|class| {
        let class =
            json!({ "metadata": { "name": class }, "spec": { "replicas": 1, "size": "small" } });
        serde_json::from_value(class).unwrap()
    });
    let of_classes = Watch::ours("", "", &Arc::new(TunnelClass::resource()));
    let counted = metrics.count(cache(exposes), Cache::of(of_classes, classes));
    let running = encoded(&registry);
    check_has(&running, "portal_relay_connections{status=\"Connected\"} 3");
    check_has(
        &running,
        "portal_relay_connections{status=\"Disconnected\"} 1",
    );
    check_has(&running, "portal_relay_connections{status=\"Unknown\"} 1");
    check_has(&running, "portal_class_references{class=\"small\"} 2");
    check_has(&running, "portal_class_references{class=\"unused\"} 0");
    assert!(!running.contains("gone"), "{running}");
    drop(counted);
    let stopped = encoded(&registry);
    check_has(&stopped, "portal_relay_connections{status=\"Connected\"} 0");
    assert!(!stopped.contains("small"), "{stopped}");
}

#[test]
fn an_object_that_cannot_be_read_is_counted() {
    let unreadable =
        json!({ "metadata": { "name": "b", "namespace": "team" }, "spec": { "app": 1 } });
    let unreadable = serde_json::from_value(unreadable).unwrap();
    let exposes = cache([expose("a", "small", &[]), unreadable]);
    let mut phases = phases(exposes, UNREADABLE, phase)();
    phases.sort_unstable();
    assert_eq!(phases, [NONE, UNREADABLE]);
}
