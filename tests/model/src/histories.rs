//! What can happen next: to the operator, to its requests and its watches, and around its objects.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::process::{Between, Fault, Process, Turn};
use crate::search::{Broken, Machine};
use crate::store::{Asked, Effect, Store};
use crate::{Duty, Sent, Write, time};

/// How much of what has no end by itself can happen in one history.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Bounds {
    /// Faults of requests and watches, and crashes.
    pub faults: u8,
    /// What people do, and what goes wrong around the operator.
    pub acts: u8,
    /// Ticks of 31 seconds.
    pub ticks: u8,
}

/// The histories of a duty's objects and one operator.
pub struct Histories<D> {
    duty: Arc<D>,
    bounds: Bounds,
}

/// All that what comes next may depend on.
pub struct State<D: Duty> {
    store: Store,
    process: Process<D>,
    /// A write that is on its way for long.
    late: Option<Asked>,
    left: Bounds,
    ticks: u8,
    notes: D::Notes,
    /// How many ticks in a row passed without anything else.
    idle: u8,
}

impl<D: Duty> Clone for State<D> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            process: self.process.clone(),
            late: self.late.clone(),
            notes: self.notes.clone(),
            ..*self
        }
    }
}

type Step<D> = (String, Result<State<D>, Broken>);

impl<D: Duty> Histories<D> {
    /// Returns those within these bounds.
    pub fn within(bounds: Bounds, duty: D) -> Self {
        let duty = Arc::new(duty);
        Self { duty, bounds }
    }

    /// One step of the operator: as it goes well; with each fault that one of its requests can meet; and with what people can do between
    /// two of them.
    fn operate(&self, state: &State<D>, name: &'static str, steps: &mut Vec<Step<D>>) {
        let turn = |between| {
            let at = (&state.store, state.ticks);
            state.process.turn(&self.duty, name, at, between)
        };
        let Some(done) = turn(None) else {
            return;
        };
        let requests = done.asked.clone();
        steps.push(state.turned(name, done, None));
        for (place, asked) in requests.iter().enumerate() {
            let faults = D::faults(asked).into_iter();
            for fault in faults.filter(|_| state.left.faults > 0) {
                if fault == Fault::Late && state.late.is_some() {
                    continue;
                }
                let Some(done) = turn(Some((place, Between::Fault(fault)))) else {
                    continue;
                };
                let (what, next) = state.turned(name, done, Some((place, fault.to_string())));
                let next = next.map(|mut next| {
                    next.left.faults -= 1;
                    next
                });
                steps.push((what, next));
            }
            let may_act = |takes: u8| place > 0 && takes > 0 && takes <= state.left.acts;
            let acts = self.acts(state).into_iter();
            for (what, takes, change) in acts.filter(|(_, takes, _)| may_act(*takes)) {
                let Some(done) = turn(Some((place, Between::Act(change)))) else {
                    continue;
                };
                let meanwhile = Some((place - 1, format!(", meanwhile {what}")));
                let (what, next) = state.turned(name, done, meanwhile);
                let next = next.map(|mut next| {
                    next.left.acts -= takes;
                    next
                });
                steps.push((what, next));
            }
        }
    }

    /// The arrival of a write that was on its way for long.
    fn arrive(&self, state: &State<D>) -> Option<Step<D>> {
        let late = state.late.as_ref()?;
        let mut next = state.clone();
        (next.late, next.idle) = (None, 0);
        let (_, effect) = self.duty.answer(&mut next.store, late);
        let what = format!("what was on its way arrives: {late}");
        let checked = effect.map_or(Ok(()), |effect| {
            next.note(&state.store, &effect, Sent::Late)
        });
        Some((what, checked.map(|()| next)))
    }

