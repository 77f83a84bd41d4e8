//! One step of the operator, as it is shipped, against the model of an API server.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::rc::Rc;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use http::{Request, Response};
use jiff::SignedDuration;
use kube::client::Body;
use kube::core::ObjectMeta;
use kube::{Client, Resource};
use podloom_engine::clock::Clock;
use podloom_engine::error::Error;
use podloom_engine::kind::{Context, Kind};
use podloom_engine::pass::{Next, Passes, Stage};
use podloom_engine::testing::{OwnWrites, after, context};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::time::{Instant as Paused, advance};
use tower::{BoxError, service_fn};

use crate::store::{Answer, Asked, Effect, Store, refused, written};
use crate::{Change, Duty, New, ObjectOf, Seen, TICK, time};

/// After how many ticks each object is looked at in any case.
const RESYNC: u8 = 20;
/// How many ticks no random wait is as short as, but for those that are over with the next tick.
const SHORT: u128 = 4;

/// What can happen to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
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
    /// Returns the faults that a request can meet. A conflict is one only for who names a resourceVersion.
    pub fn of(asked: &Asked) -> Vec<Self> {
        if !asked.writes() {
            return vec![Self::Unread];
        }
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
pub struct Process<D: Duty> {
    memory: D::Memory,
    writes: OwnWrites,
    /// How many changes of each resource its watches have shown.
    pub(crate) shown: Vec<usize>,
    /// The passes that are under way, by object.
    passes: BTreeMap<&'static str, Pass<D::World>>,
    /// The objects that are woken: a pass over each is due.
    pub(crate) due: BTreeSet<String>,
    /// Those over which another pass is due after so many ticks.
    pub(crate) waiting: BTreeMap<String, u8>,
}

impl<D: Duty> Clone for Process<D> {
    fn clone(&self) -> Self {
        Self {
            memory: self.memory.clone(),
            writes: self.writes.clone(),
            shown: self.shown.clone(),
            passes: self.passes.clone(),
            due: self.due.clone(),
            waiting: self.waiting.clone(),
        }
    }
}

/// What the API server said last in a pass about its object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Heard {
    /// Nothing.
    #[default]
    Nothing,
    /// That it is there.
    Lives,
    /// That it is not there, or another of its name.
    Gone,
}

#[derive(Clone)]
struct Pass<W> {
    world: W,
    heard: Heard,
}

/// Where a step begins.
enum Begins<D: Duty> {
    /// In a pass that is under way.
    In(Pass<D::World>),
    /// With an object, as the cache has it.
    With(Arc<ObjectOf<D>>),
}

impl<D: Duty> Begins<D> {
    fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::In(pass) => D::Kind::metadata(&pass.world),
            Self::With(object) => object.meta(),
        }
    }

    fn heard(&self) -> Heard {
        match self {
            Self::In(pass) => pass.heard,
            Self::With(_) => Heard::Nothing,
        }
    }
}

/// What a step of the operator did.
pub struct Turn<D: Duty> {
    pub(crate) store: Store,
    pub(crate) process: Process<D>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) late: Option<Asked>,
    /// What was heard before the last write.
    pub(crate) heard: Heard,
}

/// What comes in between, at one of the requests of a step, counted from 0.
pub(crate) enum Between {
    /// The request meets this.
    Fault(Fault),
    /// Somebody changes this just before it arrives.
    Act(Change),
}

type Answering = Box<dyn Fn(&mut Store, &Asked) -> (Answer, Option<Effect>) + Send>;

/// The other side of a step: the API server, and whom else the operator asks.
struct Desk {
    answering: Answering,
    store: Store,
    between: Option<(usize, Between)>,
    /// The resource, the name and the UID of the object that the step is about.
    about: (&'static str, &'static str, String),
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
        let place = self.turn.asked.len();
        self.turn.asked.push(asked.clone());
        if asked.writes() {
            self.turn.heard_before_write = self.turn.heard;
        }
        let fault = match self.between.take_if(|(at, _)| *at == place) {
            Some((_, Between::Fault(fault))) => Some(fault),
            Some((_, Between::Act(change))) => {
                change(&mut self.store);
                None
            }
            None => None,
        };
        let answer = match fault {
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
                let now = written(self.store.now);
                self.store.change(&asked.resource, asked.about(), |pod| {
                    pod["metadata"]["deletionTimestamp"] = json!(now);
                    pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
                });
                None
            }
            Some(Fault::Refused(code)) => Some(refused(code, reason(code), "by the search")),
        };
        if asked.resource == self.about.0 && asked.about() == self.about.1 {
            self.hear(answer.as_ref());
        }
        answer
    }

    fn carry_out(&mut self, asked: &Asked) -> Answer {
        let (answer, effect) = (self.answering)(&mut self.store, asked);
        self.turn.effects.extend(effect);
        answer
    }

    /// Notes what an answer says about the object.
    fn hear(&mut self, answer: Option<&Answer>) {
        let Some((code, body)) = answer else {
            return;
        };
        let object = body["items"].get(0).unwrap_or(body);
        let lives = object["metadata"]["uid"] == json!(self.about.2);
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

/// Whom a step asks. Cheap to clone.
#[derive(Clone)]
pub struct Asker(Arc<Mutex<Option<Desk>>>);

impl Asker {
    /// Asks for something; none if there is no answer.
    pub fn ask(&self, asked: &Asked) -> Option<Answer> {
        self.0.lock().unwrap().as_mut().unwrap().answer(asked)
    }

    /// Returns a client of the API server.
    fn client(&self) -> Client {
        let asker = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let asker = asker.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let asked = Asked::new(&parts, body);
                let broken = || io::Error::from(io::ErrorKind::ConnectionReset);
                let (code, answer) = asker.ask(&asked).ok_or_else(broken)?;
                let body = Body::from(serde_json::to_vec(&answer)?);
                Ok::<_, BoxError>(Response::builder().status(code).body(body)?)
            }
        });
        Client::new(service, "default")
    }
}

