//! A model of an API server whose whole state is a value: a search copies it, goes on from each copy, and asks what a watch has shown.
//!
//! It follows Kubernetes in what plans depend on: UIDs, resourceVersions and generations, preconditions, merge patches, finalizers, grace
//! periods of pods. What admission and validation would refuse, the search refuses by its own steps.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use http::Method;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use podloom_scripted::status;

/// The default grace period of pods, in seconds.
const GRACE: u64 = 30;

/// An object in one of its versions.
pub struct Stored {
    /// The object.
    pub value: Value,
    content: u64,
    typed: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Stored {
    fn of(value: Value) -> Arc<Self> {
        let mut hasher = DefaultHasher::new();
        value.to_string().hash(&mut hasher);
        Arc::new(Self {
            content: hasher.finish(),
            value,
            typed: OnceLock::new(),
        })
    }

    /// Returns the object as a type, which is read once. All who ask for one version ask for the same type.
    pub fn typed<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Arc<T> {
        let read = || -> Arc<dyn Any + Send + Sync> {
            Arc::new(serde_json::from_value::<T>(self.value.clone()).unwrap())
        };
        let typed = Arc::clone(self.typed.get_or_init(read));
        typed.downcast().unwrap()
    }

    /// Returns a text of its metadata; empty if there is none.
    pub fn meta(&self, key: &str) -> &str {
        self.value["metadata"][key].as_str().unwrap_or_default()
    }

    /// Returns its UID.
    pub fn uid(&self) -> &str {
        self.meta("uid")
    }

    /// Returns the UID of its controller; empty if it has none.
    pub fn controller(&self) -> &str {
        let owners = self.value["metadata"]["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten();
        let controller = owners.find(|owner| owner["controller"] == json!(true));
        controller.map_or("", |owner| owner["uid"].as_str().unwrap_or_default())
    }

    /// Returns whether it is being deleted.
    pub fn is_deleted(&self) -> bool {
        !self.meta("deletionTimestamp").is_empty()
    }

    /// Returns its finalizers.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        let all = self.value["metadata"]["finalizers"].as_array();
        all.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns whether it has a label, written as `key=value`. Each object has none.
    fn has_label(&self, label: Option<&str>) -> bool {
        label.is_none_or(|label| {
            let (key, value) = label.split_once('=').unwrap_or((label, ""));
            self.value["metadata"]["labels"][key] == json!(value)
        })
    }

    /// Returns the phase in its status; empty if it has none.
    pub fn phase(&self) -> &str {
        self.value["status"]["phase"].as_str().unwrap_or_default()
    }
}

/// All objects of a resource at one time.
pub type Snapshot = Arc<BTreeMap<String, Arc<Stored>>>;

/// The states of a resource, one after each change.
#[derive(Clone, Default)]
struct Timeline {
    states: Vec<Snapshot>,
    /// How many states were forgotten.
    forgotten: usize,
}

/// How often the objects of a name were made and changed.
#[derive(Clone, Copy, Default, Hash)]
struct Count {
    made: u64,
    changed: u64,
}

/// What an API server has.
#[derive(Clone)]
pub struct Store {
    /// Its time.
    pub now: Timestamp,
    /// For tests of the search: preconditions that are not looked at.
    pub ignored: Option<&'static str>,
    timelines: BTreeMap<String, Timeline>,
    counts: BTreeMap<(String, String), Count>,
}

/// A request, as far as the model knows them.
#[derive(Clone, Hash)]
pub struct Asked {
    /// The HTTP method.
    pub method: Method,
    /// The resource, such as `pods`.
    pub resource: String,
    /// The name; none for lists of all and creations.
    pub name: Option<String>,
    /// Whether it reads a list, perhaps of one name.
    pub is_list: bool,
    /// The label that a list selects by, as `key=value`; none for all objects.
    pub label: Option<String>,
    /// Whether it is about the status.
    pub is_status: bool,
    /// Whether it is a server-side apply.
    pub is_apply: bool,
    /// The JSON that was sent.
    pub body: Value,
}

/// What a request changed.
pub struct Effect {
    /// The request.
    pub asked: Asked,
    /// The object before, if there was one.
    pub before: Option<Arc<Stored>>,
    /// The object after, if there is one.
    pub after: Option<Arc<Stored>>,
}

/// An HTTP status and a body.
pub type Answer = (u16, Value);

impl Asked {
    /// Reads a request.
    pub fn new(parts: &Parts, body: Value) -> Self {
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let groups = if path.starts_with("/api/") { 3 } else { 4 };
        let segments: Vec<&str> = path.split('/').skip(groups).collect();
        let segments = match segments.as_slice() {
            ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
            all => all,
        };
        let selected = query.split('&').find_map(|it| {
            let by_name = it.strip_prefix("fieldSelector=metadata.name")?;
            Some(by_name.trim_start_matches("%3D").trim_start_matches('='))
        });
        let mut parameters = query.split('&');
        let label = parameters.find_map(|it| it.strip_prefix("labelSelector="));
        let kind = parts.headers.get(CONTENT_TYPE);
        Self {
            method: parts.method.clone(),
            resource: segments.first().copied().unwrap_or_default().to_owned(),
            name: segments.get(1).copied().or(selected).map(str::to_owned),
            is_list: segments.len() < 2,
            label: label.map(|it| it.replace("%3D", "=")),
            is_status: segments.get(2) == Some(&"status"),
            is_apply: kind.is_some_and(|it| it == "application/apply-patch+yaml"),
            body,
        }
    }

    /// Returns whether it writes.
    pub fn writes(&self) -> bool {
        self.method != Method::GET
    }

    /// Returns the name of the object that it is about.
    pub fn about(&self) -> &str {
        let named = || self.body["metadata"]["name"].as_str();
        self.name.as_deref().or_else(named).unwrap_or_default()
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = (self.resource.as_str(), self.about());
        // To others than the API server.
        if let Some(call) = self.body["call"].as_str() {
            return match about.1 {
                "" => write!(to, "calls {call}"),
                name => write!(to, "calls {call} of {name}"),
            };
        }
        match (self.method.as_str(), self.is_status) {
            ("GET", _) if about.0.is_empty() => to.write_str("reads the kinds"),
            ("GET", _) => {
                let label = self.label.as_deref().unwrap_or_default();
                write!(to, "reads {} {}{label}", about.0, about.1)
            }
            ("POST", _) => write!(to, "creates {} {}", about.0, about.1),
            ("DELETE", _) => {
                let grace = self.body["gracePeriodSeconds"].as_u64();
                let how = if grace == Some(0) { " with force" } else { "" };
                write!(to, "deletes {} {}{how}", about.0, about.1)
            }
            (_, true) => {
                let status = &self.body["status"];
                let phases = ["/phase", "/state", "/deletion/phase"].map(|it| status.pointer(it));
                let phase = phases
                    .into_iter()
                    .flatten()
                    .find_map(Value::as_str)
                    .unwrap_or("…");
                write!(to, "writes the status of {} {}: {phase}", about.0, about.1)
            }
            _ if self.is_apply => write!(to, "applies {} {}", about.0, about.1),
            _ => {
                let finalizers = &self.body["metadata"]["finalizers"];
                write!(
                    to,
                    "patches {} {}: finalizers {finalizers}",
                    about.0, about.1
                )
            }
        }
    }
}

impl Store {
    /// Returns one that has nothing.
    pub fn new(now: Timestamp) -> Self {
        Self {
            now,
            ignored: None,
            timelines: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Returns an object.
    pub fn get(&self, resource: &str, name: &str) -> Option<&Arc<Stored>> {
        let timeline = self.timelines.get(resource)?;
        timeline.states.last()?.get(name)
    }

    /// Returns how many changes of a resource there were.
    pub fn changes(&self, resource: &str) -> usize {
        let timeline = self.timelines.get(resource);
        timeline.map_or(0, |it| it.forgotten + it.states.len())
    }

    /// Returns the objects of a resource after that many changes, as a watch has shown them.
    pub fn after(&self, resource: &str, changes: usize) -> Snapshot {
        let timeline = self.timelines.get(resource);
        let shown = timeline.and_then(|it| it.states.get(changes.checked_sub(it.forgotten + 1)?));
        shown.cloned().unwrap_or_default()
    }

    /// Returns how often objects of a name were made.
    pub fn made(&self, resource: &str, name: &str) -> u64 {
        let of = (resource.to_owned(), name.to_owned());
        self.counts.get(&of).map_or(0, |it| it.made)
    }

    /// Returns all objects of a resource.
    pub fn all(&self, resource: &str) -> Snapshot {
        self.after(resource, self.changes(resource))
    }

    /// Returns whether it is known what a watch showed after that many changes.
    pub fn remembers(&self, resource: &str, changes: usize) -> bool {
        let timeline = self.timelines.get(resource);
        timeline.is_some_and(|it| changes > it.forgotten || it.forgotten == 0)
    }

    /// Forgets what no watch will show: all before that many changes.
    pub fn forget(&mut self, resource: &str, changes: usize) {
        if let Some(timeline) = self.timelines.get_mut(resource) {
            let old = changes.saturating_sub(timeline.forgotten + 1);
            timeline.states.drain(..old);
            timeline.forgotten += old;
        }
    }

    /// Forgets what was, of all resources but these.
    pub fn forget_unwatched(&mut self, watched: &[&str]) {
        let others = self.timelines.iter_mut();
        for (_, timeline) in others.filter(|(it, _)| !watched.contains(&it.as_str())) {
            let old = timeline.states.len().saturating_sub(1);
            timeline.states.drain(..old);
            timeline.forgotten += old;
        }
    }

    /// Returns how many names objects of a resource ever had.
    pub fn names(&self, resource: &str) -> usize {
        self.counts.keys().filter(|(it, _)| it == resource).count()
    }

    /// Creates an object as somebody else than the operator.
    pub fn create(&mut self, resource: &str, value: Value) -> Arc<Stored> {
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        let (resource, name) = (resource.to_owned(), name.to_owned());
        let count = self
            .counts
            .entry((resource.clone(), name.clone()))
            .or_default();
        count.made += 1;
        let uid = format!("{resource}-{name}{}", count.made);
        let mut value = value;
        value["metadata"]["uid"] = json!(uid);
        value["metadata"]["namespace"] = json!("team");
        value["metadata"]["creationTimestamp"] = json!(written(self.now));
        value["metadata"]["generation"] = json!(1);
        if resource == "pods" {
            value["status"] = json!({ "phase": "Pending" });
        }
        self.put(&resource, &name, value)
    }

    /// Changes an object as somebody else than the operator, such as a kubelet.
    pub fn change(&mut self, resource: &str, name: &str, change: impl FnOnce(&mut Value)) {
        if let Some(stored) = self.get(resource, name) {
            let mut value = stored.value.clone();
            change(&mut value);
            self.replace(resource, name, value);
        }
    }

    /// Removes an object for good. A pod is marked before.
    pub fn remove(&mut self, resource: &str, name: &str) {
        if resource == "pods" {
            let at = written(self.now);
            self.change(resource, name, |pod| {
                let metadata = &mut pod["metadata"];
                if metadata["deletionTimestamp"].is_null() {
                    metadata["deletionTimestamp"] = json!(at);
                }
                metadata["deletionGracePeriodSeconds"] = json!(0);
            });
        }
        self.push(resource, |objects| {
            objects.remove(name);
        });
    }

    /// Answers a request, and returns what it changed.
    pub fn answer(&mut self, asked: &Asked) -> (Answer, Option<Effect>) {
        let name = asked.about();
        let before = self.get(&asked.resource, name).cloned();
        let answer = match asked.method.as_str() {
            "GET" => return (self.read(asked), None),
            "POST" if before.is_some() => refused(409, "AlreadyExists", "it exists"),
            "POST" => {
                let created = self.create(&asked.resource, asked.body.clone());
                (201, created.value.clone())
            }
            method => match &before {
                None if asked.is_apply && asked.body["metadata"]["uid"].is_null() => {
                    let created = self.create(&asked.resource, asked.body.clone());
                    (201, created.value.clone())
                }
                None if asked.is_apply => refused(409, "Conflict", "there is none of that UID"),
                None => missing(asked),
                Some(stored) => match self.conflict(asked, stored) {
                    Some("uid") if asked.is_apply => anothers(),
                    Some(why) => refused(409, "Conflict", why),
                    None if method == "DELETE" => {
                        self.delete(&asked.resource, name, &asked.body);
                        let left = self.get(&asked.resource, name);
                        (200, left.map_or_else(|| json!({}), |it| it.value.clone()))
                    }
                    None => self.patch(asked, stored),
                },
            },
        };
        let after = self.get(&asked.resource, name).cloned();
        let is_same = before.as_ref().map(|it| it.content) == after.as_ref().map(|it| it.content);
        let effect = Effect {
            asked: asked.clone(),
            before,
            after,
        };
        (answer, (!is_same).then_some(effect))
    }

    /// Deletes an object, with these options.
    pub fn delete(&mut self, resource: &str, name: &str, options: &Value) {
        let Some(stored) = self.get(resource, name).cloned() else {
            return;
        };
        let is_unstarted = stored.value["spec"]["nodeName"].is_null();
        let grace = match options["gracePeriodSeconds"].as_u64() {
            _ if resource != "pods" => 0,
            _ if is_unstarted || matches!(stored.phase(), "Succeeded" | "Failed") => 0,
            asked => asked.unwrap_or(GRACE),
        };
        let left = stored.value["metadata"]["deletionGracePeriodSeconds"].as_u64();
        if grace == 0 && stored.finalizers().next().is_none() {
            return self.remove(resource, name);
        }
        if left.is_some_and(|left| left <= grace) {
            return;
        }
        let at = written(self.now + SignedDuration::from_secs(grace.cast_signed()));
        self.change(resource, name, |value| {
            if left.is_none() {
                let generation = value["metadata"]["generation"].as_u64();
                value["metadata"]["generation"] = json!(generation.unwrap_or(1) + 1);
            }
            value["metadata"]["deletionTimestamp"] = json!(at);
            value["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        });
    }

    /// Hashes what is stored, and of what was stored what a watch may still show.
    pub fn digest(&self, hasher: &mut impl Hasher) {
        self.now.hash(hasher);
        self.counts.hash(hasher);
        for (resource, timeline) in &self.timelines {
            (resource, timeline.states.len()).hash(hasher);
            for objects in &timeline.states {
                for (name, stored) in &**objects {
                    (name, stored.content).hash(hasher);
                }
                0xff_u8.hash(hasher);
            }
        }
    }

    fn read(&self, asked: &Asked) -> Answer {
        let found = self.get(&asked.resource, asked.about());
        if !asked.is_list {
            return found.map_or_else(|| missing(asked), |it| (200, it.value.clone()));
        }
        let all = self.all(&asked.resource);
        let items: Vec<&Value> = match &asked.name {
            Some(_) => found.into_iter().map(|it| &it.value).collect(),
            None => {
                let selected = all
                    .values()
                    .filter(|it| it.has_label(asked.label.as_deref()));
                selected.map(|it| &it.value).collect()
            }
        };
        let list = json!({ "metadata": { "resourceVersion": "1" }, "items": items });
        (200, list)
    }

    /// Which precondition does not hold.
    fn conflict(&self, asked: &Asked, stored: &Stored) -> Option<&'static str> {
        let given = match asked.method.as_str() {
            "DELETE" => &asked.body["preconditions"],
            _ => &asked.body["metadata"],
        };
        let differs = |key: &'static str| {
            let given = given[key].as_str();
            self.ignored != Some(key) && given.is_some_and(|given| given != stored.meta(key))
        };
        ["uid", "resourceVersion"]
            .into_iter()
            .find(|key| differs(key))
    }

    fn patch(&mut self, asked: &Asked, stored: &Stored) -> Answer {
        let mut patch = asked.body.clone();
        if let Some(metadata) = patch["metadata"].as_object_mut() {
            metadata.remove("uid");
            metadata.remove("resourceVersion");
        }
        if let Some(patch) = patch.as_object_mut() {
            let other = if asked.is_status {
                "metadata"
            } else {
                "status"
            };
            patch.remove(other);
        }
        let mut value = stored.value.clone();
        json_patch::merge(&mut value, &patch);
        let after = Stored::of(value);
        let had: Vec<&str> = stored.finalizers().collect();
        if stored.is_deleted() && after.finalizers().any(|it| !had.contains(&it)) {
            return refused(
                422,
                "Invalid",
                "no new finalizers while it is being deleted",
            );
        }
        (
            200,
            self.replace(&asked.resource, asked.about(), after.value.clone()),
        )
    }

    /// Stores an object anew, if it differs, and returns it. One that is being deleted goes with its last finalizer.
    fn replace(&mut self, resource: &str, name: &str, mut value: Value) -> Value {
        let before = self.get(resource, name).map(|it| it.value.clone());
        let before = before.unwrap_or_default();
        if before == value {
            return value;
        }
        if before["spec"] != value["spec"] {
            let generation = before["metadata"]["generation"].as_u64().unwrap_or(1);
            value["metadata"]["generation"] = json!(generation + 1);
        }
        let stored = self.put(resource, name, value);
        let grace = stored.value["metadata"]["deletionGracePeriodSeconds"].as_u64();
        let holds = stored.finalizers().next().is_some() || grace.unwrap_or_default() > 0;
        if stored.is_deleted() && !holds && !before["metadata"]["finalizers"].is_null() {
            self.remove(resource, name);
        }
        stored.value.clone()
    }

    fn put(&mut self, resource: &str, name: &str, mut value: Value) -> Arc<Stored> {
        let count = self
            .counts
            .entry((resource.to_owned(), name.to_owned()))
            .or_default();
        count.changed += 1;
        value["metadata"]["resourceVersion"] = json!(count.changed.to_string());
        let stored = Stored::of(value);
        self.push(resource, |objects| {
            objects.insert(name.to_owned(), Arc::clone(&stored));
        });
        stored
    }

    fn push(&mut self, resource: &str, change: impl FnOnce(&mut BTreeMap<String, Arc<Stored>>)) {
        let timeline = self.timelines.entry(resource.to_owned()).or_default();
        let mut objects = timeline
            .states
            .last()
            .map_or_else(BTreeMap::new, |it| (**it).clone());
        change(&mut objects);
        timeline.states.push(Arc::new(objects));
    }
}

/// Returns a time as objects have it.
pub fn written(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// That there is no such object. Its name tells this from a kind that is not served.
fn missing(asked: &Asked) -> Answer {
    let (code, mut body) = refused(404, "NotFound", "there is none");
    body["details"] = json!({ "name": asked.about() });
    (code, body)
}

/// A refusal.
pub fn refused(code: u16, reason: &str, message: &str) -> Answer {
    (code, status(code, reason, message))
}

/// What an apply hears that names a UID, of an object that has another one.
fn anothers() -> Answer {
    let (code, mut answer) = refused(422, "Invalid", "the UID is immutable");
    let cause = json!({ "reason": "FieldValueInvalid", "message": "", "field": "metadata.uid" });
    answer["details"] = json!({ "causes": [cause] });
    (code, answer)
}
