//! Objects of any kinds, by their manifests, and what they are without what no two runs have in common.

use std::collections::{BTreeMap, BTreeSet};

use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::scene::Scene;
use crate::wait::eventually;

/// What a new object or a new write has another value of. The last operation of a Cluster is about how it came where it is.
const HIDDEN: &str = "uid podUID podIP generation observedGeneration clusterId operation nodeName \
    deployment.kubernetes.io/revision infrastructure.podloom.dev/operation";

/// A kind: its `apiVersion` and its name.
pub type ApiKind = (String, String);

/// The objects of some kinds in a test's namespace, and those that have none.
pub struct Objects {
    /// The test's namespace.
    pub scene: Scene,
    /// The kinds of which a state consists.
    pub kinds: BTreeSet<ApiKind>,
    /// The names of kinds without a namespace.
    pub global: BTreeSet<String>,
}

impl Objects {
    fn api(&self, (api_version, kind): &ApiKind) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let client = self.scene.client.clone();
        match self.global.contains(kind) {
            true => Api::all_with(client, &resource),
            false => Api::namespaced_with(client, &self.scene.namespace, &resource),
        }
    }

    /// The object of a manifest, as it is now.
    pub async fn get(&self, manifest: &Value) -> Option<Value> {
        let api = self.api(&kind_of(manifest));
        let object = api.get_opt(name_of(manifest)).await.unwrap();
        object.map(|it| serde_json::to_value(it).unwrap())
    }

    /// Creates an object.
    pub async fn create(&self, manifest: &Value) {
        let created = self.try_create(manifest, false).await;
        assert_eq!(created, 201, "{manifest}");
    }

    /// Whether an object could be created if there were none of its name.
    pub async fn is_valid(&self, manifest: &Value) -> bool {
        // What is invalid is rejected before anybody looks for one of this name.
        [201, 409].contains(&self.try_create(manifest, true).await)
    }

    /// Returns the status of the answer.
    async fn try_create(&self, manifest: &Value, dry_run: bool) -> u16 {
        let mut object: DynamicObject = serde_json::from_value(manifest.clone()).unwrap();
        let kind = kind_of(manifest);
        let is_global = self.global.contains(&kind.1);
        object.metadata.namespace = (!is_global).then(|| self.scene.namespace.clone());
        let parameters = PostParams {
            dry_run,
            ..PostParams::default()
        };
        match self.api(&kind).create(&parameters, &object).await {
            Ok(_) => 201,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{manifest}: {error}"),
        }
    }

    /// Patches an object by RFC 6902, and returns what the API server says if it refuses.
    pub async fn patch(&self, manifest: &Value, operations: &Value) -> Option<String> {
        let patch = Patch::Json::<()>(serde_json::from_value(operations.clone()).unwrap());
        let (api, all) = (self.api(&kind_of(manifest)), PatchParams::default());
        match api.patch(name_of(manifest), &all, &patch).await {
            Ok(_) => None,
            // It has just deleted itself.
            Err(kube::Error::Api(it)) if it.code == 404 => None,
            Err(kube::Error::Api(it)) if [400, 422].contains(&it.code) => Some(it.message),
            Err(error) => panic!("{operations}: {error}"),
        }
    }

    /// Deletes an object, and creates another one of its name.
    pub async fn replace(&self, manifest: &Value) {
        let api = self.api(&kind_of(manifest));
        let name = name_of(manifest);
        // It may have deleted itself.
        drop(api.delete(name, &DeleteParams::default()).await);
        eventually(&format!("{name} is gone"), async || {
            let object = self.get(manifest).await;
            object.map_or(Ok(()), |it| Err(it.to_string()))
        })
        .await;
        self.create(manifest).await;
    }

    /// All objects, by kind and name; see [`key_of`]. What has a random name is left out: something else owns it.
    pub async fn all(&self) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for kind in &self.kinds {
            let objects = self.api(kind).list(&ListParams::default()).await.unwrap();
            let is_named = |it: &DynamicObject| it.metadata.generate_name.is_none();
            for object in objects.into_iter().filter(is_named) {
                let mut object = serde_json::to_value(object).unwrap();
                (object["apiVersion"], object["kind"]) = (json!(kind.0), json!(kind.1));
                all.insert(key_of(&object), object);
            }
        }
        all
    }

    /// The same without what no two runs have in common.
    pub async fn state(&self) -> Value {
        let all = self.all().await.into_iter();
        all.map(|(key, object)| (key, normal(&object))).collect()
    }
}

/// The kind and the name of an object or a manifest.
#[must_use]
pub fn key_of(object: &Value) -> String {
    format!("{} {}", kind_of(object).1, name_of(object))
}

/// The kind of a manifest.
#[must_use]
pub fn kind_of(manifest: &Value) -> ApiKind {
    let text = |field: &str| manifest[field].as_str().unwrap_or_default().to_owned();
    (text("apiVersion"), text("kind"))
}

/// The name of a manifest.
#[must_use]
pub fn name_of(manifest: &Value) -> &str {
    manifest["metadata"]["name"].as_str().unwrap_or_default()
}

/// An object without what no two runs have in common.
#[must_use]
pub fn normal(object: &Value) -> Value {
    // The groups of Kubernetes' own kinds have no dots here. What it reports of them is not our subject.
    let is_ours = kind_of(object).0.contains('.');
    let (metadata, status) = (&object["metadata"], &object["status"]);
    let keys = object["data"].as_object();
    let keys = keys.map(|it| it.keys().collect::<Vec<_>>());
    let mut normal = json!({
        "labels": metadata["labels"],
        "annotations": metadata["annotations"],
        "finalizers": metadata["finalizers"],
        "isDeleted": metadata["deletionTimestamp"].is_string(),
        "spec": object["spec"],
        "data": keys,
        "phase": status["phase"],
        "status": is_ours.then_some(status),
    });
    scrub(&mut normal);
    normal
}

fn scrub(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let is_time = |value: &Value| value.as_str().is_some_and(is_time);
            fields.retain(|name, value| !HIDDEN.split(' ').any(|it| it == name) && !is_time(value));
            fields.values_mut().for_each(scrub);
        }
        Value::Array(items) => items.iter_mut().for_each(scrub),
        // The API server gives this volume a random name.
        Value::String(text) if text.starts_with("kube-api-access-") => text.truncate(15),
        Value::String(text) => {
            let words: Vec<&str> = text.split(' ').filter(|word| !is_time(word)).collect();
            *text = words.join(" ");
        }
        _ => {}
    }
}

fn is_time(word: &str) -> bool {
    let word = word.trim_end_matches([',', ';', '.']);
    word.starts_with("20") && word.get(10..11) == Some("T") && word.ends_with('Z')
}