/// What steps at one time run on, on one thread.
pub struct Bench {
    runtime: Runtime,
    /// What the engine gives to kinds.
    pub ctx: Context,
    /// Whom to ask who is not the API server.
    pub asker: Asker,
}

thread_local! {
    /// By duty and ticks.
    static BENCHES: RefCell<HashMap<(TypeId, u8), Rc<dyn Any>>> = RefCell::default();
}

/// The time of all benches without ticks. The operator's own clocks stand still, so equal states are equal to the nanosecond.
static BEGINNING: LazyLock<Instant> = LazyLock::new(|| Instant::now() + Duration::from_hours(1));

/// The operator's own clock after this many ticks.
fn instant(ticks: u8) -> Paused {
    Paused::from_std(*BEGINNING + TICK * u32::from(ticks))
}

/// A bench and the tools of a duty on it.
type Place<D> = (Bench, <D as Duty>::Tools);

fn place<D: Duty>(ticks: u8) -> Rc<Place<D>>
where
    D::Tools: 'static,
{
    let made = BENCHES.with_borrow(|all| all.get(&(TypeId::of::<D>(), ticks)).cloned());
    let made = made.unwrap_or_else(|| {
        let bench = Bench::new(ticks);
        let tools = {
            let _entered = bench.runtime.enter();
            D::tools(&bench)
        };
        let made: Rc<dyn Any> = Rc::new((bench, tools));
        BENCHES.with_borrow_mut(|all| all.insert((TypeId::of::<D>(), ticks), Rc::clone(&made)));
        made
    });
    made.downcast().unwrap()
}

impl Bench {
    fn new(ticks: u8) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async { advance(instant(ticks) - Paused::now()).await });
        let asker = Asker(Arc::default());
        let mut ctx = {
            let _entered = runtime.enter();
            context(asker.client())
        };
        // A second ahead of the API server's.
        ctx.clock = Clock::standing(time(ticks) + SignedDuration::from_secs(1));
        Self {
            runtime,
            ctx,
            asker,
        }
    }

    /// Makes one step of a pass.
    async fn step<D: Duty>(
        &self,
        (passes, kind): (&Passes<D::Kind>, &D::Kind),
        begins: Begins<D>,
    ) -> Result<Stage<D::World>, Error> {
        let stage = match begins {
            Begins::In(pass) => passes.step(pass.world).await?,
            Begins::With(object) => match passes.look(&object).await? {
                Stage::GoesOn(world) if !self.was_asked() => passes.step(world).await?,
                stage => stage,
            },
        };
        let now = self.ctx.clock.now();
        match stage {
            Stage::GoesOn(world) if kind.plan(&world, now).action.is_none() => {
                passes.step(world).await
            }
            stage => Ok(stage),
        }
    }

    /// Whether anything was asked in this step.
    fn was_asked(&self) -> bool {
        let desk = self.asker.0.lock().unwrap();
        desk.as_ref().is_some_and(|it| !it.turn.asked.is_empty())
    }
}

