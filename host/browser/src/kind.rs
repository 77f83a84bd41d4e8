//! The kind Browser: what the engine needs to run its controller.

#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::{ApiResource, ObjectMeta};
use podloom_api::{BrowserConfigObject, BrowserObject, SelenosisApi, names};
use podloom_engine::TRACES;
use podloom_engine::cache::Cache;
use podloom_engine::error::{Attempt, Error};
use podloom_engine::events::{Notice, appended};
use podloom_engine::kind::{Context, Done, Kind, Remains, Source, Traits};
use podloom_engine::namespaces::Namespaces;
use podloom_engine::plan::Plan;
use podloom_engine::readable::Readable;
use podloom_engine::write::Target;
use podloom_mutation::PodMutator;
use tracing::Instrument;

use super::memory::Memory;
use super::metrics::{BrowserMetrics, CONTROLLER, Milestone};
use super::plan::plan;
use super::pod::SeenPod;
use super::warm::WarmMemory;
use super::world::{Action, ActionOutcome, Learned, Timeouts, World};
use super::{cause, metrics};

/// How many versions a plan may search without a thread of its own: it takes a millisecond or two.
const LIGHT: usize = 4096;

/// What the controller of Browsers needs besides the [`Context`].
pub(super) struct BrowserKind {
    pub(super) api: SelenosisApi,
    pub(super) resources: Resources,
    pub(super) caches: Caches,
    pub(super) mutator: Arc<dyn PodMutator>,
    pub(super) timeouts: Timeouts,
    pub(super) memory: Memory,
    pub(super) metrics: BrowserMetrics,
}

/// What is read and written.
#[derive(Clone)]
pub(super) struct Resources {
    pub(super) browser: Arc<ApiResource>,
    pub(super) config: Arc<ApiResource>,
    pub(super) pod: ApiResource,
    pub(super) policy: ApiResource,
}

/// What is known of the cluster.
#[derive(Clone)]
pub(super) struct Caches {
    pub(super) configs: Cache<Readable<BrowserConfigObject>>,
    pub(super) pods: Cache<SeenPod>,
    pub(super) namespaces: Namespaces,
}

impl Caches {
    /// Returns the pods of a Browser or BrowserConfig that do not have its name: those that it has taken, or that wait.
    pub(super) fn taken_or_waiting(
        &self,
        memory: &WarmMemory,
        namespace: Option<&str>,
        owner: &str,
    ) -> Vec<Arc<SeenPod>> {
        let names = memory.owned_by(namespace, owner).into_iter();
        let pods = names.filter_map(|name| self.pods.get(namespace, &name));
        pods.filter(|pod| pod.controller() == Some(owner)).collect()
    }
}

impl Kind for BrowserKind {
    type Object = BrowserObject;
    type World = World;
    type Action = Action;
    type Outcome = ActionOutcome;

    const TRAITS: Traits = Traits {
        finalizer: Some(names::finalizer::BROWSER),
        ..Traits::of("Browser", CONTROLLER, names::field_manager::BROWSER)
    };

    async fn observe(
        &self,
        ctx: &Context,
        browser: &BrowserObject,
        source: Source,
    ) -> Result<World, Error> {
        self.look_around(ctx, browser, source).await
    }

    fn plan(&self, world: &World, now: Timestamp) -> Plan<Action> {
        plan(world, &self.timeouts, now)
    }

