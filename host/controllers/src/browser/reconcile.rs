//! Observe, plan and act for one Browser, until there is nothing left to do.

mod confirm;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::{ApiResource, ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use podloom_api::{BrowserConfigObject, BrowserObject, BrowserStatus, Kind, SelenosisApi, names};

use self::confirm::{Look, Looked};
use super::memory::{Cached, Memory, Unseen};
use super::plan::{Plan, Then, plan};
use super::world::{Learned, World};
use crate::act::{Action, Actor, Fact};
use crate::aside::aside;
use crate::drive::{Context, Next, Reconcile};
use crate::error::ReconcileError;
use crate::events::{Notice, appended};
use crate::live::{read_object, read_pod};
use crate::mutator::{PodRequest, Refusal};
use crate::pod::SeenPod;
use crate::readable::{Answered, Readable};
use crate::run::Timeouts;

/// More steps than any way through the life cycle has.
const STEPS: usize = 10;
/// How many versions are looked through at once, in a millisecond or two.
const LIGHT: usize = 4096;
/// How often a pod is read that the watch does not show, as one without our label.
const UNWATCHED: Duration = Duration::from_secs(5);

/// What the controller of Browsers needs besides the context of all.
pub(crate) struct BrowserController {
    pub(crate) api: SelenosisApi,
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) config_resource: Arc<ApiResource>,
    pub(crate) configs: Store<Readable<BrowserConfigObject>>,
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
    ) -> Result<Next, ReconcileError> {
        let (browser, is_live) = match self.memory.compare(&browser.metadata) {
            Cached::Current => (Cow::Borrowed(browser), false),
            Cached::Behind => return Ok(Next::CatchUp),
            Cached::Stale => match self.read(ctx, &browser.metadata).await? {
                Some(live) => (Cow::Owned(live), true),
                None => return Ok(Next::Resync),
            },
        };
        let mut world = self.observe(ctx, &browser).await?;
        let mut looked = Looked {
            at_browser: is_live,
            at_end: false,
        };
        let mut written = None;
        for _ in 0..STEPS {
            let now = ctx.clock.now();
            let Plan {
                action,
                notice,
                then,
            } = decide(&world, &ctx.timeouts, now).await;
            let Some(action) = action else {
                return self.rest(&world, then, now);
            };
            match self.look(ctx, &mut world, &action, &mut looked).await? {
                Look::Enough => {}
                Look::Again => continue,
                Look::Gone => return Ok(Next::Resync),
            }
            if written.as_ref() == Some(&action)
                && let Action::WriteStatus(status) = action
            {
                // It would be written for ever. Deadlines count all the same.
                warn_of_dropped_fields(&browser);
                Arc::make_mut(&mut world.browser).status = Some(*status);
                continue;
            }
            let fact = self.act(ctx, &world, &action).await?;
            if is_done(&fact) {
                let notice = notice.map(|notice| with_notes(notice, &fact));
                let metrics = &ctx.metrics.browsers;
                metrics.count(&world, &action, notice.as_ref(), now);
                self.tell(ctx, &world, notice);
            }
            looked.at_browser |= matches!(fact, Fact::Object(_));
            let left = self.learn(&mut world, fact);
            if let (Left::Browser, Action::SetMetadata(_)) = (&left, &action) {
                self.look_at_metadata(ctx, &mut world);
            }
            written = matches!(action, Action::WriteStatus(_)).then_some(action);
            match left {
                Left::Nothing => return Ok(Next::Change),
                Left::Unknown => return Ok(Next::Resync),
                Left::Browser if then != Then::GoOn => return Ok(Next::Resync),
                Left::Browser => {}
            }
        }
        Err(ReconcileError::Endless)
    }
}

/// What an action taught about a Browser.
type Done = Fact<Answered<BrowserObject>>;