    /// What a watch can show next: the next change; with a fault, the newest list, or an older one.
    fn watch(&self, state: &State<D>, place: usize, steps: &mut Vec<Step<D>>) {
        let (resource, shown) = (D::WATCHED[place], state.process.shown[place]);
        let newest = state.store.changes(resource);
        let mut show = |what: String, to: usize, takes: u8| {
            let mut next = state.clone();
            next.left.faults -= takes;
            let at = (&next.store, next.ticks);
            next.process.show(&self.duty, at, (place, to), takes > 0);
            steps.push((what, Ok(next)));
        };
        if shown < newest {
            let what = format!("the watch of {resource} shows a change");
            show(what, shown + 1, 0);
        }
        if state.left.faults > 0 && shown + 1 < newest {
            let what = format!("the watch of {resource} breaks, and shows a new list");
            show(what, newest, 1);
        }
        if state.left.faults > 0 && shown > 0 && state.store.remembers(resource, shown - 1) {
            let what = format!("the watch of {resource} breaks, and shows an older list");
            show(what, shown - 1, 1);
        }
    }

    fn acts(&self, state: &State<D>) -> Vec<crate::Act> {
        let names = self.duty.names().iter();
        names
            .flat_map(|name| self.duty.acts(&state.store, name))
            .collect()
    }
}

impl<D: Duty> Machine for Histories<D>
where
    D::Tools: 'static,
{
    type State = State<D>;

    fn first(&self) -> State<D> {
        let mut store = Store::new(time(0));
        store.ignored = self.duty.ignored();
        self.duty.begin(&mut store);
        State {
            process: Process::begin(&self.duty, (&store, 0)),
            store,
            late: None,
            left: self.bounds,
            ticks: 0,
            notes: D::Notes::default(),
            idle: 0,
        }
    }

    fn next(&self, state: &State<D>) -> Vec<Step<D>> {
        let mut steps = Vec::new();
        for name in self.duty.names() {
            self.operate(state, name, &mut steps);
        }
        for place in 0..D::WATCHED.len() {
            self.watch(state, place, &mut steps);
        }
        if state.left.faults > 0 {
            let mut next = state.clone();
            next.left.faults -= 1;
            next.process = Process::begin(&self.duty, (&next.store, next.ticks));
            let what = "the operator is killed; another one begins".to_owned();
            steps.push((what, Ok(next)));
        }
        steps.extend(self.arrive(state));
        for (what, takes, change) in self.acts(state) {
            if takes <= state.left.acts {
                let mut next = state.clone();
                next.left.acts -= takes;
                change(&mut next.store);
                steps.push((what, Ok(next)));
            }
        }
        if state.left.ticks > 0 {
            let mut next = ticked(state);
            next.left.ticks -= 1;
            steps.push(("31 seconds pass".to_owned(), Ok(next)));
        }
        for (_, next) in &mut steps {
            if let Ok(next) = next {
                next.idle = 0;
                next.forget();
            }
        }
        steps
    }

    fn fair(&self, state: &State<D>) -> Option<Step<D>> {
        if let Some(arrived) = self.arrive(state) {
            return Some(arrived);
        }
        let mut calm = state.clone();
        (calm.left.faults, calm.left.acts) = (0, 0);
        let mut steps = Vec::new();
        for place in 0..D::WATCHED.len() {
            self.watch(&calm, place, &mut steps);
        }
        for name in self.duty.names() {
            let is_due = state.process.due.contains(*name) || state.process.is_at_work(name);
            if steps.is_empty() && is_due {
                self.operate(&calm, name, &mut steps);
            }
        }
        if let Some((what, next)) = steps.into_iter().next() {
            let next = next.map(|next| State {
                left: state.left,
                ..next
            });
            return Some((what, next));
        }
        let acts = self.acts(state);
        if let Some((what, _, change)) = acts.into_iter().find(|(_, takes, _)| *takes == 0) {
            let mut next = state.clone();
            next.idle = 0;
            change(&mut next.store);
            return Some((what, Ok(next)));
        }
        let waits = !state.process.waiting.is_empty() && state.idle < D::PATIENCE;
        waits.then(|| ("31 seconds pass".to_owned(), Ok(ticked(state))))
    }

    /// A state in which the operator waits for changes alone.
    fn check_rest(&self, state: &State<D>) -> Result<(), Broken> {
        for (rule, broken) in D::REST_RULES {
            if let Some(why) = broken(&state.store) {
                return Err(Broken { rule, why });
            }
        }
        for name in self.duty.names() {
            let at = (&state.store, state.ticks);
            let turn = state.process.turn(&self.duty, name, at, None);
            let mut asked = turn.into_iter().flat_map(|turn| turn.asked);
            if let Some(write) = asked.find(changes::<D>) {
                let why = format!("the operator {write}");
                let rule = "at_rest_nothing_is_written";
                return Err(Broken { rule, why });
            }
        }
        Ok(())
    }

    fn fingerprint(&self, state: &State<D>) -> u64 {
        let mut hasher = DefaultHasher::new();
        state.left.hash(&mut hasher);
        state.hash(&mut hasher);
        hasher.finish()
    }

    fn fair_fingerprint(&self, state: &State<D>) -> u64 {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        hasher.finish()
    }
}

