//! The kind Cleaner: what the engine needs to run its controller, and what wakes a Cleaner: itself, and its targets.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, future};
use jiff::Timestamp;
use kube::Resource;
use kube::core::{ApiResource, ObjectMeta};
use podloom_api::Cleaner;
use podloom_api::names::cleaner::{FIELD_MANAGER, FINALIZER, event, reason};
use podloom_cel::Evaluator;
use podloom_engine::backoff::Waits;
use podloom_engine::cache::{Cache, Seen, Watch};
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{Context, Done, Kind, Remains, Source, Traits};
use podloom_engine::metrics::UNREADABLE;
use podloom_engine::outbound::SystemResolver;
use podloom_engine::plan::Plan;
use podloom_engine::readable::Readable;
use podloom_engine::scope::WatchScope;
use podloom_engine::wiring::Wiring;
use tokio::sync::Semaphore;

use crate::delivery::{Delivery, SinkClient};
use crate::discovery::Discovery;
use crate::helm::{CHARTS, HelmAction};
use crate::memory::{Alarms, CleanerId, Memory};
use crate::metrics::{CONTROLLER, CleanerMetrics, phase, ready_reason};
use crate::objects::Objects;
use crate::plan::JITTER_MAX;
use crate::plan::plan;
use crate::read::Reader;
use crate::settings::CleanerSetup;
use crate::watches::Watches;
use crate::world::{Action, ActionOutcome, Fate, Learned, StoredCleaner, World, checked};
use crate::{frozen, helm, lifetime};

/// The controller of Cleaners. Cheap to clone.
#[derive(Clone)]
pub(super) struct CleanerKind {
    pub(super) resource: Arc<ApiResource>,
    pub(super) reader: Reader,
    pub(super) watches: Watches,
    pub(super) memory: Memory,
    pub(super) evaluator: Evaluator,
    pub(super) delivery: Delivery,
    /// How much charts that are being read may take.
    pub(super) charts: Arc<Semaphore>,
    pub(super) metrics: CleanerMetrics,
}

impl Kind for CleanerKind {
    type Object = StoredCleaner;
    type World = World;
    type Action = Action;
    type Outcome = ActionOutcome;

    const TRAITS: Traits = Traits {
        // One that cannot be read is let go when it is deleted, and its targets stay: the engine leaves out all else.
        finalizer: Some(FINALIZER),
        steps: 48,
        pass_timeout: Duration::from_mins(1),
        backoff: Waits {
            first: Duration::from_secs(1),
            longest: Duration::from_mins(5),
        },
        ..Traits::of("Cleaner", CONTROLLER, FIELD_MANAGER)
    };

    async fn observe(
        &self,
        _: &Context,
        cleaner: &StoredCleaner,
        _: Source,
    ) -> Result<World, Error> {
        let metadata = &cleaner.metadata;
        let id = CleanerId::of(metadata);
        Ok(World {
            checked: checked(cleaner, &self.reader.settings),
            recalled: self.memory.recall(&id.uid, metadata.generation),
            settings: Arc::clone(&self.reader.settings),
            is_watching: self.watches.knows(&id.uid),
            jitter: random() * JITTER_MAX,
            cleaner: cleaner.clone(),
            learned: Learned::default(),
        })
    }

    fn plan(&self, world: &World, now: Timestamp) -> Plan<Action> {
        plan(world, now)
    }