/// What is left of a Browser after an action.
enum Left {
    Browser,
    /// Nothing: our own write let it go.
    Nothing,
    /// Nothing, says the API server, but another that is behind may have said so.
    Unknown,
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
            pod: None,
            first_seen: None,
            learned: Learned::default(),
            browser: Arc::new(browser.clone()),
        };
        if world.has_finalizer() {
            world.learned.metadata_refused = self.memory.labels_were_refused(metadata);
        }
        let cached = self.pods.get(&ObjectRef::new(&name).within(&namespace));
        let is_taken = match cached {
            Some(pod) if world.owns(&pod) => {
                // Until the status has its UID, nothing else would know of it if it went.
                match world.pod_uid() {
                    Some(_) => self.memory.pod_is_cached(metadata, &pod),
                    None => self.memory.created(metadata, Arc::clone(&pod)),
                }
                world.pod = Some(pod);
                return Ok(world);
            }
            // A name that was used before: the other's pod may be gone, and the cache not show it yet.
            other => other.is_some(),
        };
        let mut is_overdue = false;
        match self.memory.created_pod(metadata) {
            Some(Unseen::Fresh(pod)) => world.pod = Some(pod),
            Some(Unseen::Overdue(pod)) => {
                is_overdue = true;
                world.learned.created.clone_from(&pod.metadata.uid);
            }
            None => {}
        }
        let may_hide = if world.is_deleted() {
            // Its pod goes first, one too that no cache ever showed.
            world.has_finalizer() && !self.memory.saw_pod_go(metadata)
        } else {
            // Only a living session is lost with its pod.
            (is_taken || world.had_pod()) && !world.is_over()
        };
        if world.pod.is_none() && (is_overdue || may_hide) {
            world.pod = read_pod(&ctx.client, &namespace, &name)
                .await?
                .map(Arc::new);
        }
        if world.lacks_pod() && !world.is_over() {
            world.first_seen = Some(self.memory.first_seen(metadata, ctx.clock.now()));
        }
        if world.pod.is_none() {
            world.learned.disruption = self.memory.disruption(metadata);
        }
        Ok(world)
    }

    fn tell(&self, ctx: &Context, world: &World, notice: Option<Notice>) {
        if let Some(notice) = notice {
            let about = world.browser.object_ref(&self.resource);
            ctx.events.tell(about, notice);
        }
    }

    /// Reads a Browser from the API server.
    async fn read(
        &self,
        ctx: &Context,
        browser: &ObjectMeta,
    ) -> Result<Option<BrowserObject>, ReconcileError> {
        read_object(&ctx.client, &*self.resource, browser).await
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action<BrowserStatus>,
    ) -> Result<Done, ReconcileError> {
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

    /// Puts what acting taught into the world, and returns what is left of it.
    fn learn(&self, world: &mut World, fact: Done) -> Left {
        match fact {
            Fact::Object(answered) => {
                let Answered(browser) = *answered;
                let released = browser.metadata.deletion_timestamp.is_some()
                    && browser.finalizers().is_empty();
                if released {
                    self.memory.forget(&browser.metadata);
                    return Left::Nothing;
                }
                self.memory.wrote(&browser.metadata);
                world.browser = Arc::new(browser);
            }
            Fact::Gone => {
                self.memory.forget(&world.browser.metadata);
                return Left::Unknown;
            }
            Fact::PodCreated(pod, _) => {
                let pod = Arc::new(*pod);
                self.memory
                    .created(&world.browser.metadata, Arc::clone(&pod));
                world.learned.created.clone_from(&pod.metadata.uid);
                world.pod = Some(pod);
            }
            Fact::PodExists(pod) => {
                let pod = Arc::from(pod);
                if world.owns(&pod) {
                    self.memory
                        .created(&world.browser.metadata, Arc::clone(&pod));
                }
                world.pod = Some(pod);
            }
            Fact::PodRefused(refusal) => world.learned.refusal = Some(refusal),
            Fact::PodDeleted => world.learned.pod_deleted = true,
            Fact::PodGone => world.pod = None,
            Fact::MetadataRefused(sentence) => world.learned.metadata_refused = Some(sentence),
        }
        Left::Browser
    }

    /// Waits as the plan says.
    fn rest(&self, world: &World, then: Then, now: Timestamp) -> Result<Next, ReconcileError> {
        let next = match then {
            Then::GoOn | Then::Change => Next::Resync,
            Then::At(at) => Next::Within(until(now, at)),
            Then::Retry { reason, until: at } => {
                let refusal = world.learned.refusal.as_ref().map(Refusal::message);
                let message = refusal.or(world.learned.metadata_refused.as_deref());
                return Err(ReconcileError::Refused {
                    reason,
                    message: message.unwrap_or_default().to_owned(),
                    deadline: until(now, at),
                });
            }
        };
        let is_watched = |pod: &SeenPod| self.pods.get(&ObjectRef::from(pod)).is_some();
        let unwatched = world.own_pod().is_some_and(|pod| !is_watched(pod));
        Ok(match next {
            Next::Within(wait) if unwatched => Next::Within(wait.min(UNWATCHED)),
            _ if unwatched => Next::Within(UNWATCHED),
            next => next,
        })
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
}

/// Makes the plan, aside if it has to look through many versions.
async fn decide(world: &World, timeouts: &Timeouts, now: Timestamp) -> Plan {
    let versions: usize = world.configs.iter().map(|config| versions(config)).sum();
    if world.pod.is_some() || versions <= LIGHT {
        return plan(world, timeouts, now);
    }
    let (world, timeouts) = (world.clone(), timeouts.clone());
    aside(move || plan(&world, &timeouts, now)).await
}

fn versions(config: &Readable<BrowserConfigObject>) -> usize {
    let browsers = config.0.as_ref().ok().map(|config| &config.spec.browsers);
    browsers.into_iter().flatten().map(|(_, of)| of.len()).sum()
}

/// Appends what plugins said about a pod that was created.
fn with_notes(notice: Notice, fact: &Done) -> Notice {
    let Fact::PodCreated(_, notes) = fact else {
        return notice;
    };
    let said: Vec<String> = notes
        .iter()
        .map(|note| format!("{}: {}", note.plugin, note.text))
        .collect();
    Notice {
        note: appended(notice.note, &said),
        ..notice
    }
}

/// Whether there is something to tell: a pod that is refused, or there already, was not created, and nothing was written to a
/// Browser that is gone.
fn is_done(fact: &Done) -> bool {
    !matches!(
        fact,
        Fact::Gone | Fact::PodRefused(_) | Fact::PodExists(_) | Fact::MetadataRefused(_)
    )
}

fn warn_of_dropped_fields(browser: &BrowserObject) {
    tracing::warn!(
        namespace = browser.metadata.namespace,
        name = browser.metadata.name,
        "the API server drops fields of the status that was written, install our CRDs"
    );
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