impl<D: Duty> State<D>
where
    D::Tools: 'static,
{
    /// The state after a step of the operator; `note` is what to say after which of its requests.
    fn turned(&self, name: &str, turn: Turn<D>, note: Option<(usize, String)>) -> Step<D> {
        let mut asked: Vec<String> = turn.asked.iter().map(ToString::to_string).collect();
        if let Some((place, note)) = note {
            asked[place] += &note;
        }
        let asked = match asked.is_empty() {
            true => format!("looks at {name}"),
            false => asked.join(", "),
        };
        let mut next = self.clone();
        next.store = turn.store;
        next.process = turn.process;
        next.late = turn.late.or(next.late);
        if turn.asked.iter().any(changes::<D>) {
            next.idle = 0;
        }
        let sent = Sent::InTime(turn.heard);
        let mut effects = turn.effects.iter();
        let checked = effects.try_for_each(|effect| next.note(&self.store, effect, sent));
        let what = format!("the operator {asked}");
        (what, checked.map(|()| next))
    }

    /// Notes what the rules have to know of a write, and checks it.
    fn note(&mut self, before: &Store, effect: &Effect, sent: Sent) -> Result<(), Broken> {
        let write = Write {
            effect,
            store: before,
            sent,
            is_at_work: self.process.is_at_work(D::of_kind(effect.asked.about())),
        };
        D::note(&mut self.notes, &write);
        let mut rules = D::RULES.iter();
        let broken = rules.find_map(|(rule, broken)| Some((*rule, broken(&write, &self.notes)?)));
        broken.map_or(Ok(()), |(rule, why)| Err(Broken { rule, why }))
    }

    /// Forgets what no watch can show any more: with faults left, watches may go back by two changes.
    fn forget(&mut self) {
        let back = if self.left.faults > 0 { 2 } else { 0 };
        for (resource, shown) in D::WATCHED.iter().zip(&self.process.shown) {
            self.store.forget(resource, shown.saturating_sub(back));
        }
        self.store.forget_unwatched(D::WATCHED);
    }

    fn hash(&self, hasher: &mut DefaultHasher) {
        self.store.digest(hasher);
        self.process.hash(&self.store, self.ticks, hasher);
        (&self.late, &self.notes).hash(hasher);
    }
}

/// Whether a request is one that none is like at rest.
fn changes<D: Duty>(asked: &Asked) -> bool {
    asked.writes() && !D::is_routine(asked)
}

fn ticked<D: Duty>(state: &State<D>) -> State<D> {
    let mut next = state.clone();
    next.ticks += 1;
    next.idle = next.idle.saturating_add(1);
    next.store.now = time(next.ticks);
    for (name, ticks) in std::mem::take(&mut next.process.waiting) {
        match ticks - 1 {
            0 => drop(next.process.due.insert(name)),
            left => drop(next.process.waiting.insert(name, left)),
        }
    }
    next
}
