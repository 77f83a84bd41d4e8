//! One step of the operator, as it is shipped, against the model of an API server.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use futures::FutureExt;
use jiff::{SignedDuration, Timestamp, Unit};
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::core::{ApiResource, ObjectMeta};
use kube::runtime::watcher::Event;
use podloom_api::{BrowserConfigObject, BrowserObject, SelenosisApi, SelenosisKind};
use podloom_engine::cache::{Cache, Cacheable, Watch};
use podloom_engine::error::Error;
use podloom_engine::kind::{Context, Kind};
use podloom_engine::metrics::Objects;
use podloom_engine::namespaces::{self, Namespaces};
use podloom_engine::pass::{Next, Passes, Stage};
use podloom_engine::readable::Readable;
use podloom_engine::testing::{OwnWrites, after, context};
use podloom_engine::wakes::Wakes;
use podloom_scripted::answering;
use podloom_scripted::store::{Answer, Asked, Effect, Snapshot, Store, Stored, refused};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::time::{Instant as Paused, advance};

use super::flaws::{Flaw, Flawed};
use crate::config::BrowserConfigKind;
use crate::kind::tests::Untouched;
use crate::kind::{BrowserKind, Caches, Resources};
use crate::memory::Memory;
use crate::metrics::BrowserMetrics;
use crate::pod::SeenPod;
use crate::wiring::{Browsers, Configs, note_changes, remember, wake_waiting};
use crate::world::{Timeouts, World};

/// The resources that the operator watches.
pub(super) const WATCHED: [&str; 3] = ["browsers", "browserconfigs", "pods"];
/// How long a tick is: longer than each of the operator's short pauses, so that they are over with the next tick.
const TICK: Duration = Duration::from_secs(31);

/// The time after this many ticks.
pub(super) fn time(ticks: u8) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_700_000_000 + 31 * i64::from(ticks))
}

/// The timeouts in ticks: two for a pod to be created, to run, and to go.
pub(super) fn timeouts() -> Timeouts {
    Timeouts {
        pod_creation: TICK * 2,
        pod_deletion: TICK * 2,
        failed_retention: Duration::ZERO,
        config_grace: TICK,
        container_config_grace: TICK,
    }
}

/// What can happen to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It never arrives.
    Lost,
    /// It is carried out, and the answer is lost.
    Unanswered,
    /// It is on its way for longer than anyone waits.
    Late,
    /// A forced deletion marks the pod, and the API server stops before it removes it.
    Half,
    /// It is refused with this status.
    Refused(u16),
    /// A read gets no answer.
    Unread,
}

impl Fault {
    /// The faults that a write can meet. A conflict is one only for who names a resourceVersion.
    pub(super) fn of(asked: &Asked) -> Vec<Self> {
        let mut faults = vec![Self::Lost, Self::Unanswered, Self::Late, Self::Refused(500)];
        let body = &asked.body;
        match asked.method.as_str() {
            "POST" => faults.extend([403, 404, 422].map(Self::Refused)),
            "DELETE" if body["gracePeriodSeconds"] == 0 => faults.push(Self::Half),
            _ => {}
        }
        let version = [&body["metadata"], &body["preconditions"]].map(|it| &it["resourceVersion"]);
        if version.iter().any(|it| it.is_string()) {
            faults.push(Self::Refused(409));
        }
        faults
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => to.write_str(", which is lost"),
            Self::Unanswered => to.write_str(", and the answer is lost"),
            Self::Late => to.write_str(", which is on its way for long"),
            Self::Half => to.write_str(", of which half is done"),
            Self::Refused(code) => write!(to, ", which is refused with {code}"),
            Self::Unread => to.write_str(", without an answer"),
        }
    }
}

