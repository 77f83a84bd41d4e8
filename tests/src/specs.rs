//! Which specs of a kind the API server stores.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::scene::Scene;

/// Specs of one kind, offered to the API server, which stores none of them.
pub struct Specs {
    objects: Api<DynamicObject>,
    resource: ApiResource,
    name: String,
}

impl Specs {
    /// Specs of a namespaced kind.
    #[must_use]
    pub fn of(scene: &Scene, resource: &ApiResource) -> Self {
        let client = scene.client.clone();
        Self {
            objects: Api::namespaced_with(client, &scene.namespace, resource),
            resource: resource.clone(),
            name: scene.namespace.clone(),
        }
    }

    /// Specs of a cluster-scoped kind.
    #[must_use]
    pub fn of_all(scene: &Scene, resource: &ApiResource) -> Self {
        Self {
            objects: Api::all_with(scene.client.clone(), resource),
            resource: resource.clone(),
            name: scene.namespace.clone(),
        }
    }

    /// Returns the spec as it would be stored, or the code and the message of a rejection.
    pub async fn stored(&self, spec: Value) -> Result<Value, (u16, String)> {
        let object = DynamicObject::new(&self.name, &self.resource).data(json!({ "spec": spec }));
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        match self.objects.create(&dry_run, &object).await {
            Ok(object) => Ok(object.data["spec"].clone()),
            Err(kube::Error::Api(status)) => Err((status.code, status.message)),
            Err(error) => Err((0, error.to_string())),
        }
    }

    /// Checks that these specs are rejected, each with a message that has this text, such as the path of the field.
    pub async fn rejected(&self, cases: Vec<(&str, Value)>) {
        for (text, spec) in cases {
            let rejection = self.stored(spec.clone()).await;
            let (code, message) = rejection.expect_err(&spec.to_string());
            assert_eq!(code, 422, "{spec}: {message}");
            assert!(message.contains(text), "{spec}: no {text}: {message}");
        }
    }

    /// Checks that these specs are accepted.
    pub async fn accepted(&self, specs: Vec<Value>) {
        for spec in specs {
            let stored = self.stored(spec.clone()).await;
            assert!(stored.is_ok(), "{spec}: {stored:?}");
        }
    }
}

/// Returns a spec with a value at this pointer, whose parent exists; null removes the field.
#[must_use]
pub fn with(mut spec: Value, pointer: &str, value: Value) -> Value {
    let (above, field) = pointer.rsplit_once('/').unwrap();
    let parent = spec.pointer_mut(above).unwrap().as_object_mut().unwrap();
    match value {
        Value::Null => parent.remove(field),
        value => parent.insert(field.to_owned(), value),
    };
    spec
}
