//! The rules of the infrastructure kinds, as tables: which objects the API server stores, and which it rejects in which words.

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use podloom_api::InfrastructureKind;
use serde_json::{Value, json};

use crate::scene::Scene;

/// How many characters of a change and of an answer a failed test shows.
const SHOWN: usize = 500;

/// A rule: what it accepts, what it rejects, and what the API server says then.
pub struct Rule {
    /// Words of each rejection, which name the field.
    pub says: String,
    /// Changes that it accepts, as RFC 7396 has them: null removes a field.
    pub accepts: Vec<Value>,
    /// Changes that it rejects.
    pub rejects: Vec<Value>,
}

/// The rule of the field at this path: it accepts each of the first values, and rejects each of the second. Null is no field.
#[must_use]
pub fn field(path: &str, accepts: Value, rejects: Value) -> Rule {
    let changes = |values| list(values).into_iter().map(move |value| at(path, value));
    Rule {
        says: path.to_owned(),
        accepts: changes(accepts).collect(),
        rejects: changes(rejects).collect(),
    }
}

/// A field that must be given, with 1 to so many characters.
#[must_use]
pub fn required(path: &str, max: usize) -> Rule {
    let (least, most) = (chars(1), chars(max));
    field(
        path,
        json!([least, most]),
        json!([null, "", chars(max + 1)]),
    )
}

/// A field that need not be given; if it is, it has 1 to so many characters.
#[must_use]
pub fn optional(path: &str, max: usize) -> Rule {
    let (least, most) = (chars(1), chars(max));
    field(
        path,
        json!([null, least, most]),
        json!(["", chars(max + 1)]),
    )
}

/// The URL of an Infrastructure Manager or of OpenStack.
#[must_use]
pub fn url(path: &str) -> Rule {
    let long = format!("http://h/{}", chars(2039));
    field(
        path,
        json!([
            "http://h",
            "https://h:1/",
            "https://[::1]:1/a/b%20c",
            "http://127.0.0.1:1/a@b",
            long
        ]),
        json!([
            null,
            "",
            "h",
            "ftp://h",
            "HTTP://h",
            "http:/h",
            "http://",
            "http:///a",
            "https://u@h",
            "https://u:p@h/a",
            "https://h?q",
            "https://h/a?q",
            "https://h#f",
            "https://h/a#f",
            "https://h h",
            "https://h/a b",
            "https://h\n",
            " https://h",
            format!("{long}x"),
        ]),
    )
}

/// A reference to a Secret that is given; its key need not be.
#[must_use]
pub fn secret(path: &str) -> [Rule; 2] {
    [
        required(&format!("{path}.name"), 253),
        optional(&format!("{path}.key"), 253),
    ]
}

/// A field that is stored with this value, null if it is not given, and can have none of the others from then on.
#[must_use]
pub fn fixed(path: &str, stored: Value, others: Value) -> Rule {
    let name = path.rsplit('.').next().unwrap_or(path);
    Rule {
        says: format!("{name} cannot be changed"),
        ..field(path, Value::Array(vec![stored]), others)
    }
}

/// A rule about more than one field, which says so in its own words.
#[must_use]
pub fn rule(says: &str, accepts: Value, rejects: Value) -> Rule {
    Rule {
        says: says.to_owned(),
        accepts: list(accepts),
        rejects: list(rejects),
    }
}

/// No rule: any of these changes can be made.
#[must_use]
pub fn free(changes: Value) -> Rule {
    rule("", changes, json!([]))
}

/// So many characters, which are a name too.
#[must_use]
pub fn chars(count: usize) -> String {
    "x".repeat(count)
}

/// A change of the field at this path.
fn at(path: &str, value: Value) -> Value {
    path.rsplit('.')
        .fold(value, |inner, name| json!({ (name): inner }))
}

fn list(values: Value) -> Vec<Value> {
    match values {
        Value::Array(values) => values,
        one => vec![one],
    }
}

/// Checks what can be created: each object is the base with one change. Nothing is stored.
pub async fn on_create(scene: &Scene, kinds: &[InfrastructureKind], base: &Value, rules: &[Rule]) {
    for &kind in kinds {
        let ask = async |change: &Value| try_create(scene, kind, base, change).await;
        check(kind.name(), rules, ask).await;
    }
}

/// Checks what the API server fills in: the values at these pointers.
pub async fn defaults(
    scene: &Scene,
    kinds: &[InfrastructureKind],
    base: &Value,
    values: &[(&str, Value)],
) {
    for &kind in kinds {
        let stored = try_create(scene, kind, base, &json!({})).await.unwrap();
        let stored = serde_json::to_value(stored).unwrap();
        for (pointer, value) in values {
            assert_eq!(stored.pointer(pointer), Some(value), "{pointer}");
        }
    }
}