impl<D: Duty> Process<D>
where
    D::Tools: 'static,
{
    /// A process that begins now: its watches show what there is, and it looks at all objects.
    pub(crate) fn begin(duty: &D, at: (&Store, u8)) -> Self {
        let mut process = Self {
            memory: D::Memory::default(),
            writes: OwnWrites::default(),
            shown: vec![0; D::WATCHED.len()],
            passes: BTreeMap::new(),
            due: BTreeSet::new(),
            waiting: BTreeMap::new(),
        };
        for (place, resource) in D::WATCHED.iter().enumerate() {
            process.show(duty, at, (place, at.0.changes(resource)), true);
        }
        process.due = at.0.all(D::WATCHED[0]).keys().cloned().collect();
        process
    }

    /// Whether a pass over an object is under way.
    pub(crate) fn is_at_work(&self, name: &str) -> bool {
        self.passes.contains_key(name)
    }

    fn seen<'a>(&'a self, store: &'a Store) -> Seen<'a> {
        Seen {
            store,
            watched: D::WATCHED,
            shown: &self.shown,
        }
    }

    /// A copy that changes independently.
    fn copied(&self) -> Self {
        Self {
            memory: D::copied(&self.memory),
            ..self.clone()
        }
    }

    /// Makes one step of a pass over an object, and begins one if none is under way; none if its cache does not show it.
    ///
    /// What the pass begins with is part of its first step, unless something was read from the API server: then anything may happen
    /// before the step. A plan without an action is part of the step before it.
    pub(crate) fn turn(
        &self,
        duty: &Arc<D>,
        name: &'static str,
        (store, ticks): (&Store, u8),
        between: Option<(usize, Between)>,
    ) -> Option<Turn<D>> {
        let mut process = self.copied();
        let begins: Begins<D> = match process.passes.remove(name) {
            Some(pass) => Begins::In(pass),
            None => {
                let seen = self.seen(store).of(D::WATCHED[0]);
                let object = D::object(seen.get(name)?)?;
                process.due.remove(name);
                process.waiting.remove(name);
                process.writes.begin(object.meta());
                Begins::With(Arc::new(object))
            }
        };
        let metadata = begins.metadata().clone();
        let place = place::<D>(ticks);
        let (bench, tools) = &*place;
        let _entered = bench.runtime.enter();
        let answering = Arc::clone(duty);
        *bench.asker.0.lock().unwrap() = Some(Desk {
            answering: Box::new(move |store, asked| answering.answer(store, asked)),
            store: store.clone(),
            between,
            about: (
                D::WATCHED[0],
                name,
                metadata.uid.clone().unwrap_or_default(),
            ),
            turn: Done {
                heard: begins.heard(),
                ..Done::default()
            },
        });
        let kind = Arc::new(duty.kind(tools, &process.seen(store), &process.memory));
        let resource = D::resource(tools);
        let passes = after(
            &process.writes,
            Arc::clone(&kind),
            resource,
            bench.ctx.clone(),
        );
        let end = bench
            .runtime
            .block_on(bench.step((&passes, &*kind), begins));
        let Desk { store, turn, .. } = bench.asker.0.lock().unwrap().take()?;
        process.end(name, &metadata, end, turn.heard);
        Some(Turn {
            store,
            process,
            asked: turn.asked,
            effects: turn.effects,
            late: turn.late.map(D::late),
            heard: turn.heard_before_write,
        })
    }

    /// Notes how a step ended: its pass goes on, or another one is due at some time.
    fn end(
        &mut self,
        name: &'static str,
        object: &ObjectMeta,
        end: Result<Stage<D::World>, Error>,
        heard: Heard,
    ) {
        let next = match end {
            Ok(Stage::GoesOn(world)) => {
                let world = D::rounded(world);
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
        // What is due within a tick is due with the next one. How long a long wait is may be random: it lasts until the resync.
        let due = match next {
            Next::Within(wait) => match wait.as_nanos().div_ceil(TICK.as_nanos()) {
                ticks @ 0..=SHORT => Some(u8::try_from(ticks).unwrap()),
                _ => Some(RESYNC),
            },
            Next::CatchUp => Some(1),
            Next::Resync => Some(RESYNC),
            Next::Change => None,
        };
        let is_next = due == Some(0);
        if let Some(ticks) = due.filter(|_| !is_next) {
            self.waiting.insert(name.to_owned(), ticks);
        }
        if self.writes.end(object) || is_next {
            self.due.insert(name.to_owned());
        }
    }

    /// Lets a watch show what there was after that many changes: one event, or a new list. Who is woken by it, the wiring decides.
    pub(crate) fn show(
        &mut self,
        duty: &D,
        (store, ticks): (&Store, u8),
        (place_of, to): (usize, usize),
        is_list: bool,
    ) {
        let mut process = self.copied();
        let place = place::<D>(ticks);
        let (bench, tools) = &*place;
        let _entered = bench.runtime.enter();
        let resource = D::WATCHED[place_of];
        let new = New {
            seen: self.seen(store),
            resource,
            after: store.after(resource, to),
            is_list,
        };
        let woken = duty.show(tools, &new, &process.memory, &process.writes);
        process.shown[place_of] = to;
        process.due.extend(woken);
        let own = process.seen(store).of(D::WATCHED[0]);
        process.due.retain(|name| own.contains_key(name));
        *self = process;
    }

    /// Hashes all that the next steps depend on.
    pub(crate) fn hash(&self, store: &Store, ticks: u8, hasher: &mut DefaultHasher) {
        for (resource, shown) in D::WATCHED.iter().zip(&self.shown) {
            (store.changes(resource) - shown).hash(hasher);
        }
        let now = instant(ticks);
        self.writes.hash(now, hasher);
        D::hash_memory(&self.memory, now, hasher);
        (&self.due, &self.waiting).hash(hasher);
        for (name, pass) in &self.passes {
            (name, pass.heard).hash(hasher);
            D::hash_world(&pass.world, hasher);
        }
    }
}

/// Hashes what is written to it.
pub struct Hashed<'a>(pub &'a mut DefaultHasher);

impl Write for Hashed<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// Hashes which version of an object this is.
pub fn hash_version(of: &ObjectMeta, hasher: &mut DefaultHasher) {
    (&of.uid, &of.resource_version).hash(hasher);
}
