//! What can happen around a Browser: to the operator, to its requests and its watches, to pods on nodes, and by people.

use std::hash::{DefaultHasher, Hash, Hasher};

use podloom_api::names;
use podloom_scripted::search::{Broken, Machine};
use podloom_scripted::store::{Asked, Effect, Store, Stored, written};
use serde_json::{Value, json};

use super::flaws::Flaw;
use super::rig::{Fault, Process, Turn, WATCHED, time};
use super::rules::{self, Carried, Sent};

/// How much of what has no end by itself can happen in one history.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Bounds {
    /// Faults of requests and watches, and crashes.
    pub(super) faults: u8,
    /// What people do, and what goes wrong on nodes.
    pub(super) acts: u8,
    /// Ticks of 31 seconds.
    pub(super) ticks: u8,
}

/// Sessions of these names, and an operator.
pub(super) struct Sessions {
    pub(super) names: &'static [&'static str],
    pub(super) bounds: Bounds,
    pub(super) flaw: Option<Flaw>,
}

#[derive(Clone)]
pub(super) struct State {
    store: Store,
    process: Process,
    /// A write that is on its way for long.
    late: Option<Asked>,
    left: Bounds,
    ticks: u8,
    /// Pods that were made, by their UID and the Browser's.
    made: Vec<(String, String)>,
    /// Those that came from a request that was on its way for long, when a pass had looked for the pod already, or the Browser was deleted
    /// or had another pod: what the operator knew was true. Garbage collection deletes those that it does not see in time.
    unforeseen: Vec<String>,
    /// Those whose containers still run though the API server has no pod any more.
    running: Vec<(String, String)>,
}

type Steps = Vec<(String, Result<State, Broken>)>;

/// A step of people or nodes: what it is, what of the bounds it takes, and what it changes.
type Act = (String, u8, Box<dyn Fn(&mut Store)>);

impl Machine for Sessions {
    type State = State;

    fn first(&self) -> State {
        let mut store = Store::new(time(0));
        store.ignored = self.flaw.and_then(Flaw::ignored);
        create_config(&mut store);
        for name in self.names {
            create_browser(&mut store, name);
        }
        State {
            process: Process::begin(&store),
            store,
            late: None,
            left: self.bounds,
            ticks: 0,
            made: Vec::new(),
            unforeseen: Vec::new(),
            running: Vec::new(),
        }
    }

    fn next(&self, state: &State) -> Steps {
        let mut steps = Steps::new();
        for name in self.names {
            self.operate(state, name, &mut steps);
        }
        for place in 0..WATCHED.len() {
            watch(state, place, &mut steps);
        }
        if state.left.faults > 0 {
            let mut next = state.clone();
            next.left.faults -= 1;
            next.process = Process::begin(&next.store);
            steps.push((
                "the operator is killed; another one begins".to_owned(),
                Ok(next),
            ));
        }
        steps.extend(self.arrive(state));
        for (what, takes, change) in self.names.iter().flat_map(|name| acts(state, name)) {
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
                next.forget();
            }
        }
        steps
    }

    fn fair(&self, state: &State) -> Option<(String, Result<State, Broken>)> {
        if let Some(arrived) = self.arrive(state) {
            return Some(arrived);
        }
        let mut calm = state.clone();
        calm.left.faults = 0;
        let mut steps = Steps::new();
        for place in 0..WATCHED.len() {
            watch(&calm, place, &mut steps);
        }
        for name in self.names {
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
        let acts = self.names.iter().flat_map(|name| acts(state, name));
        if let Some((what, _, change)) = acts.into_iter().find(|(_, takes, _)| *takes == 0) {
            let mut next = state.clone();
            change(&mut next.store);
            return Some((what, Ok(next)));
        }
        let waits = !state.process.waiting.is_empty();
        waits.then(|| ("31 seconds pass".to_owned(), Ok(ticked(state))))
    }

    /// A state in which the operator waits for changes alone.
    fn check_rest(&self, state: &State) -> Result<(), Broken> {
        rules::check_rest(&state.store)?;
        for name in self.names {
            let at = (&state.store, state.ticks);
            let turn = state.process.turn(name, at, None, self.flaw);
            let mut asked = turn.into_iter().flat_map(|turn| turn.asked);
            if let Some(write) = asked.find(Asked::writes) {
                let why = format!("the operator {write}");
                let rule = "at_rest_nothing_is_written";
                return Err(Broken { rule, why });
            }
        }
        Ok(())
    }

    fn fingerprint(&self, state: &State) -> u64 {
        let mut hasher = DefaultHasher::new();
        state.left.hash(&mut hasher);
        state.hash(&mut hasher);
        hasher.finish()
    }

    fn fair_fingerprint(&self, state: &State) -> u64 {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        hasher.finish()
    }
}