    fn is_heavy(&self, world: &World) -> bool {
        // A snapshot of all objects may be made.
        world.learned.doomed.is_some()
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<ActionOutcome, Error> {
        self.execute(ctx, world, action).await
    }

    fn report(&self, done: &Done<'_, Self>, notices: Vec<Notice>) -> Vec<Notice> {
        if let ActionOutcome::Cleaner(None) = done.outcome {
            // Nothing was written.
            return Vec::new();
        }
        self.count(done, &notices);
        log(done);
        notices
    }

    fn learn(&self, world: &mut World, outcome: ActionOutcome) -> Remains {
        let learned = &mut world.learned;
        match outcome {
            ActionOutcome::Compiled(verdict) => world.recalled.compiled = Some(verdict),
            ActionOutcome::Unwatched => world.is_watching = false,
            ActionOutcome::Seen(sight) => {
                learned.sight = Some(Arc::from(sight));
                world.is_watching = self.watches.knows(world.uid());
            }
            ActionOutcome::Evaluated(evaluation, variables) => {
                learned.evaluation = Some(evaluation);
                learned.variables = Some(variables);
            }
            ActionOutcome::Unusable(problem) => learned.problem = Some(problem),
            ActionOutcome::Found(found) => learned.search = Some(found),
            ActionOutcome::Doomed(doomed) => learned.doomed = Some(doomed),
            ActionOutcome::Remembered(looked) => {
                world.recalled.events = looked.events;
                world.recalled.looked = Some(looked);
                world.learned = Learned::default();
            }
            ActionOutcome::Deleted(fates) => {
                if let Some(progress) = world.progress_mut() {
                    frozen::fold(progress, fates);
                }
                world.learned.has_deleted = true;
                world.recalled.attempted = self.attempted(world);
            }
            ActionOutcome::Confirmed(places) => {
                if let Some(progress) = world.progress_mut() {
                    let gone = places.into_iter().map(|place| (place, Fate::Gone));
                    frozen::fold(progress, gone.collect());
                }
                world.learned.has_confirmed = true;
            }
            ActionOutcome::Delivering(attempt) => world.recalled.attempt = Some(attempt),
            ActionOutcome::Helm(outcome) => {
                let mut known = std::mem::take(&mut world.learned.helm);
                if let Some(release) = world.progress_mut().and_then(|it| it.helm.as_mut()) {
                    helm::learn(release, &mut known, outcome);
                }
                world.learned.helm = known;
                world.recalled.attempted = self.attempted(world);
            }
            ActionOutcome::Cleaner(None) => return Remains::Unknown,
            ActionOutcome::Cleaner(Some(cleaner)) => return self.changed(world, *cleaner),
        }
        Remains::Object
    }

    fn metadata(world: &World) -> &ObjectMeta {
        &world.cleaner.metadata
    }
}

impl CleanerKind {
    /// Takes over the Cleaner as it is now.
    ///
    /// If somebody has changed its spec since it was observed, all that was learned is forgotten: it is about another spec, whose conditions say
    /// nothing about what this one deletes.
    fn changed(&self, world: &mut World, cleaner: StoredCleaner) -> Remains {
        if cleaner.metadata.generation != world.cleaner.metadata.generation {
            let memory = &self.memory;
            world.checked = checked(&cleaner, &self.reader.settings);
            world.recalled = memory.recall(world.uid(), cleaner.metadata.generation);
            world.learned = Learned::default();
        }
        let is_committed = |it: &StoredCleaner| {
            it.status
                .as_ref()
                .is_some_and(|status| status.deletion.is_some())
        };
        if is_committed(&cleaner) {
            world.learned.progress = None;
        }
        let remains = Remains::of(&cleaner.metadata);
        world.cleaner = cleaner;
        if remains == Remains::Nothing {
            self.forget(&CleanerId::of(&world.cleaner.metadata));
        }
        remains
    }

    fn attempted(&self, world: &World) -> Option<Timestamp> {
        let memory = &self.memory;
        let generation = world.cleaner.metadata.generation;
        memory.recall(world.uid(), generation).attempted
    }

