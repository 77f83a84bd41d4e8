//! What wakes PortalExposes and TunnelClasses: themselves, Deployments, Services, Secrets, classes, others that want the same hostname,
//! relays, and a new plugin chain.

mod chain;
mod exposes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, Stream, StreamExt, future, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service, ServiceSpec};
use kube::core::{ApiResource, ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::runtime::watcher::Event;
use kube::{Api, Resource, ResourceExt};
use podloom_api::names::portal::label;
use podloom_api::{PortalExpose, TunnelClass, TunnelClassObject, asks_to_be_default};
use podloom_engine::kind::Kind;
use podloom_engine::metrics::{Counted, UNREADABLE, phases};
use podloom_engine::namespaces::Namespaces;
use podloom_engine::optional::{Listener, Optional, OptionalCache, WhenRefused, watch_optional};
use podloom_engine::readable::Readable;
use podloom_engine::scope::WatchScope;
use podloom_engine::wakes::Wakes;
use podloom_engine::watch::{watch_config, watch_events};
use podloom_engine::wiring::{Other, Wiring};
use podloom_engine::{namespaces, wiring};
use podloom_mutation::PodMutator;

use self::exposes::{Exposes, Scope, Traces};
use super::class::ClassKind;
use super::deployment::prune;
use super::kind::{Caches, ExposeKind, Resources, SecretMeta, Tunnels};
use super::memory::Memory;
use super::metrics::{CONTROLLER, PortalMetrics, phase};
use super::naming;
use super::relays::{RelaySettings, Relays};
use super::rivals::Rivals;
use super::rolls::{Limits, Rolls};
use super::settings::TunnelSettings;
use super::world::{ChainPolicy, Settings};

/// What the controllers of PortalExposes and TunnelClasses run with.
#[derive(Clone)]
pub struct PortalSetup {
    /// The chain of plugins.
    pub mutator: Arc<dyn PodMutator>,
    /// What all tunnels have in common.
    pub tunnel: TunnelSettings,
    /// What a new plugin chain does to running tunnels.
    pub chain_policy: ChainPolicy,
    /// How many Deployments may roll at once because the plugin chain changed.
    pub max_chain_rolls: u16,
    /// How long the pods of a tunnel may be ready before all relays have to be connected.
    pub relay_grace: Duration,
    /// How relays are observed.
    pub relays: RelaySettings,
}

/// The watches of one scope.
struct Part {
    wiring: Wiring<ExposeKind>,
    filled: Shared<BoxFuture<'static, ()>>,
    services: Store<Service>,
    deployments: Store<Deployment>,
    secrets: OptionalCache<SecretMeta>,
    /// Fills the cache of Secrets.
    watch_secrets: BoxFuture<'static, ()>,
}

/// What the controllers in all scopes share.
struct Duty {
    resource: Arc<ApiResource>,
    classes: Store<Readable<TunnelClassObject>>,
    namespaces: Namespaces,
    tunnels: Tunnels,
    settings: Settings,
}

/// Returns, once the cache of namespaces is filled, the work of both controllers until they are stopped.
///
/// The other caches are awaited from then on, not from the work's first poll.
pub async fn begin(
    scopes: &[WatchScope],
    setup: PortalSetup,
    metrics: &PortalMetrics,
) -> BoxFuture<'static, ()> {
    let changed_namespaces = Wakes::default();
    let seen = wake_of(changed_namespaces.clone());
    let watched = namespaces::watch_for(scopes, seen).await;
    let (Some(first), Some((namespaces, watch_namespaces))) = (scopes.first(), watched) else {
        return future::ready(()).boxed();
    };
    let (mutator, observation) = (Arc::clone(&setup.mutator), setup.relays.observation);
    let (relays, observing) = Relays::start(
        setup.relays,
        first.ctx.clock.clone(),
        metrics.relays.clone(),
        first.stop.clone(),
    );
    let traces = Traces {
        memory: Memory::default(),
        relays: relays.clone(),
        rivals: Rivals::default(),
    };
    let resource = Arc::new(PortalExpose::resource());
    let (exposes, parts) = watch_all(scopes, &resource, &traces);
    let classes = watch(&first.of_cluster(), exposes.clone());
    let counted = metrics.count(exposes.stores(), classes.store.clone());
    let deployments = parts.iter().map(|part| part.deployments.clone());
    let limits = Limits::new(
        setup.max_chain_rolls,
        setup.tunnel.progress_deadline,
        scopes.len() == 1 && first.namespace.is_some(),
    );
    let duty = Duty {
        classes: classes.store.clone(),
        namespaces,
        tunnels: Tunnels {
            mutator: Arc::clone(&mutator),
            rolls: Rolls::new(limits, deployments.collect()),
            relays: relays.clone(),
            memory: traces.memory,
            rivals: traces.rivals,
        },
        settings: Settings {
            tunnel: setup.tunnel,
            chain_policy: setup.chain_policy,
            relay_grace: setup.relay_grace,
            observation,
        },
        resource,
    };
    let controllers = run(scopes, parts, classes, &duty);
    let beside = future::join5(
        watch_namespaces,
        wake_in_namespaces(&changed_namespaces, exposes.clone()),
        observing,
        chain::follow(mutator, exposes.clone()),
        changed_relays(&relays, exposes),
    );
    // They are counted while the controllers run, and no longer. What is beside them has no end.
    let work = future::select(controllers, beside.boxed());
    work.map(move |_| drop(counted)).boxed()
}