/// What `kubectl get -o wide` prints above the objects of a kind, of which there must be one.
pub fn columns(scene: &Scene, kind: InfrastructureKind) -> Vec<String> {
    let resource = format!("{}.{}", kind.plural(), kind.resource().group);
    let get = ["get", &resource, "--namespace", &scene.namespace];
    let table = scene
        .cluster
        .kubectl(&[&get[..], &["--output", "wide"]].concat());
    let head = table.lines().next().unwrap_or_default();
    head.split_whitespace().map(str::to_owned).collect()
}

/// An object that is stored, for the rules of changes.
pub struct Stored {
    objects: Api<DynamicObject>,
    object: DynamicObject,
}

impl Stored {
    /// Stores an object. Those of global kinds have a name of their own in all tests.
    pub async fn new(scene: &Scene, kind: InfrastructureKind, name: &str, base: &Value) -> Self {
        let name = json!({ "metadata": { "name": format!("{}-{name}", scene.namespace) } });
        let stored = create(scene, kind, &merged(base, &name), &PostParams::default()).await;
        Self {
            objects: objects(scene, kind),
            object: stored.unwrap(),
        }
    }

    /// The object as it was stored.
    #[must_use]
    pub fn object(&self) -> Value {
        serde_json::to_value(&self.object).unwrap()
    }

    /// Checks what can be changed. No change is kept.
    pub async fn on_change(&self, rules: &[Rule]) {
        let change = async |change: &Value| {
            let patch = Patch::Merge(change);
            self.objects.patch(&self.name(), &dry_run(), &patch).await
        };
        check(&self.name(), rules, change).await;
    }

    /// Checks what can be in the status. No change is kept.
    pub async fn on_status(&self, rules: &[Rule]) {
        let change = async |change: &Value| {
            let (name, patch) = (self.name(), Patch::Merge(change));
            self.objects.patch_status(&name, &dry_run(), &patch).await
        };
        check(&self.name(), rules, change).await;
    }

    /// Changes the status for good.
    pub async fn set_status(&self, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let (name, for_good) = (self.name(), PatchParams::default());
        let changed = self.objects.patch_status(&name, &for_good, &patch);
        changed.await.unwrap();
    }

    fn name(&self) -> String {
        self.object.metadata.name.clone().unwrap_or_default()
    }
}

/// Asks the API server about each change, and shows all wrong answers at once.
async fn check(
    what: &str,
    rules: &[Rule],
    ask: impl AsyncFn(&Value) -> Result<DynamicObject, kube::Error>,
) {
    let mut wrong = Vec::new();
    for Rule {
        says,
        accepts,
        rejects,
    } in rules
    {
        for change in accepts {
            if let Err(error) = ask(change).await {
                wrong.push(shown(change, &format!("is rejected: {error}")));
            }
        }
        for change in rejects {
            match ask(change).await {
                Err(kube::Error::Api(status))
                    if status.code == 422 && status.message.contains(says) => {}
                Err(error) => wrong.push(shown(change, &format!("lacks {says:?}: {error}"))),
                Ok(_) => wrong.push(shown(change, &format!("is accepted, against {says:?}"))),
            }
        }
    }
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

fn shown(change: &Value, answer: &str) -> String {
    let change = change.to_string();
    format!("{change:.SHOWN$} {answer:.SHOWN$}")
}

/// Creates an object in the test's namespace, or in none if its kind is global.
async fn create(
    scene: &Scene,
    kind: InfrastructureKind,
    object: &Value,
    parameters: &PostParams,
) -> Result<DynamicObject, kube::Error> {
    let resource = kind.resource();
    let own = json!({ "apiVersion": resource.api_version, "kind": resource.kind });
    let object = serde_json::from_value(merged(object, &own)).unwrap();
    objects(scene, kind).create(parameters, &object).await
}

/// Creates nothing, but answers as if it did. The name is not that of any object.
async fn try_create(
    scene: &Scene,
    kind: InfrastructureKind,
    base: &Value,
    change: &Value,
) -> Result<DynamicObject, kube::Error> {
    let named = merged(base, &json!({ "metadata": { "name": "checked" } }));
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    create(scene, kind, &merged(&named, change), &dry_run).await
}

fn objects(scene: &Scene, kind: InfrastructureKind) -> Api<DynamicObject> {
    let client = scene.client.clone();
    match kind.is_global() {
        true => Api::all_with(client, &kind.resource()),
        false => Api::namespaced_with(client, &scene.namespace, &kind.resource()),
    }
}

fn dry_run() -> PatchParams {
    PatchParams {
        dry_run: true,
        ..PatchParams::default()
    }
}

/// The base with a change, as RFC 7396 has it. Nulls of the base stay.
fn merged(base: &Value, change: &Value) -> Value {
    let Value::Object(changes) = change else {
        return change.clone();
    };
    let mut all = base.as_object().cloned().unwrap_or_default();
    for (name, change) in changes {
        match change {
            Value::Null => drop(all.remove(name)),
            _ => {
                let value = merged(all.get(name).unwrap_or(&Value::Null), change);
                all.insert(name.clone(), value);
            }
        }
    }
    Value::Object(all)
}
