//! Observe, plan and act for one Browser, until there is nothing left to do.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, ObjectReference};
use kube::core::{ApiResource, DeserializeGuard, ObjectMeta, PartialObjectMeta};
use kube::runtime::controller;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use podloom_api::{BrowserConfigObject, BrowserObject, BrowserStatus, Kind, SelenosisApi, names};

use super::memory::Memory;
use super::plan::{Plan, Then, plan};
use super::world::{Learned, World};
use crate::act::{Action, Actor, Fact, read_pod};
use crate::drive::{Context, Reconcile, jittered};
use crate::error::ReconcileError;
use crate::events::Notice;
use crate::mutator::PodRequest;
use crate::pod::SeenPod;

/// More steps than any way through the life cycle has.
const STEPS: usize = 8;
/// How long a Browser waits at most for its cache to show our own write; the write's event wakes it earlier.
const CATCH_UP: Duration = Duration::from_secs(1);
/// How often a pod is read that the watch does not show, as one without our label.
const UNWATCHED: Duration = Duration::from_secs(5);

/// What the controller of Browsers needs besides the context of all.
pub(crate) struct BrowserController {
    pub(crate) api: SelenosisApi,
    pub(crate) resource: ApiResource,
    pub(crate) configs: Store<DeserializeGuard<BrowserConfigObject>>,
    pub(crate) pods: Store<SeenPod>,
    /// None where namespaces may not be read.
    pub(crate) namespaces: Option<Store<PartialObjectMeta<Namespace>>>,
    pub(crate) memory: Memory,
}

impl Reconcile for BrowserController {
    type Object = BrowserObject;

    const FINALIZER: &'static str = names::finalizer::BROWSER;
    const FIELD_MANAGER: &'static str = names::field_manager::BROWSER;

    /// Observes, plans and acts until the plan has no more to do.
    async fn reconcile(
        &self,
        ctx: &Context,
        browser: &BrowserObject,
    ) -> Result<controller::Action, ReconcileError> {
        if self.memory.is_ahead_of(&browser.metadata) {
            return Ok(controller::Action::requeue(CATCH_UP));
        }
        let mut world = self.observe(ctx, browser).await?;
        let mut written = None;
        for _ in 0..STEPS {
            let now = Timestamp::now();
            let Plan {
                action,
                notice,
                then,
            } = plan(&world, &ctx.timeouts, now);
            let Some(action) = action else {
                return self.rest(ctx, &world, then, now);
            };
            if written.as_ref() == Some(&action) {
                tracing::warn!(
                    namespace = browser.metadata.namespace,
                    name = browser.metadata.name,
                    "the API server drops fields of the status that was written, install our CRDs"
                );
                return Ok(controller::Action::requeue(jittered(ctx.timeouts.resync)));
            }
            let fact = self.act(ctx, &world, &action).await?;
            let notice = notice.filter(|_| is_done(&fact));
            if is_done(&fact) {
                ctx.metrics
                    .browsers
                    .count(&world, &action, notice.as_ref(), now);
            }
            for notice in notice.into_iter().chain(notes(&fact)) {
                let about = self.reference(&world.browser.metadata);
                ctx.events.tell(about, notice);
            }
            let gone = self.learn(&mut world, fact);
            written = matches!(action, Action::WriteStatus(_)).then_some(action);
            if gone || then != Then::GoOn {
                return Ok(controller::Action::await_change());
            }
        }
        Err(ReconcileError::Endless)
    }
}

impl BrowserController {
    /// Reads caches, and the API server where a cache cannot tell that a pod is gone, or another's is still there.
    async fn observe(
        &self,
        ctx: &Context,
        browser: &BrowserObject,
    ) -> Result<World, ReconcileError> {
        let metadata = &browser.metadata;
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        let configs = self
            .configs
            .state_filter(|config| config.meta().namespace.as_deref() == Some(&namespace));
        let mut world = World {
            api: self.api,
            configs,
            pod: self.memory.created_pod(metadata),
            learned: Learned::default(),
            browser: Arc::new(browser.clone()),
        };
        let cached = self.pods.get(&ObjectRef::new(&name).within(&namespace));
        let is_taken = match cached {
            Some(pod) if world.owns(&pod) => {
                self.memory.pod_is_cached(metadata);
                world.pod = Some(pod);
                return Ok(world);
            }
            // A name that was used before: the other's pod may be gone, and the cache not show it yet.
            other => other.is_some(),
        };
        // Only a living session is lost with its pod; for one that goes, a pod that hides is left to garbage collection.
        if world.pod.is_none() && (is_taken || world.had_pod()) && !world.is_over() {
            world.pod = read_pod(&ctx.client, &namespace, &name)
                .await?
                .map(Arc::new);
        }
        Ok(world)
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action<BrowserStatus>,
    ) -> Result<Fact<BrowserObject>, ReconcileError> {
        let actor = Actor {
            client: &ctx.client,
            mutator: &ctx.mutator,
            resource: &self.resource,
            metadata: &world.browser.metadata,
            field_manager: Self::FIELD_MANAGER,
        };
        match action {
            Action::SetMetadata(patch) => actor.set_metadata(patch).await,
            Action::WriteStatus(status) => actor.write_status(world.status(), &**status).await,
            Action::CreatePod(pod) => actor.create_pod(pod, self.request(world)).await,
            Action::DeletePod { name, uid, how } => actor.delete_pod(name, uid, *how).await,
            Action::Delete => actor.delete().await,
        }
    }