/// What one process of the operator has.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) memory: Memory,
    writes: OwnWrites,
    /// How many changes of each resource its watches have shown.
    pub(super) shown: [usize; 3],
    /// The passes that are under way, by Browser.
    passes: BTreeMap<&'static str, Pass>,
    /// The Browsers that are woken: a pass over each is due.
    pub(super) due: BTreeSet<String>,
    /// Those over which another pass is due after some time.
    pub(super) waiting: BTreeSet<String>,
}

/// What the API server said last in a pass about its Browser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Heard {
    #[default]
    Nothing,
    Lives,
    Gone,
}

#[derive(Clone)]
struct Pass {
    world: World,
    heard: Heard,
}

/// What a step of the operator did.
pub(super) struct Turn {
    pub(super) store: Store,
    pub(super) process: Process,
    pub(super) asked: Vec<Asked>,
    pub(super) effects: Vec<Effect>,
    pub(super) late: Option<Asked>,
    /// What was heard before the last write.
    pub(super) heard: Heard,
}

/// The API server's side of a step.
struct Desk {
    store: Store,
    fault: Option<Fault>,
    about: (&'static str, String),
    turn: Done,
}

#[derive(Default)]
struct Done {
    asked: Vec<Asked>,
    effects: Vec<Effect>,
    late: Option<Asked>,
    heard: Heard,
    heard_before_write: Heard,
}

impl Desk {
    fn answer(&mut self, asked: &Asked) -> Option<Answer> {
        self.turn.asked.push(asked.clone());
        if asked.writes() {
            self.turn.heard_before_write = self.turn.heard;
        }
        let meets = |fault: &Fault| asked.writes() != (*fault == Fault::Unread);
        let answer = match self.fault.take_if(|fault| meets(fault)) {
            None => Some(self.carry_out(asked)),
            Some(Fault::Lost | Fault::Unread) => None,
            Some(Fault::Unanswered) => {
                self.carry_out(asked);
                None
            }
            Some(Fault::Late) => {
                self.turn.late = Some(asked.clone());
                None
            }
            Some(Fault::Half) => {
                let now = podloom_scripted::store::written(self.store.now);
                self.store.change("pods", asked.about(), |pod| {
                    pod["metadata"]["deletionTimestamp"] = json!(now);
                    pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
                });
                None
            }
            Some(Fault::Refused(code)) => Some(refused(code, reason(code), "by the search")),
        };
        if asked.resource == "browsers" && asked.about() == self.about.0 {
            self.hear(answer.as_ref());
        }
        answer
    }

    fn carry_out(&mut self, asked: &Asked) -> Answer {
        let (answer, effect) = self.store.answer(asked);
        self.turn.effects.extend(effect);
        answer
    }

    /// Notes what an answer says about the Browser.
    fn hear(&mut self, answer: Option<&Answer>) {
        let Some((code, body)) = answer else {
            return;
        };
        let object = body["items"].get(0).unwrap_or(body);
        let lives = object["metadata"]["uid"] == json!(self.about.1);
        let is_refused = *code == 409 || *code == 500;
        if !is_refused {
            self.turn.heard = if lives { Heard::Lives } else { Heard::Gone };
        }
    }
}

fn reason(code: u16) -> &'static str {
    match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        422 => "Invalid",
        _ => "InternalError",
    }
}

/// What steps at one time run on, on one thread.
struct Rig {
    runtime: Runtime,
    ctx: Context,
    desk: Arc<Mutex<Option<Desk>>>,
    resources: Resources,
    namespaces: Namespaces,
    metrics: BrowserMetrics,
    ticks: u8,
}

thread_local! {
    static RIGS: RefCell<BTreeMap<u8, Rc<Rig>>> = RefCell::default();
}

/// The time of all rigs without ticks. The operator's own clocks stand still, so equal states are equal to the nanosecond.
static BEGINNING: LazyLock<Instant> = LazyLock::new(|| Instant::now() + Duration::from_hours(1));

