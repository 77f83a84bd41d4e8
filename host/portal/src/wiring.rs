//! What wakes PortalExposes and TunnelClasses: themselves, Deployments, Services, Secrets, classes, others that want the same hostname,
//! relays, and a new plugin chain.

mod chain;
mod exposes;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, future};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service, ServiceSpec};
use kube::core::{ApiResource, ObjectMeta, PartialObjectMeta};
use kube::{Resource, ResourceExt};
use podloom_api::names::portal::label;
use podloom_api::{PortalExpose, TunnelClass, TunnelClassObject, asks_to_be_default};
use podloom_engine::cache::{Cache, Change, Seen, Watch, WhenRefused};
use podloom_engine::metrics::UNREADABLE;
use podloom_engine::namespaces::{self, Namespaces};
use podloom_engine::readable::Readable;
use podloom_engine::scope::WatchScope;
use podloom_engine::wakes::Wakes;
use podloom_engine::wiring::Wiring;
use podloom_mutation::PodMutator;

pub(crate) use self::exposes::listen;
use self::exposes::{Exposes, wake_having, wake_referring};
use super::class::ClassKind;
use super::deployment::prune;
use super::kind::{Caches, ExposeKind, Resources, SecretMeta, Tunnels};
use super::memory::Memory;
use super::metrics::{PortalMetrics, phase};
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

/// Returns, once the cache of namespaces is filled, the work of both controllers until they are stopped.
///
/// The other caches are awaited from then on, not from the work's first poll.
pub async fn begin(
    scopes: &[WatchScope],
    setup: PortalSetup,
    metrics: &PortalMetrics,
) -> BoxFuture<'static, ()> {
    let changed_namespaces = Wakes::default();
    let watched = namespaces::watch_for(scopes, noting(changed_namespaces.clone())).await;
    let (Some(first), Some((namespaces, fill_namespaces))) = (scopes.first(), watched) else {
        return future::ready(()).boxed();
    };
    let (relays, observing) = Relays::start(
        setup.relays.clone(),
        first.ctx.clock.clone(),
        metrics.relays.clone(),
        first.stop.clone(),
    );
    let caches = caches(scopes, namespaces);
    let limits = Limits::new(
        setup.max_chain_rolls,
        setup.tunnel.progress_deadline,
        scopes.len() == 1 && first.namespace.is_some(),
    );
    let tunnels = Tunnels {
        mutator: Arc::clone(&setup.mutator),
        rolls: Rolls::new(limits, caches.deployments.clone()),
        relays: relays.clone(),
        memory: Memory::default(),
        rivals: Rivals::default(),
    };
    let exposes = caches.exposes.clone();
    listen(&exposes, tunnels.clone());
    wake_classes(&caches.classes);
    let counted = metrics.count(exposes.clone(), caches.classes.clone());
    let controllers = run(scopes, &setup, caches, tunnels);
    let beside = future::join5(
        fill_namespaces,
        wake_in_namespaces(&changed_namespaces, exposes.clone()),
        observing,
        chain::follow(setup.mutator, exposes.clone()),
        changed_relays(&relays, exposes),
    );
    // They are counted while the controllers run, and no longer. What is beside them has no end.
    let work = future::select(controllers, beside.boxed());
    work.map(move |_| drop(counted)).boxed()
}

/// Returns the work of both controllers, and fills their caches meanwhile.
///
/// The hostname of one PortalExpose may be that of another in any scope, so passes wait for all of them.
fn run(
    scopes: &[WatchScope],
    setup: &PortalSetup,
    caches: Caches,
    tunnels: Tunnels,
) -> BoxFuture<'static, ()> {
    let of_classes = Wiring::<ClassKind>::new(&caches.classes);
    let of_exposes = wired(Wiring::new(&caches.exposes), &caches)
        .awaits(caches.exposes.filled(None))
        .counts(UNREADABLE, phase);
    let filling = future::join5(
        caches.exposes.fill(),
        caches.classes.fill(),
        caches.services.fill(),
        caches.deployments.fill(),
        caches.secrets.fill(),
    );
    let classes = ClassKind {
        resource: Arc::clone(caches.classes.resource()),
        classes: caches.classes.clone(),
        settings: setup.tunnel.clone(),
    };
    let exposes = ExposeKind {
        resources: Resources {
            expose: Arc::clone(caches.exposes.resource()),
            deployment: ApiResource::erase::<Deployment>(&()),
            secret: ApiResource::erase::<Secret>(&()),
        },
        caches,
        tunnels,
        settings: Settings {
            tunnel: setup.tunnel.clone(),
            chain_policy: setup.chain_policy,
            relay_grace: setup.relay_grace,
            observation: setup.relays.observation,
        },
    };
    let controllers = future::join(
        of_exposes.run(scopes, exposes),
        of_classes.run(scopes, classes),
    );
    future::select(controllers.boxed(), filling.boxed())
        .map(drop)
        .boxed()
}

