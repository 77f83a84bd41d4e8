//! An Infrastructure Manager (IM) whose infrastructures are in the store.

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use podloom_engine::clock::Clock;
use podloom_engine::outbound::Response;
use podloom_model::process::{Asker, Bench, Fault};
use podloom_model::store::{Answer as Answered, Asked, Effect, Store, Stored, written};
use serde_json::{Map, Value, json};

use super::SETTLE;
use crate::fixtures::KUBECONFIG;
use crate::im::{Answer, Call, Failure, InfrastructureId, InfrastructureManager, Target, read};
use crate::template::machines;

pub(super) const INFRASTRUCTURES: &str = "infrastructures";

/// Sends calls to the store.
pub(super) struct Manager {
    asker: Asker,
    clock: Clock,
}

impl Manager {
    pub(super) fn new(bench: &Bench) -> Self {
        Self {
            asker: bench.asker.clone(),
            clock: bench.ctx.clock.clone(),
        }
    }
}

impl InfrastructureManager for Manager {
    fn call<'a>(
        &'a self,
        target: &'a Target,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        let answer = self.asker.ask(&request(call, self.clock.now()));
        let read = |(code, body): Answered| {
            let response = Response {
                status: StatusCode::from_u16(code).unwrap(),
                headers: HeaderMap::new(),
                body: body.to_string().into(),
            };
            read(target, call, &response)
        };
        let lost = Failure::unexpected();
        future::ready(answer.map_or(Err(lost), read)).boxed()
    }
}

/// The request for a call, and when it was sent.
fn request(call: &Call, now: Timestamp) -> Asked {
    let (method, path) = call.route();
    let mut parts = path.split(['/', '?']);
    let id = parts.find(|it| InfrastructureId::parse(it).is_some());
    let body = call
        .body()
        .map(|(_, text)| serde_json::from_str(&text).unwrap());
    let template: Value = body.unwrap_or_default();
    Asked {
        method,
        resource: INFRASTRUCTURES.to_owned(),
        name: id.map(str::to_owned),
        is_list: id.is_none(),
        label: None,
        is_status: false,
        is_apply: false,
        body: json!({ "call": call.operation(), "template": template, "sent": now }),
    }
}

/// The faults that a call can meet. What changes machines is not late: it may come after the next change, and nobody can do anything
/// about that.
pub(super) fn faults(asked: &Asked) -> Vec<Fault> {
    let mut faults = match asked.writes() {
        true => vec![
            Fault::Lost,
            Fault::Unanswered,
            Fault::Late,
            Fault::Refused(400),
        ],
        false => vec![Fault::Unread],
    };
    faults.retain(|it| *it != Fault::Late || !is_change(asked));
    faults
}

/// Whether a request changes machines.
pub(super) fn is_change(asked: &Asked) -> bool {
    ["update", "reconfigure", "start"].contains(&call_of(asked))
}

/// What is called.
pub(super) fn call_of(asked: &Asked) -> &str {
    asked.body["call"].as_str().unwrap_or_default()
}

// What IM has, and what it does when it is asked.

/// Creates an infrastructure. One whose request was on its way for longer than a request may be is late.
pub(super) fn create(store: &mut Store, template: &Value, is_late: bool) -> String {
    let number = store.names(INFRASTRUCTURES);
    let id = format!("00000000-0000-4000-8000-{number:012}");
    store.create(
        INFRASTRUCTURES,
        json!({ "metadata": { "name": id }, "template": template, "state": "pending", "late": is_late }),
    );
    id
}

/// Puts an infrastructure into a state, in which it lacks so many machines.
pub(super) fn set(store: &mut Store, id: &str, state: &str, lacks: usize) {
    store.change(INFRASTRUCTURES, id, |it| {
        it["state"] = json!(state);
        it["lacks"] = json!(lacks);
    });
}

/// The name that an infrastructure got.
pub(super) fn name(infrastructure: &Stored) -> &str {
    let metadata = &infrastructure.value["template"]["metadata"];
    metadata["infra_name"].as_str().unwrap_or_default()
}