impl Rig {
    fn at(ticks: u8) -> Rc<Self> {
        RIGS.with_borrow_mut(|rigs| {
            Rc::clone(
                rigs.entry(ticks)
                    .or_insert_with(|| Rc::new(Self::new(ticks))),
            )
        })
    }

    fn new(ticks: u8) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let then = Paused::from_std(*BEGINNING + TICK * u32::from(ticks));
            advance(then - Paused::now()).await;
        });
        let desk: Arc<Mutex<Option<Desk>>> = Arc::default();
        let served = Arc::clone(&desk);
        let client = {
            let _entered = runtime.enter();
            answering(move |asked| served.lock().unwrap().as_mut().unwrap().answer(&asked))
        };
        let api = SelenosisApi::Seed;
        Self {
            runtime,
            ctx: context(client),
            desk,
            resources: Resources {
                browser: Arc::new(api.resource(SelenosisKind::Browser)),
                config: Arc::new(api.resource(SelenosisKind::BrowserConfig)),
                pod: ApiResource::erase::<Pod>(&()),
            },
            namespaces: Namespaces::of(Cache::of(namespaces::metadata(), [])),
            metrics: BrowserMetrics::declared(&mut Registry::default(), &Objects::default()),
            ticks,
        }
    }

    /// Whether the API server was asked anything in this step.
    fn was_asked(&self) -> bool {
        let desk = self.desk.lock().unwrap();
        desk.as_ref().is_some_and(|it| !it.turn.asked.is_empty())
    }

    /// The passes of a process that sees what its watches have shown.
    fn passes(
        &self,
        process: &Process,
        store: &Store,
        flaw: Option<Flaw>,
    ) -> (Passes<Flawed>, Arc<Flawed>) {
        let shown = |place: usize| store.after(WATCHED[place], process.shown[place]);
        let configs = shown(1);
        let configs = configs
            .values()
            .map(|it| (*it.typed::<Readable<BrowserConfigObject>>()).clone());
        let pods = shown(2);
        let pods = pods.values().map(|it| (*it.typed::<SeenPod>()).clone());
        let watch = Watch::of_kind::<BrowserConfigKind>("BrowserConfigs", &self.resources.config);
        let kind = BrowserKind {
            api: SelenosisApi::Seed,
            resources: Resources {
                browser: Arc::clone(&self.resources.browser),
                config: Arc::clone(&self.resources.config),
                pod: self.resources.pod.clone(),
            },
            caches: Caches {
                configs: Cache::of(watch, configs),
                pods: Cache::of(Watch::of("Pod", "Pods"), pods),
                namespaces: self.namespaces.clone(),
            },
            mutator: Arc::new(Untouched),
            timeouts: timeouts(),
            memory: process.memory.clone(),
            metrics: self.metrics.clone(),
        };
        let kind = Arc::new(Flawed { kind, flaw });
        // A second before the machine's time would correct it: whole seconds, as in the API server's answers.
        self.ctx.clock.heard(time(self.ticks), Instant::now());
        let passes = after(
            &process.writes,
            Arc::clone(&kind),
            &self.resources.browser,
            self.ctx.clone(),
        );
        (passes, kind)
    }
}

impl Process {
    /// A process that begins now.
    pub(super) fn begin(store: &Store) -> Self {
        let browsers = store.after(WATCHED[0], store.changes(WATCHED[0]));
        Self {
            memory: Memory::default(),
            writes: OwnWrites::default(),
            shown: WATCHED.map(|resource| store.changes(resource)),
            passes: BTreeMap::new(),
            due: browsers.keys().cloned().collect(),
            waiting: BTreeSet::new(),
        }
    }

    /// Whether a pass over a Browser is under way.
    pub(super) fn is_at_work(&self, name: &str) -> bool {
        self.passes.contains_key(name)
    }