/// Wakes what is in a namespace that changed.
fn wake_of(changed: Wakes) -> Listener<PartialObjectMeta<Namespace>> {
    Box::new(move |event| match event {
        Event::Apply(namespace) => changed.wake("", &namespace.name_any()),
        // What changed while the watch was broken shows in no event.
        Event::InitDone => changed.wake_all(),
        Event::Init | Event::InitApply(_) | Event::Delete(_) => {}
    })
}

/// Returns the work of the controllers in all scopes.
fn run(
    scopes: &[WatchScope],
    parts: Vec<Part>,
    classes: Watch,
    duty: &Duty,
) -> BoxFuture<'static, ()> {
    // The hostname of one may be that of another in any scope.
    let filled: Vec<_> = parts.iter().map(|part| part.filled.clone()).collect();
    let mut work: Vec<BoxFuture<'static, ()>> = Vec::new();
    for (scope, part) in scopes.iter().zip(parts) {
        let mut wiring = part.wiring;
        for cache in filled.iter().chain([&classes.filled]) {
            wiring.await_cache(cache.clone().boxed());
        }
        let kind = ExposeKind {
            resources: Resources {
                expose: Arc::clone(&duty.resource),
                deployment: ApiResource::erase::<Deployment>(&()),
                secret: ApiResource::erase::<Secret>(&()),
            },
            caches: Caches {
                exposes: wiring.store(),
                classes: duty.classes.clone(),
                services: part.services,
                deployments: part.deployments,
                secrets: part.secrets,
                namespaces: duty.namespaces.clone(),
            },
            tunnels: duty.tunnels.clone(),
            settings: duty.settings.clone(),
        };
        let counted = count(scope, &wiring);
        let controller = wiring::run(scope, kind, wiring).map(move |()| drop(counted));
        let beside = part.watch_secrets;
        work.push(future::select(controller.boxed(), beside).map(drop).boxed());
    }
    if let Some(first) = scopes.first() {
        let kind = ClassKind {
            resource: classes.resource,
            classes: classes.store,
            settings: duty.settings.tunnel.clone(),
        };
        work.push(wiring::run(&first.of_cluster(), kind, classes.wiring).boxed());
    }
    future::join_all(work).map(drop).boxed()
}

fn count(scope: &WatchScope, wiring: &Wiring<ExposeKind>) -> Counted {
    let objects = &scope.ctx.metrics.objects;
    objects.count(CONTROLLER, phases(wiring.store(), UNREADABLE, phase))
}