    fn is_heavy(&self, world: &World) -> bool {
        world.pod.is_none()
            && world
                .configs
                .iter()
                .map(|config| versions(config))
                .sum::<usize>()
                > LIGHT
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<ActionOutcome, Error> {
        let step = tracing::trace_span!(target: TRACES, "act", step = action.name());
        self.carry_out(ctx, world, action).instrument(step).await
    }

    fn report(&self, done: &Done<'_, Self>, notices: Vec<Notice>) -> Vec<Notice> {
        let notices = match done.outcome {
            // Nothing was written to a Browser that is gone, and no pod was created if it was rejected or exists already.
            ActionOutcome::Gone | ActionOutcome::PodRejected(_) | ActionOutcome::PodExists(_) => {
                return Vec::new();
            }
            ActionOutcome::MetadataRejected(sentence)
            | ActionOutcome::Marked {
                dropped: Some(sentence),
                ..
            } => return warn_of_labels(done, sentence),
            ActionOutcome::PodCreated(_, remarks, _) => with_remarks(notices, remarks),
            ActionOutcome::PodTaken(pod, remarks) => {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                let taken = format!("took warm pod {name}");
                let notice = Notice::normal(names::reason::POD_CREATED, taken);
                with_remarks(vec![notice], remarks)
            }
            _ => notices,
        };
        if let Some(milestone) = Milestone::of(done.world, done.action, done.outcome) {
            let age = metrics::age(done.world, done.now);
            milestone.log(done.world, age);
            milestone.trace(done.world, age, done.now);
            self.metrics.count(milestone, age);
        }
        notices
    }

    fn learn(&self, world: &mut World, outcome: ActionOutcome) -> Remains {
        match outcome {
            ActionOutcome::Read(browser) => {
                world.learned.browser_confirmed = true;
                world.browser = Arc::from(browser);
                world.learned.pod_unknown =
                    world.pod.is_none() && (world.is_deleted() || world.had_pod());
            }
            ActionOutcome::Marked { browser, dropped } => {
                world.learned.metadata_rejected = dropped;
                let left = self.wrote(world, *browser);
                self.remember_rejected_labels(world);
                return left;
            }
            ActionOutcome::MetadataRejected(sentence) => {
                world.learned.metadata_rejected = Some(sentence);
                self.remember_rejected_labels(world);
            }
            ActionOutcome::StatusWritten(browser) => return self.wrote(world, *browser),
            ActionOutcome::Gone => {
                self.memory.forget(&world.browser.metadata);
                return Remains::Unknown;
            }
            ActionOutcome::Pod { pod, late_until } => {
                world.learned.end_confirmed = true;
                world.learned.pod_unknown = false;
                // That of the pod that was seen, since it may be gone by now.
                let seen = world.own_pod().and_then(|pod| pod.metadata.uid.clone());
                world.learned.created = seen;
                if pod.is_none() {
                    world.learned.disruption = self.memory.disruption(&world.browser.metadata);
                }
                world.learned.late_until = late_until;
                world.pod = pod;
            }
            ActionOutcome::Absence { pod, configs } => {
                world.learned.end_confirmed = true;
                world.pod = pod;
                if let Some(configs) = configs {
                    world.configs = configs;
                    // They were about a pod from the old configuration.
                    world.learned.rejection = None;
                    world.learned.policy_applied = false;
                }
            }
            ActionOutcome::PolicyApplied => world.learned.policy_applied = true,
            ActionOutcome::PodCreated(pod, _, cold) => {
                world.learned.cold = cold;
                self.made(world, pod);
            }
            ActionOutcome::PodTaken(pod, _) => self.made(world, pod),
            ActionOutcome::StrayDeleted(stray) => {
                world.own_pods.retain(|pod| uid_of(&pod.metadata) != stray);
            }
            ActionOutcome::PodExists(pod) => self.found(world, pod),
            ActionOutcome::PodRejected(refusal) => world.learned.rejection = Some(refusal),
            ActionOutcome::PodDeleted(how) => world.learned.pod_deleted = Some(how),
            ActionOutcome::PodGone => world.pod = None,
        }
        Remains::Object
    }

    fn metadata(world: &World) -> &ObjectMeta {
        &world.browser.metadata
    }
}

impl BrowserKind {
    /// Takes over the pod that was created or taken for the Browser.
    fn made(&self, world: &mut World, pod: Arc<SeenPod>) {
        world.learned.created.clone_from(&pod.metadata.uid);
        self.found(world, pod);
    }

    /// Takes over the Browser from the answer to our own write.
    fn wrote(&self, world: &mut World, browser: BrowserObject) -> Remains {
        let remains = Remains::of(&browser.metadata);
        world.browser = Arc::new(browser);
        world.learned.browser_confirmed = true;
        if remains == Remains::Nothing {
            self.memory.forget(&world.browser.metadata);
        } else if world.pod_is_watched
            && world.has_noted_pod()
            && let Some(pod) = &world.pod
        {
            self.memory.pod_is_cached(&world.browser.metadata, pod);
        }
        remains
    }

    /// Rejected labels do not hold a session up, so its status does not show them. They are tried again after a pause.
    fn remember_rejected_labels(&self, world: &World) {
        if let Some(sentence) = &world.learned.metadata_rejected
            && world.has_finalizer()
        {
            self.memory
                .labels_rejected(&world.browser.metadata, sentence);
        }
    }

