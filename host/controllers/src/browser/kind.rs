//! The kind Browser, as the engine drives it.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use kube::core::{ApiResource, ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::Store;
use podloom_api::{BrowserConfigObject, BrowserObject, SelenosisApi, names};

use super::action::{Action, ActionOutcome};
use super::memory::Memory;
use super::metrics::{BrowserMetrics, CONTROLLER};
use super::milestone::{self, Milestone};
use super::plan::plan;
use super::pod::SeenPod;
use super::timeouts::Timeouts;
use super::world::World;
use crate::engine::error::Error;
use crate::engine::events::{Notice, appended};
use crate::engine::kind::{Context, Done, Kind, Remains, Source, Traits};
use crate::engine::plan::Plan;
use crate::engine::readable::Readable;
use crate::mutator::{Note, PodMutator};

/// How many versions are looked through at once, in a millisecond or two.
const LIGHT: usize = 4096;

/// What the controller of Browsers needs besides the context of all.
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
pub(super) struct Resources {
    pub(super) browser: Arc<ApiResource>,
    pub(super) config: Arc<ApiResource>,
    pub(super) pod: ApiResource,
}

/// What is known of the cluster.
pub(super) struct Caches {
    pub(super) configs: Store<Readable<BrowserConfigObject>>,
    pub(super) pods: Store<SeenPod>,
    /// None without the right to read namespaces.
    pub(super) namespaces: Option<Store<PartialObjectMeta<Namespace>>>,
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
        self.carry_out(ctx, world, action).await
    }

    fn report(&self, done: &Done<'_, Self>, notices: Vec<Notice>) -> Vec<Notice> {
        let notices = match done.outcome {
            // Nothing was written to a Browser that is gone, and a pod that is refused, or there already, was not created.
            ActionOutcome::Gone | ActionOutcome::PodRefused(_) | ActionOutcome::PodExists(_) => {
                return Vec::new();
            }
            ActionOutcome::MetadataRefused(sentence)
            | ActionOutcome::Marked {
                dropped: Some(sentence),
                ..
            } => return labels_refused(done, sentence),
            ActionOutcome::PodCreated(_, notes) => with_notes(notices, notes),
            _ => notices,
        };
        if let Some(milestone) = Milestone::of(done.world, done.action, done.outcome) {
            let age = milestone::age(done.world, done.now);
            milestone.log(done.world, age);
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
                world.learned.metadata_refused = dropped;
                let left = self.wrote(world, *browser);
                self.remember_refused_labels(world);
                return left;
            }
            ActionOutcome::MetadataRefused(sentence) => {
                world.learned.metadata_refused = Some(sentence);
                self.remember_refused_labels(world);
            }
            ActionOutcome::StatusWritten(browser) => return self.wrote(world, *browser),
            ActionOutcome::Gone => {
                self.memory.forget(&world.browser.metadata);
                return Remains::Unknown;
            }
            ActionOutcome::Pod { pod, late_until } => {
                world.learned.end_confirmed = true;
                world.learned.pod_unknown = false;
                // The one that was seen, for it may be gone now.
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
                    // It was about a pod of the old configuration.
                    world.learned.refusal = None;
                }
            }
            ActionOutcome::PodCreated(pod, _) => {
                world.learned.created.clone_from(&pod.metadata.uid);
                self.found(world, pod);
            }
            ActionOutcome::PodExists(pod) => self.found(world, pod),
            ActionOutcome::PodRefused(refusal) => world.learned.refusal = Some(refusal),
            ActionOutcome::PodDeleted => world.learned.pod_deleted = true,
            ActionOutcome::PodGone => world.pod = None,
        }
        Remains::Object
    }

    fn metadata(world: &World) -> &ObjectMeta {
        &world.browser.metadata
    }
}

impl BrowserKind {
    /// Our own write has shown that the Browser is there, like this.
    fn wrote(&self, world: &mut World, browser: BrowserObject) -> Remains {
        let remains = Remains::of(&browser.metadata);
        world.browser = Arc::new(browser);
        world.learned.browser_confirmed = true;
        if remains == Remains::Nothing {
            self.memory.forget(&world.browser.metadata);
        }
        remains
    }

    /// Labels that are refused hold no session up, so the Browser's status does not show them; they are not tried again at once.
    fn remember_refused_labels(&self, world: &World) {
        if let Some(sentence) = &world.learned.metadata_refused
            && world.has_finalizer()
        {
            self.memory
                .labels_refused(&world.browser.metadata, sentence);
        }
    }

    /// There is a pod of the Browser's name.
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

/// Warns of labels that are refused to a Browser which has our finalizer, and so goes on without them.
fn labels_refused(done: &Done<'_, BrowserKind>, sentence: &str) -> Vec<Notice> {
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

/// Appends what plugins said about a pod that was created.
fn with_notes(notices: Vec<Notice>, notes: &[Note]) -> Vec<Notice> {
    let said: Vec<String> = notes
        .iter()
        .map(|note| format!("{}: {}", note.plugin, note.text))
        .collect();
    let with = |notice: Notice| Notice {
        note: appended(notice.note, &said),
        ..notice
    };
    notices.into_iter().map(with).collect()
}

#[cfg(test)]
pub(super) mod tests;