/// Says what wakes PortalExposes besides themselves.
pub(crate) fn wired(exposes: Wiring<ExposeKind>, caches: &Caches) -> Wiring<ExposeKind> {
    exposes
        .watches(&caches.deployments, |exposes, change| {
            if let Some(deployment) = change.latest() {
                wake_having(exposes, &deployment.metadata, naming::DEPLOYMENT);
            }
        })
        .watches(&caches.services, |exposes, change| {
            if let Some(service) = change.latest() {
                wake_referring(exposes, &service.metadata, |expose, name| {
                    expose.spec.app.service.name == name
                });
            }
        })
        .hears(&caches.secrets, |exposes, change| {
            if let Some(secret) = change.latest() {
                wake_having(exposes, &secret.metadata, naming::SECRET);
            }
        })
        .watches(&caches.classes, wake_users)
}

/// What is watched.
fn caches(scopes: &[WatchScope], namespaces: Namespaces) -> Caches {
    let of_exposes = Arc::new(PortalExpose::resource());
    let of_classes = Arc::new(TunnelClass::resource());
    let exposes = Watch::of_kind::<ExposeKind>("PortalExposes", &of_exposes);
    let classes = Watch::of_kind::<ClassKind>("TunnelClasses", &of_classes);
    Caches {
        exposes: Cache::new(scopes, exposes),
        classes: Cache::new(scopes, classes),
        services: Cache::new(scopes, services()),
        deployments: Cache::new(scopes, deployments()),
        secrets: Cache::new(scopes, secrets()),
        namespaces,
    }
}

pub(crate) fn deployments() -> Watch<Deployment> {
    Watch {
        label: label::EXPOSE,
        prune,
        ..Watch::of("Deployment", "Deployments")
    }
}

pub(crate) fn services() -> Watch<Service> {
    Watch {
        prune: prune_service,
        ..Watch::of("Service", "Services")
    }
}

/// Only without their values. Without the right to watch them, each look reads the Secret.
pub(crate) fn secrets() -> Watch<SecretMeta> {
    Watch {
        label: label::EXPOSE,
        prune: |secret| naming::prune(&mut secret.metadata),
        refused: WhenRefused::Forgotten,
        ..Watch::of("Secret", "")
    }
}

/// Notes the namespaces that change.
fn noting(changed: Wakes) -> impl Fn(&Seen<'_, PartialObjectMeta<Namespace>>) + Send + Sync {
    move |seen| match seen {
        Seen::Changed(Change {
            after: Some(namespace),
            ..
        }) => changed.wake_in(Some(&namespace.name_any())),
        // What changed while the watch was broken shows in no event.
        Seen::Listed(_) => changed.wake_in(None),
        Seen::Coming(_) | Seen::Changed(_) => {}
    }
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
        if noted.all {
            exposes.wake_in(None);
        }
        for namespace in &noted.namespaces {
            exposes.wake_in(Some(namespace));
        }
        future::ready(())
    })
}

/// Wakes those for which a relay's answer changed. It has no end.
fn changed_relays(relays: &Relays, exposes: Exposes) -> impl Future<Output = ()> + Send + use<> {
    relays.changes().for_each(move |noted| {
        for (namespace, name) in &noted.some {
            exposes.wake(Some(namespace), name);
        }
        future::ready(())
    })
}

type Class = Readable<TunnelClassObject>;

/// A class wakes the others if it is, was or becomes the default.
fn wake_classes(classes: &Cache<Class>) {
    let others = classes.clone();
    classes.listen(move |seen| match seen {
        Seen::Changed(change) if matters(change) && is_default(change) => others.wake_in(None),
        _ => {}
    });
}

/// A class wakes the PortalExposes that name it, and as the default those that name none.
fn wake_users(exposes: &Exposes, change: &Change<'_, Class>) {
    let Some(class) = change.latest().filter(|_| matters(change)) else {
        return;
    };
    let (name, is_default) = (class.name_any(), is_default(change));
    exposes.wake_if(|expose| {
        let class = expose.0.as_ref().map(|expose| expose.spec.class_name());
        class.is_ok_and(|wanted| wanted.map_or(is_default, |wanted| wanted == name))
    });
}

/// Whether anything changed that others depend on. A status changes nothing of it.
fn matters(change: &Change<'_, Class>) -> bool {
    change.differs(|class| {
        let metadata = class.meta();
        let is_default = asks_to_be_default(metadata);
        (metadata.uid.as_deref(), metadata.generation, is_default)
    })
}

/// Whether a class asks to be the default, or did.
fn is_default(change: &Change<'_, Class>) -> bool {
    change.both().any(|class| asks_to_be_default(class.meta()))
}

#[cfg(test)]
mod tests;