    /// Takes over a pod of the Browser's name.
    fn found(&self, world: &mut World, pod: Arc<SeenPod>) {
        if world.owns(&pod) {
            self.memory
                .created(&world.browser.metadata, Arc::clone(&pod));
        }
        world.pod = Some(pod);
        let cached = self.cached_pod(world);
        world.pod_is_watched = cached.is_some_and(|cached| world.owns(&cached));
    }
}

fn versions(config: &Readable<BrowserConfigObject>) -> usize {
    let browsers = config.0.as_ref().ok().map(|config| &config.spec.browsers);
    browsers.into_iter().flatten().map(|(_, of)| of.len()).sum()
}

/// Warns of rejected labels. The Browser has our finalizer, so its session goes on without them.
fn warn_of_labels(done: &Done<'_, BrowserKind>, sentence: &str) -> Vec<Notice> {
    let has_finalizer = match done.outcome {
        ActionOutcome::Marked { browser, .. } => browser
            .finalizers()
            .iter()
            .any(|name| name == names::finalizer::BROWSER),
        _ => done.world.has_finalizer(),
    };
    if !has_finalizer {
        return Vec::new();
    }
    let metadata = &done.world.browser.metadata;
    tracing::warn!(
        namespace = metadata.namespace,
        name = metadata.name,
        error = sentence,
        "could not set labels"
    );
    let note = format!("cannot set labels: {sentence}");
    vec![Notice::warning(names::reason::METADATA_REFUSED, note)]
}

/// Appends the plugins' remarks about a pod that was created.
fn with_remarks(notices: Vec<Notice>, remarks: &[String]) -> Vec<Notice> {
    let with = |notice: Notice| Notice {
        note: appended(notice.note, remarks),
        ..notice
    };
    notices.into_iter().map(with).collect()
}

fn uid_of(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

// Reads the world around a Browser from caches, and from the API server where a cache cannot show that a pod is gone, or that
// another's is still there.

pub(super) const READ_POD: Attempt = Attempt::new("ReadPod", "read pod");

impl BrowserKind {
    /// Reads the world as far as a plan needs it.
    pub(super) async fn look_around(
        &self,
        ctx: &Context,
        browser: &BrowserObject,
        source: Source,
    ) -> Result<World, Error> {
        let metadata = &browser.metadata;
        let mut world = World {
            api: self.api,
            configs: self.caches.configs.all_in(metadata.namespace.as_deref()),
            pod: None,
            own_pods: Vec::new(),
            pod_is_watched: false,
            first_seen: None,
            lacks_config_since: None,
            learned: Learned {
                browser_confirmed: source == Source::Live,
                ..Learned::default()
            },
            browser: Arc::new(browser.clone()),
        };
        if world.has_finalizer() {
            world.learned.metadata_rejected = self.memory.labels_were_rejected(metadata);
        }
        let cached = self.own_or_named(&mut world);
        let is_noted = |pod: &SeenPod| {
            let noted = world.pod_uid();
            noted.is_none() || noted == pod.metadata.uid.as_deref()
        };
        let is_taken = match cached {
            Some(pod) if world.owns(&pod) && is_noted(&pod) => {
                self.take_cached(ctx, &mut world, pod);
                return Ok(world);
            }
            // The name was used before, by another Browser or an earlier pod of this one, which may be gone though the cache still shows
            // it.
            other => other.is_some(),
        };
        let mut overdue = None;
        match self.memory.created_pod(metadata) {
            Some((pod, false)) => world.pod = Some(pod),
            Some((pod, true)) => {
                world.learned.created.clone_from(&pod.metadata.uid);
                overdue = Some(pod);
            }
            None => {}
        }
        let may_hide = self.may_hide(&world, is_taken);
        if world.pod.is_none() && (overdue.is_some() || may_hide) {
            let overdue = overdue.as_ref().map(|pod| &pod.metadata);
            let name = overdue.and_then(|it| it.name.as_deref());
            let name = name.unwrap_or_else(|| world.pod_name());
            world.pod = self.read_pod_named(ctx, &world, name).await?;
        }
        if world.lacks_pod()
            && let Some(pod) = self.attempted_pod(ctx, &world).await?
        {
            self.found(&mut world, pod);
        }
        if world.own_pod().is_none() && !world.had_pod() && !world.is_over() {
            world.first_seen = Some(self.memory.first_seen(metadata, ctx.clock.now()));
        }
        if world.pod.is_none() {
            world.learned.disruption = self.memory.disruption(metadata);
        }
        Ok(world)
    }

    /// Whether the session may have a pod that the cache does not show.
    fn may_hide(&self, world: &World, is_taken: bool) -> bool {
        if !world.is_deleted() {
            // Only a session that is not over is lost with its pod. One that is over may have a pod that came late: it is deleted.
            return is_taken || world.had_pod() && !world.is_over();
        }
        // Its pod has to go first, even one that no cache ever showed.
        let saw_go = |pod| self.memory.saw_go(&world.browser.metadata, pod);
        world.has_finalizer() && (is_taken || !world.pod_uid().is_some_and(saw_go))
    }

    /// Takes the session's own pod from the cache into its world.
    fn take_cached(&self, ctx: &Context, world: &mut World, pod: Arc<SeenPod>) {
        let browser = Arc::clone(&world.browser);
        let metadata = &browser.metadata;
        // Until the status has its UID, nothing else would know of it if it disappeared.
        match world.pod_uid() {
            Some(_) => self.memory.pod_is_cached(metadata, &pod),
            None => self.memory.created(metadata, Arc::clone(&pod)),
        }
        world.lacks_config_since =
            cause::lacks_config(&pod).map(|_| self.memory.lacks_config(metadata, ctx.clock.now()));
        world.pod_is_watched = true;
        world.pod = Some(pod);
    }

    /// Returns the pod of the Browser's name, or the warm one that it has taken, as the cache has it.
    pub(super) fn cached_pod(&self, world: &World) -> Option<Arc<SeenPod>> {
        let namespace = world.browser.metadata.namespace.as_deref();
        self.caches.pods.get(namespace, world.pod_name())
    }

    /// Returns the Browser's pod as the cache has it, or else what has the name that its pod would have; and notes warm pods that it
    /// has taken besides.
    fn own_or_named(&self, world: &mut World) -> Option<Arc<SeenPod>> {
        let browser = Arc::clone(&world.browser);
        let metadata = &browser.metadata;
        let namespace = metadata.namespace.as_deref();
        let cached = self.cached_pod(world);
        let memory = &self.memory.warm;
        let mut pods = self
            .caches
            .taken_or_waiting(memory, namespace, uid_of(metadata));
        if pods.is_empty() {
            return cached;
        }
        let named = self.caches.pods.get(namespace, world.name());
        pods.extend(named.filter(|pod| world.owns(pod)));
        world.own_pods.clone_from(&pods);
        let is_own = cached.as_ref().is_some_and(|pod| world.owns(pod));
        if is_own {
            return cached;
        }
        if world.had_pod() {
            // The status may name it by its UID alone.
            let noted = world.pod_uid();
            let mut pods = pods.into_iter();
            let found = pods.find(|pod| pod.metadata.uid.as_deref() == noted);
            return found.or(cached);
        }
        // Its status may come from before it took a pod. What this process has created for it comes first.
        let created = self.memory.created_pod(metadata);
        let created = created.map(|(pod, _)| pod.metadata.uid.clone());
        let mut pods = pods.into_iter();
        let found = pods.find(|pod| created.as_ref().is_none_or(|it| *it == pod.metadata.uid));
        found.or(cached)
    }

    /// Reads the pod of the Browser's name from the API server; none if there is none.
    pub(super) async fn read_pod(
        &self,
        ctx: &Context,
        world: &World,
    ) -> Result<Option<Arc<SeenPod>>, Error> {
        self.read_pod_named(ctx, world, world.pod_name()).await
    }

    pub(super) async fn read_pod_named(
        &self,
        ctx: &Context,
        world: &World,
        name: &str,
    ) -> Result<Option<Arc<SeenPod>>, Error> {
        let target = Target {
            name,
            ..self.pod(ctx, world)
        };
        Ok(target.read::<SeenPod>(READ_POD).await?.map(Arc::new))
    }

    /// The pod of the Browser's name, or the warm one that it has taken.
    pub(super) fn pod<'a>(&'a self, ctx: &'a Context, world: &'a World) -> Target<'a> {
        Target {
            resource: &self.resources.pod,
            name: world.pod_name(),
            ..self.browser(ctx, world)
        }
    }

    /// The Browser.
    pub(super) fn browser<'a>(&'a self, ctx: &'a Context, world: &'a World) -> Target<'a> {
        Target::of(
            &ctx.client,
            &self.resources.browser,
            &world.browser.metadata,
            Self::TRAITS.field_manager,
        )
    }
}