impl Sessions {
    /// One step of the operator, as it goes well, and with each fault that it can meet.
    fn operate(&self, state: &State, name: &'static str, steps: &mut Steps) {
        let turn = |fault| {
            let at = (&state.store, state.ticks);
            state.process.turn(name, at, fault, self.flaw)
        };
        let Some(done) = turn(None) else {
            return;
        };
        let faults: Vec<Fault> = match done.asked.iter().find(|it| it.writes()) {
            Some(write) => Fault::of(write),
            None if done.asked.is_empty() => Vec::new(),
            None => vec![Fault::Unread],
        };
        steps.push(state.turned(name, done, None));
        for fault in faults.into_iter().filter(|_| state.left.faults > 0) {
            if fault == Fault::Late && state.late.is_some() {
                continue;
            }
            let Some(done) = turn(Some(fault)) else {
                continue;
            };
            let (what, next) = state.turned(name, done, Some(fault));
            let next = next.map(|mut next| {
                next.left.faults -= 1;
                next
            });
            steps.push((what, next));
        }
    }

    /// The arrival of a write that was on its way for long.
    fn arrive(&self, state: &State) -> Option<(String, Result<State, Broken>)> {
        let late = state.late.as_ref()?;
        let mut next = state.clone();
        next.late = None;
        let (_, effect) = next.store.answer(late);
        let what = format!("what was on its way arrives: {late}");
        let checked = effect.map_or(Ok(()), |effect| {
            next.note(&state.store, &effect, Sent::Late)
        });
        Some((what, checked.map(|()| next)))
    }
}

impl State {
    /// The state after a step of the operator.
    fn turned(
        &self,
        name: &str,
        turn: Turn,
        fault: Option<Fault>,
    ) -> (String, Result<Self, Broken>) {
        let asked: Vec<String> = turn.asked.iter().map(ToString::to_string).collect();
        let asked = match asked.is_empty() {
            true => format!("looks at Browser {name}"),
            false => asked.join(", "),
        };
        let fault = fault.map(|it| it.to_string()).unwrap_or_default();
        let mut next = self.clone();
        next.store = turn.store;
        next.process = turn.process;
        next.late = turn.late.or(next.late);
        let sent = Sent::InTime(turn.heard);
        let mut effects = turn.effects.iter();
        let checked = effects.try_for_each(|effect| next.note(&self.store, effect, sent));
        (
            format!("the operator {asked}{fault}"),
            checked.map(|()| next),
        )
    }

    /// Checks what a write has changed, and notes what the rules have to know of it.
    fn note(&mut self, before: &Store, effect: &Effect, sent: Sent) -> Result<(), Broken> {
        if effect.asked.resource == "pods"
            && let (None, Some(pod)) = (&effect.before, &effect.after)
        {
            self.made.push(with_owner(pod));
            let name = pod.meta("name");
            let is_settled = before.get(WATCHED[0], name).is_none_or(|browser| {
                browser.is_deleted() || browser.value["status"]["podUID"].is_string()
            });
            if sent == Sent::Late && (is_settled || self.process.is_at_work(name)) {
                self.unforeseen.push(pod.uid().to_owned());
            }
        }
        rules::check(&Carried {
            effect,
            store: before,
            sent,
            running: &self.running,
            made: &self.made,
            unforeseen: &self.unforeseen,
        })?;
        if effect.asked.resource == "pods"
            && let (Some(pod), None) = (&effect.before, &effect.after)
            && matches!(pod.phase(), "Running" | "Unknown")
        {
            self.running.push(with_owner(pod));
        }
        Ok(())
    }