/// Watches what PortalExposes depend on, in all scopes.
fn watch_all(
    scopes: &[WatchScope],
    resource: &Arc<ApiResource>,
    traces: &Traces,
) -> (Exposes, Vec<Part>) {
    let writers: Vec<_> = scopes
        .iter()
        .map(|_| Writer::new(resource.clone()))
        .collect();
    let own = scopes.iter().zip(&writers).map(|(scope, writer)| Scope {
        namespace: scope.namespace.clone(),
        resource: Arc::clone(resource),
        store: writer.as_reader(),
        wakes: Wakes::default(),
    });
    let exposes = Exposes(own.collect());
    let parts = scopes.iter().zip(writers).zip(&*exposes.0);
    let parts = parts.map(|((scope, writer), own)| {
        let events = watch_events(
            scope.api_of_kind::<ExposeKind>(resource),
            watch_config(),
            |_| {},
            scope.on_watch_error(ExposeKind::TRAITS.kind),
        );
        let traces = traces.clone();
        let events = exposes::cached(events, writer, exposes.clone(), traces);
        let filled = scope.cache_filled(&own.store, "PortalExposes").shared();
        let mut wiring = Wiring::cached(
            resource.clone(),
            own.store.clone(),
            events.boxed(),
            filled.clone().boxed(),
        );
        wiring.wake(own.woken());
        watch_around(scope, wiring, filled, own)
    });
    let parts = parts.collect();
    (exposes, parts)
}

/// Watches Deployments, Services and Secrets of a scope.
fn watch_around(
    scope: &WatchScope,
    mut wiring: Wiring<ExposeKind>,
    filled: Shared<BoxFuture<'static, ()>>,
    own: &Scope,
) -> Part {
    let deployments = Other {
        api: scope.api::<Deployment>("Deployment"),
        kind: "Deployment",
        cache: "Deployments",
        label: label::EXPOSE,
        prune,
    };
    let users = own.clone();
    let deployments = wiring.depend_on(scope, deployments, move |deployment: &Deployment| {
        users.having(&deployment.metadata, naming::DEPLOYMENT)
    });
    let services = Other {
        api: scope.api::<Service>("Service"),
        kind: "Service",
        cache: "Services",
        label: "",
        prune: prune_service,
    };
    let users = own.clone();
    let services = wiring.depend_on(scope, services, move |service: &Service| {
        users.referring(&service.metadata, |expose, name| {
            expose.spec.app.service.name == name
        })
    });
    let (secrets, watch_secrets) = watch_secrets(scope, own.clone());
    Part {
        wiring,
        filled,
        services,
        deployments,
        secrets,
        watch_secrets,
    }
}

/// Watches the Secrets with identities, without their values. Without the right to do so, each look reads the Secret.
fn watch_secrets(
    scope: &WatchScope,
    own: Scope,
) -> (OptionalCache<SecretMeta>, BoxFuture<'static, ()>) {
    let secrets = Optional {
        kind: "Secret",
        dyntype: (),
        label: label::EXPOSE,
        prune: |secret: &mut SecretMeta| naming::prune(&mut secret.metadata),
        refused: WhenRefused::Forgotten,
        seen: Box::new(move |event| match event {
            Event::Apply(secret) | Event::Delete(secret) => own.wake_owner(secret.meta()),
            Event::InitDone => own.wakes.wake_all(),
            Event::Init | Event::InitApply(_) => {}
        }),
    };
    let namespace = scope.namespace.clone();
    let api = move |client| match &namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    watch_optional(&scope.ctx.client, api, secrets, &scope.ctx.metrics)
}

/// Keeps the ports and the type of a Service.
fn prune_service(service: &mut Service) {
    service.status = None;
    service.metadata = ObjectMeta {
        name: service.metadata.name.take(),
        namespace: service.metadata.namespace.take(),
        resource_version: service.metadata.resource_version.take(),
        ..ObjectMeta::default()
    };
    let spec = service.spec.take();
    service.spec = spec.map(|spec| ServiceSpec {
        ports: spec.ports,
        type_: spec.type_,
        ..ServiceSpec::default()
    });
}

/// Wakes those in namespaces that changed: plugins may decide by the labels of a namespace. It has no end.
fn wake_in_namespaces(
    changed: &Wakes,
    exposes: Exposes,
) -> impl Future<Output = ()> + Send + use<> {
    changed.taken().for_each(move |noted| {
        let names: BTreeSet<String> = noted.some.into_iter().map(|(_, name)| name).collect();
        exposes.wake_if(|expose| {
            let namespace = expose.metadata.namespace.as_ref();
            noted.all || namespace.is_some_and(|namespace| names.contains(namespace))
        });
        future::ready(())
    })
}