    /// Makes one step of a pass over a Browser, and begins one if none is under way; none if its cache does not show it.
    ///
    /// What the pass begins with is part of its first step, unless something was read from the API server: then anything may happen
    /// before the step. A plan without an action is part of the step before it.
    pub(super) fn turn(
        &self,
        name: &'static str,
        at: (&Store, u8),
        fault: Option<Fault>,
        flaw: Option<Flaw>,
    ) -> Option<Turn> {
        let (store, ticks) = at;
        let mut process = self.clone();
        process.memory = self.memory.copied();
        process.writes = self.writes.clone();
        let begun = process.passes.remove(name);
        let seen = match &begun {
            Some(pass) => Arc::clone(&pass.world.browser),
            None => Arc::new(self.seen(store, name)?),
        };
        if begun.is_none() {
            process.due.remove(name);
            process.waiting.remove(name);
            process.writes.begin(&seen.metadata);
        }
        let rig = Rig::at(ticks);
        let (passes, kind) = rig.passes(&process, store, flaw);
        let heard = begun.as_ref().map_or(Heard::Nothing, |pass| pass.heard);
        *rig.desk.lock().unwrap() = Some(Desk {
            store: store.clone(),
            fault,
            about: (name, seen.metadata.uid.clone().unwrap_or_default()),
            turn: Done {
                heard,
                ..Done::default()
            },
        });
        let end = rig.runtime.block_on(async {
            let stage = match begun {
                Some(pass) => passes.step(pass.world).await?,
                None => match passes.look(&seen).await? {
                    Stage::GoesOn(world) if !rig.was_asked() => passes.step(world).await?,
                    stage => stage,
                },
            };
            match stage {
                Stage::GoesOn(world) if kind.plan(&world, rig.ctx.clock.now()).action.is_none() => {
                    passes.step(world).await
                }
                stage => Ok(stage),
            }
        });
        let Desk { store, turn, .. } = rig.desk.lock().unwrap().take()?;
        process.end(name, &seen.metadata, end, turn.heard);
        Some(Turn {
            store,
            process,
            asked: turn.asked,
            effects: turn.effects,
            late: turn.late,
            heard: turn.heard_before_write,
        })
    }

    /// The Browser as the cache has it.
    fn seen(&self, store: &Store, name: &str) -> Option<BrowserObject> {
        let shown = store.after(WATCHED[0], self.shown[0]);
        let seen = shown.get(name)?.typed::<Readable<BrowserObject>>();
        seen.0.clone().ok()
    }

    /// Notes how a step ended: its pass goes on, or another one is due at some time.
    fn end(
        &mut self,
        name: &'static str,
        browser: &ObjectMeta,
        end: Result<Stage<World>, Error>,
        heard: Heard,
    ) {
        let next = match end {
            Ok(Stage::GoesOn(world)) => {
                let world = rounded(world);
                self.passes.insert(name, Pass { world, heard });
                return;
            }
            Ok(Stage::Ends(next)) => next,
            Err(error) => {
                let is_bug = matches!(error, Error::Endless | Error::Panicked { .. });
                assert!(!is_bug, "{error}");
                Next::CatchUp
            }
        };
        if matches!(next, Next::Within(_) | Next::CatchUp) {
            self.waiting.insert(name.to_owned());
        }
        if self.writes.end(browser) {
            self.due.insert(name.to_owned());
        }
    }

    /// Hashes all that the next steps depend on.
    pub(super) fn hash(&self, store: &Store, ticks: u8, hasher: &mut DefaultHasher) {
        for (resource, shown) in WATCHED.iter().zip(self.shown) {
            (store.changes(resource) - shown).hash(hasher);
        }
        let now = Paused::from_std(*BEGINNING + TICK * u32::from(ticks));
        self.writes.hash(now, hasher);
        self.memory.hash(now, hasher);
        (&self.due, &self.waiting).hash(hasher);
        for (name, pass) in &self.passes {
            (name, pass.heard).hash(hasher);
            let World {
                browser,
                configs,
                pod,
                pod_is_watched,
                first_seen,
                lacks_config_since,
                learned,
                ..
            } = &pass.world;
            let _ = write!(
                Hashed(hasher),
                "{browser:?}{pod:?}{pod_is_watched}{first_seen:?}{lacks_config_since:?}{learned:?}"
            );
            for config in configs {
                let meta = config.meta();
                (&meta.uid, &meta.resource_version).hash(hasher);
            }
        }
    }
}

