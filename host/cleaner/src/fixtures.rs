//! Targets for tests.

use std::sync::Arc;

use kube::Client;
use kube::core::ApiResource;
use podloom_api::Cleaner;
use podloom_cel::Evaluator;
use podloom_engine::clock::Clock;
use podloom_engine::kind::ResourceScope;
use podloom_engine::outbound::{OutboundMetrics, Resolve, SystemResolver};
use podloom_engine::wakes::Wakes;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::delivery::{Delivery, SinkClient};
use crate::discovery::{Discovery, ServedKind};
use crate::helm::CHARTS;
use crate::kind::CleanerKind;
use crate::memory::{Alarms, Memory};
use crate::metrics::CleanerMetrics;
use crate::objects::Objects;
use crate::read::{Found, Reader, SeenTarget};
use crate::settings::CleanerSettings;
use crate::watches::Watches;

/// A kind of the core in namespaces.
pub(super) fn kind(kind: &str, plural: &str) -> Arc<ServedKind> {
    Arc::new(ServedKind {
        resource: ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        },
        scope: ResourceScope::Namespaced,
    })
}

/// A pod.
pub(super) fn pod(name: &str, uid: &str) -> Value {
    object("Pod", name, uid)
}

/// A Secret.
pub(super) fn secret(name: &str, uid: &str) -> Value {
    object("Secret", name, uid)
}

fn object(kind: &str, name: &str, uid: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name, "namespace": "demo", "uid": uid } })
}

/// A target that is one object.
pub(super) fn one(name: &str, object: Value, is_deleted: bool) -> SeenTarget {
    target(name, Found::One(object), is_deleted)
}

/// A target that is a list.
pub(super) fn list(name: &str, objects: &[Value], is_deleted: bool) -> SeenTarget {
    let list = kind("Pod", "pods").list(json!({}), objects.to_vec());
    target(name, Found::List(list), is_deleted)
}

/// A target that does not exist.
pub(super) fn missing(name: &str, object: &str) -> SeenTarget {
    target(name, Found::Missing(object.to_owned()), true)
}

/// A target that was not read.
pub(super) fn named(name: &str, object: &str) -> SeenTarget {
    target(name, Found::Named(object.to_owned()), false)
}

fn target(name: &str, found: Found, is_deleted: bool) -> SeenTarget {
    SeenTarget {
        name: name.to_owned(),
        is_evaluated: true,
        is_deleted,
        kind: kind("Pod", "pods"),
        found,
        share: None,
    }
}

/// A controller whose client gets no answer.
pub(super) fn cleaner_kind() -> CleanerKind {
    let (client, _) = podloom_scripted::client(503, Value::Null);
    kind_with(client, CleanerSettings::default())
}

/// Sinks may be anywhere if loopback is allowed.
pub(super) fn sinks(allow_loopback_sinks: bool, resolver: impl Resolve + 'static) -> SinkClient {
    let settings = CleanerSettings {
        allow_loopback_sinks,
        ..CleanerSettings::default()
    };
    let outbound = OutboundMetrics::register(&mut Registry::default());
    SinkClient::new(&settings, Arc::new(resolver), outbound)
}

/// The metrics of a process.
pub(super) fn metrics(registry: &mut Registry) -> CleanerMetrics {
    let objects = podloom_engine::metrics::Objects::default();
    let outbound = OutboundMetrics::register(&mut Registry::default());
    CleanerMetrics::declared(registry, &objects, outbound)
}

/// Where Cleaners are woken, and what is noted of it.
pub(super) fn alarms(memory: &Memory) -> (Alarms, Wakes) {
    let wakes = Wakes::default();
    let noted = wakes.clone();
    let alarms = Alarms {
        memory: memory.clone(),
        wake: Arc::new(move |id| noted.wake(&id.namespace, &id.name)),
    };
    (alarms, wakes)
}

/// A controller with this client.
pub(super) fn kind_with(client: Client, settings: CleanerSettings) -> CleanerKind {
    let metrics = metrics(&mut Registry::default());
    let memory = Memory::default();
    let (alarms, _) = alarms(&memory);
    let sinks = sinks(true, SystemResolver::default());
    // Nothing is sent without its work.
    let (delivery, _) = Delivery::start(sinks, alarms.clone(), Clock::new(), metrics.clone());
    CleanerKind {
        resource: Arc::new(Cleaner::resource()),
        reader: Reader {
            discovery: Discovery::new(client.clone()),
            objects: Objects::new(client.clone()),
            settings: Arc::new(settings),
        },
        watches: Watches::new(client, true, alarms, metrics.clone()),
        memory,
        evaluator: Evaluator::new(2),
        delivery,
        charts: Arc::new(Semaphore::new(CHARTS.into())),
        metrics,
    }
}