    /// Puts what acting taught into the world, and returns whether nothing is left of it.
    fn learn(&self, world: &mut World, fact: Fact<BrowserObject>) -> bool {
        match fact {
            Fact::Object(browser) => {
                let released = browser.metadata.deletion_timestamp.is_some()
                    && browser.finalizers().is_empty();
                if released {
                    self.memory.forget(&browser.metadata);
                    return true;
                }
                self.memory.wrote(&browser.metadata);
                world.browser = Arc::from(browser);
            }
            Fact::Gone => {
                self.memory.forget(&world.browser.metadata);
                return true;
            }
            Fact::PodCreated(mut pod, _) => {
                pod.prune();
                let pod = Arc::new(*pod);
                self.memory
                    .created(&world.browser.metadata, Arc::clone(&pod));
                world.learned.created.clone_from(&pod.metadata.uid);
                world.pod = Some(pod);
            }
            Fact::PodExists(mut pod) => {
                pod.prune();
                world.pod = Some(Arc::from(pod));
            }
            Fact::PodRefused(refusal) => world.learned.refusal = Some(refusal),
            Fact::PodDeleted => world.learned.pod_deleted = true,
        }
        false
    }

    /// Waits as the plan says.
    fn rest(
        &self,
        ctx: &Context,
        world: &World,
        then: Then,
        now: Timestamp,
    ) -> Result<controller::Action, ReconcileError> {
        let resync = jittered(ctx.timeouts.resync);
        let wait = match then {
            Then::GoOn | Then::Change => resync,
            Then::At(at) => until(now, at).min(resync),
            Then::Retry { reason, until: at } => {
                let refusal = world.learned.refusal.as_ref();
                return Err(ReconcileError::Refused {
                    reason,
                    message: refusal
                        .map(|refusal| refusal.message().to_owned())
                        .unwrap_or_default(),
                    deadline: until(now, at),
                });
            }
        };
        let is_watched = |pod: &SeenPod| self.pods.get(&ObjectRef::from(pod)).is_some();
        let unwatched = world.own_pod().is_some_and(|pod| !is_watched(pod));
        Ok(controller::Action::requeue(if unwatched {
            wait.min(UNWATCHED)
        } else {
            wait
        }))
    }

    /// What plugins may ask.
    fn request(&self, world: &World) -> PodRequest {
        let metadata = &world.browser.metadata;
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let about = self
            .namespaces
            .as_ref()
            .and_then(|namespaces| namespaces.get(&ObjectRef::new(&namespace)));
        let about = about
            .map(|namespace| namespace.metadata.clone())
            .unwrap_or_default();
        PodRequest {
            kind: Kind::Browser.name(),
            name: world.name().to_owned(),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            namespace_labels: about.labels.unwrap_or_default(),
            namespace_annotations: about.annotations.unwrap_or_default(),
            namespace,
        }
    }

    fn reference(&self, metadata: &ObjectMeta) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.resource.api_version.clone()),
            kind: Some(self.resource.kind.clone()),
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            ..ObjectReference::default()
        }
    }
}

/// What plugins said about a pod that was created, in one Event: several of one reason would be counted as repeats of the first.
fn notes(fact: &Fact<BrowserObject>) -> Option<Notice> {
    let Fact::PodCreated(_, notes) = fact else {
        return None;
    };
    let said: Vec<String> = notes
        .iter()
        .map(|note| format!("{}: {}", note.plugin, note.text))
        .collect();
    (!said.is_empty()).then(|| Notice::normal(names::event::PLUGIN_NOTE, said.join("; ")))
}

/// Whether there is something to tell: a pod that is refused, or there already, was not created, and nothing was written to a
/// Browser that is gone.
fn is_done(fact: &Fact<BrowserObject>) -> bool {
    !matches!(fact, Fact::Gone | Fact::PodRefused(_) | Fact::PodExists(_))
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