/// The operator's clock goes on while a step is made; what it notes is rounded, so that equal states are equal.
fn rounded(mut world: World) -> World {
    let times = [
        &mut world.first_seen,
        &mut world.lacks_config_since,
        &mut world.learned.late_until,
    ];
    for time in times.into_iter().flatten() {
        *time = whole(*time);
    }
    world
}

/// The second that a time is in.
pub(crate) fn whole(time: Timestamp) -> Timestamp {
    time.round((Unit::Second, 1)).unwrap_or(time)
}

/// Hashes what is written to it.
pub(crate) struct Hashed<'a>(pub(crate) &'a mut DefaultHasher);

impl Write for Hashed<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl Process {
    /// Lets a watch show what there was after that many changes: one event, or a new list. Who is woken by it, the wiring decides.
    pub(super) fn show(&mut self, store: &Store, place: usize, to: usize, is_list: bool) {
        self.memory = self.memory.copied();
        self.writes = self.writes.clone();
        let [browsers, configs, pods] =
            [0, 1, 2].map(|it| store.after(WATCHED[it], self.shown[it]));
        let resource = |kind| Arc::new(SelenosisApi::Seed.resource(kind));
        let browser = resource(SelenosisKind::Browser);
        let config = resource(SelenosisKind::BrowserConfig);
        let own: Browsers = cached(Watch::of_kind::<BrowserKind>("", &browser), &browsers);
        let watch = Watch::of_kind::<BrowserConfigKind>("", &config);
        let of_configs: Configs = cached(watch, &configs);
        let of_pods: Cache<SeenPod> = cached(Watch::of("Pod", ""), &pods);
        let changed = Wakes::default();
        remember(&of_pods, self.memory.clone());
        note_changes(&of_configs, changed.clone());
        drop(self.writes.wiring::<BrowserKind>(&own).owns(&of_pods));
        self.shown[place] = to;
        let after = store.after(WATCHED[place], to);
        match place {
            0 => show(&own, &browsers, &after, is_list),
            1 => show(&of_configs, &configs, &after, is_list),
            _ => show(&of_pods, &pods, &after, is_list),
        }
        let _has_no_end = wake_waiting(&changed, own.clone()).now_or_never();
        self.due.extend(own.noted());
        self.due
            .retain(|name| own.get(Some("team"), name).is_some());
    }
}

/// A cache of objects.
fn cached<K: Cacheable>(watch: Watch<K>, objects: &Snapshot) -> Cache<K> {
    Cache::of(watch, objects.values().map(|it| (*it.typed::<K>()).clone()))
}

/// Puts what is different into a cache, or all as a new list.
fn show<K: Cacheable>(cache: &Cache<K>, before: &Snapshot, after: &Snapshot, is_list: bool) {
    let typed = |it: &Arc<Stored>| (*it.typed::<K>()).clone();
    if is_list {
        cache.show(None, &Event::Init);
        for object in after.values() {
            cache.show(None, &Event::InitApply(typed(object)));
        }
        return cache.show(None, &Event::InitDone);
    }
    let is_same =
        |name: &String, it: &Arc<Stored>| before.get(name).is_some_and(|old| Arc::ptr_eq(old, it));
    for (_, object) in after.iter().filter(|(name, it)| !is_same(name, it)) {
        cache.show(None, &Event::Apply(typed(object)));
    }
    for (_, object) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        cache.show(None, &Event::Delete(typed(object)));
    }
}