/// The state of an infrastructure.
pub(super) fn state(infrastructure: &Stored) -> &str {
    infrastructure.value["state"].as_str().unwrap_or_default()
}

/// How many machines an infrastructure lacks.
pub(super) fn lacks(infrastructure: &Stored) -> usize {
    let lacks = infrastructure.value["lacks"].as_u64().unwrap_or_default();
    usize::try_from(lacks).unwrap_or(usize::MAX)
}

/// How many machines an infrastructure has.
pub(super) fn size(infrastructure: &Stored) -> usize {
    machines(&infrastructure.value["template"]).saturating_sub(lacks(infrastructure))
}

/// Whether an infrastructure can still be there: IM may write the record of one that it has deleted back, but soon.
pub(super) fn is_there(infrastructure: &Stored, now: Timestamp) -> bool {
    state(infrastructure) != "gone" || infrastructure.value["went"] == written(now)
}

/// Answers a request, and returns what it changed.
pub(super) fn answer(store: &mut Store, asked: &Asked) -> (Answered, Option<Effect>) {
    let mut id = asked.about().to_owned();
    let before = store.get(INFRASTRUCTURES, &id).cloned();
    let known = before.as_deref().filter(|it| state(it) != "gone");
    let answered = match (call_of(asked), known) {
        ("list", _) => {
            let all = store.all(INFRASTRUCTURES);
            let known = all.iter().filter(|(_, it)| state(it) != "gone");
            let uris: Value = known.map(|(id, _)| json!({ "uri": id })).collect();
            (200, json!({ "uri-list": uris }))
        }
        ("create", _) => {
            let sent: Timestamp = asked.body["sent"].as_str().unwrap().parse().unwrap();
            // The operator's clock is a second ahead.
            let way = store.now.duration_since(sent).as_secs() + 1;
            let is_late = way >= SETTLE.as_secs().cast_signed();
            id = create(store, &asked.body["template"], is_late);
            (200, json!({ "uri": id }))
        }
        (_, None) => missing(),
        (_, Some(it)) if asked.writes() => change(store, asked, it),
        // Whoever reads its state meanwhile brings the record back, without machines.
        ("state", Some(it)) if state(it) == "deleting" => {
            set(store, &id, "unknown", usize::MAX);
            (200, json!({ "state": { "state": "unknown" } }))
        }
        (call, Some(it)) => (200, read_of(call, it)),
    };
    let after = store.get(INFRASTRUCTURES, &id).cloned();
    let is_same = before.as_ref().map(|it| &it.value) == after.as_ref().map(|it| &it.value);
    let effect = Effect {
        asked: asked.clone(),
        before,
        after,
    };
    (answered, (!is_same).then_some(effect))
}

fn missing() -> Answered {
    let message = "Error: Invalid infrastructure ID or access not granted.";
    (404, json!({ "code": 404, "message": message }))
}

/// Changes an infrastructure.
fn change(store: &mut Store, asked: &Asked, it: &Stored) -> Answered {
    let (id, call) = (asked.about(), call_of(asked));
    match (call, state(it)) {
        // Machines are being added.
        ("delete", "pending") => return (409, Value::Null),
        ("delete", _) => set(store, id, "deleting", 0),
        (_, "deleting") => return missing(),
        ("update", _) => {
            let mut template = it.value["template"].clone();
            json_patch::merge(&mut template, &asked.body["template"]);
            store.change(INFRASTRUCTURES, id, |it| it["template"] = template);
            set(store, id, "running", 0);
        }
        _ => set(store, id, "running", lacks(it)),
    }
    (200, Value::Null)
}

/// Returns what is asked about an infrastructure.
fn read_of(call: &str, it: &Stored) -> Value {
    match call {
        "state" => {
            let machines = (0..size(it)).map(|number| (number.to_string(), json!(state(it))));
            let machines: Map<String, Value> = machines.collect();
            json!({ "state": { "state": state(it), "vm_states": machines } })
        }
        "template" => json!({ "tosca": it.value["template"].to_string() }),
        "outputs" => json!({ "outputs": { "kubeconfig": KUBECONFIG } }),
        _ => json!({ "contmsg": "no machine could be reached" }),
    }
}