    /// Forgets what no watch can show any more: with faults left, watches may go back by two changes.
    fn forget(&mut self) {
        let back = if self.left.faults > 0 { 2 } else { 0 };
        for (place, resource) in WATCHED.iter().enumerate() {
            let shown = self.process.shown[place].saturating_sub(back);
            self.store.forget(resource, shown);
        }
    }

    fn hash(&self, hasher: &mut DefaultHasher) {
        self.store.digest(hasher);
        self.process.hash(&self.store, self.ticks, hasher);
        (&self.late, &self.made, &self.unforeseen, &self.running).hash(hasher);
    }
}

fn with_owner(pod: &Stored) -> (String, String) {
    (pod.uid().to_owned(), pod.controller().to_owned())
}

/// What a watch can show next: the next change; with a fault, the newest list, or an older one.
fn watch(state: &State, place: usize, steps: &mut Steps) {
    let (resource, shown) = (WATCHED[place], state.process.shown[place]);
    let newest = state.store.changes(resource);
    let mut show = |what: String, to: usize, takes: u8| {
        let mut next = state.clone();
        next.left.faults -= takes;
        next.process.show(&next.store, place, to, takes > 0);
        steps.push((what, Ok(next)));
    };
    if shown < newest {
        show(
            format!("the watch of {resource} shows a change"),
            shown + 1,
            0,
        );
    }
    if state.left.faults > 0 && shown + 1 < newest {
        show(
            format!("the watch of {resource} breaks, and shows a new list"),
            newest,
            1,
        );
    }
    if state.left.faults > 0 && shown > 0 && state.store.remembers(resource, shown - 1) {
        show(
            format!("the watch of {resource} breaks, and shows an older list"),
            shown - 1,
            1,
        );
    }
}

fn ticked(state: &State) -> State {
    let mut next = state.clone();
    next.ticks += 1;
    next.store.now = time(next.ticks);
    let waiting = std::mem::take(&mut next.process.waiting);
    next.process.due.extend(waiting);
    next
}

/// What people, nodes and garbage collection can do next about a name. What takes nothing of the bounds happens sooner or later.
fn acts(state: &State, name: &'static str) -> Vec<Act> {
    let mut acts: Vec<Act> = Vec::new();
    let mut act = |what: &str, takes, change: fn(&mut Store, &str)| {
        let what = what.replace("{}", name);
        acts.push((what, takes, Box::new(move |store| change(store, name))));
    };
    let browser = state.store.get(WATCHED[0], name);
    match browser {
        None => act("somebody creates Browser {} again", 1, create_browser),
        Some(browser) => {
            if !browser.is_deleted() {
                act("somebody deletes Browser {}", 1, delete_browser);
            }
            if browser.value["metadata"]["labels"].is_object() {
                act("somebody removes the labels of Browser {}", 1, unlabel);
            }
        }
    }
    match state.store.get(WATCHED[1], "config") {
        None => act("somebody creates the BrowserConfig again", 1, |store, _| {
            create_config(store);
        }),
        Some(_) => {
            act("somebody deletes the BrowserConfig", 1, |store, _| {
                store.remove(WATCHED[1], "config");
            });
            act("somebody edits the BrowserConfig", 1, edit_config);
        }
    }
    let Some(pod) = state.store.get("pods", name) else {
        act("somebody creates a pod {}", 1, create_pod);
        return acts;
    };
    let is_owned = browser.is_some_and(|browser| browser.uid() == pod.controller());
    if pod.is_deleted() {
        if pod.phase() != "Unknown" {
            act("pod {} is gone", 0, |store, name| {
                store.remove("pods", name)
            });
        }
    } else {
        if !is_owned && !pod.controller().is_empty() {
            act("garbage collection deletes pod {}", 0, delete_pod);
        }
        act("somebody deletes pod {}", 1, delete_pod);
        act("pod {} is evicted", 1, evict);
    }
    of_node(pod, &mut act);
    acts
}