    fn count(&self, done: &Done<'_, Self>, notices: &[Notice]) {
        let metrics = &self.metrics;
        let says = |reason| notices.iter().any(|it| it.reason == reason);
        match done.action {
            Action::Look(at) => {
                let due = done.world.recalled.looked.as_ref().map(|it| it.due);
                if let Some(due) = due.filter(|due| due <= at) {
                    let late = Duration::try_from(at.duration_since(due)).unwrap_or_default();
                    metrics.delay.observe(late.as_secs_f64());
                }
            }
            Action::Commit(_) => {
                metrics.triggered.inc();
            }
            // The finalizer goes although the event was not delivered.
            Action::SetMetadata(_)
                if says(event::EVENT_DELIVERY_FAILED) || says(reason::DEADLINE_EXCEEDED) =>
            {
                metrics.delivered.of(["given_up"]).inc();
            }
            Action::WriteStatus(status) if says(event::TRIGGER_REFUSED) => {
                metrics.refused.of([ready_reason(status)]).inc();
            }
            Action::Helm(HelmAction::GiveUp(_)) => {
                metrics.uninstalled.of(["failed"]).inc();
            }
            _ => {}
        }
        let is_uninstalled = |it: &Notice| it.reason == event::HELM_RELEASE_UNINSTALLED;
        if notices.iter().any(is_uninstalled) {
            metrics.uninstalled.of(["uninstalled"]).inc();
        }
    }
}

/// A random number from 0 to 1.
fn random() -> f64 {
    let random = u32::try_from(RandomState::new().hash_one(0_u8) >> 32).unwrap_or_default();
    f64::from(random) / f64::from(u32::MAX)
}

/// Logs what changed.
fn log(done: &Done<'_, CleanerKind>) {
    let ObjectMeta {
        namespace, name, ..
    } = &done.world.cleaner.metadata;
    match done.action {
        Action::Commit(status) => {
            let deletion = status.deletion.as_ref();
            let objects = deletion.map_or(0, |it| it.objects.len());
            tracing::info!(
                namespace,
                name,
                objects,
                "all conditions are true, deletion begins"
            );
        }
        Action::SetMetadata(_) if done.world.is_deleted() => {
            tracing::info!(namespace, name, "cleaner deleted");
        }
        _ => {}
    }
}

/// How many Cleaners of a namespace are reconciled at once at least: one that waits for its targets must not hold up the others.
const WORKERS_MIN: u16 = 8;

/// A Cleaner in a cache.
type Cached = Readable<StoredCleaner>;

/// Returns the work of the controller in all scopes until it is stopped.
pub fn begin(
    scopes: &[WatchScope],
    setup: &CleanerSetup,
    metrics: &CleanerMetrics,
) -> BoxFuture<'static, ()> {
    let Some(first) = scopes.first() else {
        return future::ready(()).boxed();
    };
    let client = first.ctx.client.clone();
    let memory = Memory::default();
    let resource = Arc::new(Cleaner::resource());
    let cleaners = Cache::new(scopes, Watch::of_kind::<CleanerKind>("Cleaners", &resource));
    let woken = cleaners.clone();
    let alarms = Alarms {
        memory: memory.clone(),
        wake: Arc::new(move |id| woken.wake(Some(&id.namespace), &id.name)),
    };
    let is_wide = first.namespace.is_none();
    let watches = Watches::new(client.clone(), is_wide, alarms.clone(), metrics.clone());
    let resolver = Arc::new(SystemResolver::with_proxies());
    let sinks = SinkClient::new(&setup.settings, resolver, metrics.outbound.clone());
    let clock = first.ctx.clock.clone();
    let (delivery, delivering) = Delivery::start(sinks, alarms, clock, metrics.clone());
    let kind = CleanerKind {
        resource,
        reader: Reader {
            discovery: Discovery::new(client.clone()),
            objects: Objects::new(client),
            settings: Arc::clone(&setup.settings),
        },
        watches,
        memory,
        evaluator: Evaluator::new(setup.evaluation_threads),
        delivery,
        charts: Arc::new(Semaphore::new(CHARTS.into())),
        metrics: metrics.clone(),
    };
    listen(&cleaners, kind.clone());
    let wiring = Wiring::<CleanerKind>::new(&cleaners).counts(UNREADABLE, phase);
    let with_passes = |it: &WatchScope| it.with_passes(setup.workers, WORKERS_MIN);
    let workers: Vec<_> = scopes.iter().map(with_passes).collect();
    let controllers = wiring.run(&workers, kind);
    let lifetimes = lifetime::begin(scopes, setup, &cleaners);
    let beside = future::join3(cleaners.fill(), delivering, lifetimes);
    future::select(controllers.boxed(), beside.boxed())
        .map(drop)
        .boxed()
}

/// Knows Cleaners from the moment that a watch shows them, and forgets those that are gone: most have no finalizer, so no pass learns of
/// it.
pub(super) fn listen(cleaners: &Cache<Cached>, kind: CleanerKind) {
    cleaners.listen(move |seen| match seen {
        Seen::Coming(cleaner) => kind.memory.know(&CleanerId::of(cleaner.meta()).uid),
        Seen::Changed(change) if change.differs(|it| it.meta().uid.as_ref()) => {
            if let Some(gone) = change.before {
                kind.forget(&CleanerId::of(gone.meta()));
            }
        }
        Seen::Changed(_) | Seen::Listed(_) => {}
    });
}

#[cfg(test)]
mod tests;