/// Wakes those for which a relay's answer changed. It has no end.
fn changed_relays(relays: &Relays, exposes: Exposes) -> impl Future<Output = ()> + Send + use<> {
    relays.changes().for_each(move |user| {
        exposes.wake(&user.namespace, &user.name);
        future::ready(())
    })
}

// TunnelClasses, watched once for their own controller and for the PortalExposes of all scopes.

type Class = Readable<TunnelClassObject>;

/// What comes of watching the TunnelClasses.
struct Watch {
    resource: Arc<ApiResource>,
    store: Store<Class>,
    /// Resolves when the store is filled.
    filled: Shared<BoxFuture<'static, ()>>,
    /// What their own controller stands on. Running it fills the store.
    wiring: Wiring<ClassKind>,
}

/// Watches the TunnelClasses of the cluster.
fn watch(scope: &WatchScope, exposes: Exposes) -> Watch {
    let resource = Arc::new(TunnelClass::resource());
    let events = watch_events(
        scope.api_of_kind::<ClassKind>(&resource),
        watch_config(),
        |_| {},
        scope.on_watch_error("TunnelClass"),
    );
    let writer = Writer::new(Arc::clone(&resource));
    let store = writer.as_reader();
    let filled = scope.cache_filled(&store, "TunnelClasses").shared();
    let others = Wakes::default();
    let events = cached(
        events,
        writer,
        Arc::clone(&resource),
        exposes,
        others.clone(),
    );
    let mut wiring = Wiring::cached(
        Arc::clone(&resource),
        store.clone(),
        events.boxed(),
        filled.clone().boxed(),
    );
    let (beside, of_kind) = (store.clone(), Arc::clone(&resource));
    wiring.wake(others.taken().flat_map(move |_| {
        let all = beside.state();
        let all = all.iter();
        let all = all.map(|class| ObjectRef::from_obj_with(&**class, Arc::clone(&of_kind)));
        stream::iter(all.collect::<Vec<_>>())
    }));
    Watch {
        resource,
        store,
        filled,
        wiring,
    }
}

/// Puts events into the cache, then wakes whom they matter to.
fn cached(
    events: impl Stream<Item = Result<Event<Class>, watcher::Error>> + Send + 'static,
    mut writer: Writer<Class>,
    resource: Arc<ApiResource>,
    exposes: Exposes,
    classes: Wakes,
) -> impl Stream<Item = Result<Event<Class>, watcher::Error>> + Send + 'static {
    let known = writer.as_reader();
    events.inspect(move |event| {
        let Ok(event) = event else { return };
        let before = match event {
            Event::Apply(class) | Event::Delete(class) => {
                known.get(&ObjectRef::from_obj_with(class, Arc::clone(&resource)))
            }
            _ => None,
        };
        writer.apply_watcher_event(event);
        let (class, is_there) = match event {
            Event::Apply(class) => (class, true),
            Event::Delete(class) => (class, false),
            // What went while the watch was broken shows in no event.
            Event::InitDone => {
                exposes.wake_all();
                return classes.wake_all();
            }
            Event::Init | Event::InitApply(_) => return,
        };
        let before = before.as_ref().map(|before| edition(before.meta()));
        let now = edition(class.meta());
        if is_there && before == Some(now) {
            return;
        }
        let is_default = |edition: Option<Edition<'_>>| edition.is_some_and(|(.., it)| it);
        let matters_to_all = is_default(before) || is_default(Some(now));
        if matters_to_all {
            classes.wake_all();
        }
        let name = class.name_any();
        exposes.wake_if(|expose| match expose.spec.class_name() {
            Some(wanted) => wanted == name,
            None => matters_to_all,
        });
    })
}

/// What changes when anything changes that others depend on. A status changes nothing of it.
type Edition<'a> = (Option<&'a str>, Option<i64>, bool);

fn edition(class: &ObjectMeta) -> Edition<'_> {
    let is_default = asks_to_be_default(class);
    (class.uid.as_deref(), class.generation, is_default)
}

#[cfg(test)]
mod tests;