/// What can happen to a pod on its node.
fn of_node(pod: &Stored, act: &mut impl FnMut(&str, u8, fn(&mut Store, &str))) {
    let is_scheduled = pod.value["spec"]["nodeName"].is_string();
    match pod.phase() {
        "Pending" if pod.is_deleted() => {}
        "Pending" if !is_scheduled => act("pod {} is scheduled", 0, |store, name| {
            store.change("pods", name, |pod| pod["spec"]["nodeName"] = json!("node"));
        }),
        "Pending" => {
            act("pod {} runs", 0, run);
            act("pod {} cannot start", 1, cannot_start);
        }
        "Running" => {
            act("pod {} finishes", 1, |store, name| {
                end(store, name, "Succeeded", 0);
            });
            act("pod {} fails", 1, |store, name| {
                end(store, name, "Failed", 1);
            });
            act("the node of pod {} is lost", 1, |store, name| {
                set_phase(store, name, "Unknown");
            });
        }
        "Unknown" => act("the node of pod {} is back", 1, |store, name| {
            set_phase(store, name, "Running");
        }),
        _ => {}
    }
}

fn delete_browser(store: &mut Store, name: &str) {
    store.delete(WATCHED[0], name, &Value::Null);
}

fn unlabel(store: &mut Store, name: &str) {
    store.change(WATCHED[0], name, |it| {
        it["metadata"]["labels"] = Value::Null;
    });
}

fn edit_config(store: &mut Store, _: &str) {
    store.change(WATCHED[1], "config", |it| {
        it["spec"]["browsers"]["chrome"]["1"]["image"] = json!("example/other");
    });
}

fn create_pod(store: &mut Store, name: &str) {
    let pod = json!({ "metadata": { "name": name }, "spec": { "containers": [] } });
    store.create("pods", pod);
}

fn delete_pod(store: &mut Store, name: &str) {
    store.delete("pods", name, &Value::Null);
}

fn evict(store: &mut Store, name: &str) {
    let target = json!([{
        "type": names::condition::DISRUPTION_TARGET, "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicted",
    }]);
    store.change("pods", name, |pod| pod["status"]["conditions"] = target);
    delete_pod(store, name);
}

fn cannot_start(store: &mut Store, name: &str) {
    let waits = json!([{
        "name": "browser", "image": "example/chrome", "restartCount": 0, "state": { "waiting": { "reason": "ErrImagePull" } },
    }]);
    store.change("pods", name, |pod| {
        pod["status"]["containerStatuses"] = waits;
    });
}

fn set_phase(store: &mut Store, name: &str, phase: &str) {
    store.change("pods", name, |pod| pod["status"]["phase"] = json!(phase));
}

fn run(store: &mut Store, name: &str) {
    let now = written(store.now);
    store.change("pods", name, |pod| {
        pod["status"] = json!({
            "phase": "Running", "podIP": "10.0.0.1", "startTime": now,
            "containerStatuses": [{ "name": "browser", "image": "example/chrome", "restartCount": 0, "state": { "running": {} } }],
        });
    });
}

fn end(store: &mut Store, name: &str, phase: &str, code: i32) {
    store.change("pods", name, |pod| {
        pod["status"]["phase"] = json!(phase);
        pod["status"]["containerStatuses"][0]["state"] =
            json!({ "terminated": { "exitCode": code } });
    });
}

fn create_browser(store: &mut Store, name: &str) {
    store.create(
        WATCHED[0],
        json!({
            "apiVersion": "selenosis.io/v1", "kind": "Browser", "metadata": { "name": name },
            "spec": { "browserName": "chrome", "browserVersion": "1" },
        }),
    );
}

fn create_config(store: &mut Store) {
    store.create(
        WATCHED[1],
        json!({
            "apiVersion": "selenosis.io/v1", "kind": "BrowserConfig", "metadata": { "name": "config" },
            "spec": { "browsers": { "chrome": { "1": { "image": "example/chrome" } } } },
        }),
    );
}
