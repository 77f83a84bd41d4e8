//! What people, the controller of Deployments and garbage collection can do around a PortalExpose.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use podloom_api::names::portal::{IDENTITY_KEY, annotation};
use podloom_model::Act;
use podloom_model::store::{Store, Stored, written};
use serde_json::{Value, json};

use super::{CHAINS, CLASSES, DEPLOYMENTS, EXPOSES, SECRETS, SERVICES};
use crate::naming::{deployment_name, secret_name};

/// What somebody does to a field of an object, and what is in the field then.
type Edit<'a> = (&'a str, &'static str, Value);

/// What can happen next around a name. What takes nothing of the bounds happens sooner or later.
struct Around<'a> {
    store: &'a Store,
    name: &'static str,
    acts: Vec<Act>,
}

/// What can happen next around a name.
pub(super) fn acts(store: &Store, name: &'static str) -> Vec<Act> {
    let acts = Vec::new();
    let mut around = Around { store, name, acts };
    around.expose();
    around.come_or_go(CLASSES, "the TunnelClass", class());
    around.come_or_go(SERVICES, "the Service", service());
    if let Some(class) = store.get(CLASSES, "standard") {
        let size = other(&class.value["spec"]["size"], ["small", "large"]);
        around.edit(
            CLASSES,
            "standard",
            [("edits the TunnelClass", "spec/size", size)],
        );
    }
    if let Some(chain) = store.get(CHAINS, "chain") {
        let digest = other(&chain.value["status"]["phase"], ["one", "two"]);
        around.edit(
            CHAINS,
            "chain",
            [("changes the plugin chain", "status/phase", digest)],
        );
    }
    around.deployment();
    around.secret();
    around.acts
}

impl Around<'_> {
    fn act(&mut self, what: &str, takes: u8, change: impl Fn(&mut Store) + Send + 'static) {
        let what = what.replace("{}", self.name);
        self.acts.push((what, takes, Box::new(change)));
    }

    fn create(&mut self, what: &str, resource: &'static str, object: Value) {
        self.act(what, 1, move |store| {
            store.create(resource, object.clone());
        });
    }

    fn remove(&mut self, what: &str, takes: u8, resource: &'static str, object: String) {
        self.act(what, takes, move |store| store.remove(resource, &object));
    }

    fn edit<const N: usize>(&mut self, resource: &'static str, object: &str, edits: [Edit<'_>; N]) {
        for (what, field, to) in edits {
            let object = object.to_owned();
            self.act(&format!("somebody {what}"), 1, move |store| {
                store.change(resource, &object, |it| {
                    *field.split('/').fold(it, |it, part| &mut it[part]) = to.clone();
                });
            });
        }
    }

    /// Somebody deletes what is there, and creates what is not.
    fn come_or_go(&mut self, resource: &'static str, what: &str, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match self.store.get(resource, name) {
            Some(_) => self.remove(
                &format!("somebody deletes {what}"),
                1,
                resource,
                name.to_owned(),
            ),
            None => self.create(&format!("somebody creates {what} again"), resource, object),
        }
    }

    fn expose(&mut self) {
        let (store, name) = (self.store, self.name);
        let Some(expose) = store.get(EXPOSES, name) else {
            // Of two that were created in one second the name decides, so that the later may be the first.
            let (all, now) = (store.all(EXPOSES), written(store.now));
            if all.values().all(|it| it.meta("creationTimestamp") != now) {
                self.create(
                    "somebody creates PortalExpose {} again",
                    EXPOSES,
                    self::expose(name),
                );
            }
            return;
        };
        if !expose.is_deleted() {
            self.act("somebody deletes PortalExpose {}", 1, move |store| {
                store.delete(EXPOSES, name, &Value::Null);
            });
        }
        let spec = &expose.value["spec"];
        let app = other(&spec["app"]["name"], ["shop", "cafe"]);
        let policy = other(&spec["identityPolicy"], ["Retain", "Delete"]);
        self.edit(
            EXPOSES,
            name,
            [
                ("renames the application of {}", "spec/app/name", app),
                (
                    "changes the identityPolicy of {}",
                    "spec/identityPolicy",
                    policy,
                ),
            ],
        );
    }

    fn deployment(&mut self) {
        let name = deployment_name(self.name);
        let Some(found) = self.store.get(DEPLOYMENTS, &name) else {
            let stranger = json!({ "metadata": { "name": name }, "spec": { "selector": {}, "template": null } });
            return self.create(
                "somebody else creates Deployment {}-tunnel",
                DEPLOYMENTS,
                stranger,
            );
        };
        if found.is_deleted() {
            return self.remove("Deployment {}-tunnel is gone", 0, DEPLOYMENTS, name);
        }
        if !found.controller().is_empty() && !lives(self.store, found.controller()) {
            self.remove(
                "garbage collection deletes Deployment {}-tunnel",
                0,
                DEPLOYMENTS,
                name.clone(),
            );
        }
        self.remove(
            "somebody deletes Deployment {}-tunnel",
            1,
            DEPLOYMENTS,
            name.clone(),
        );
        self.edit_deployment(found, &name);
        if !found.value["spec"]["template"].is_null() {
            self.pods(found, name);
        }
    }

    fn edit_deployment(&mut self, found: &Stored, name: &str) {
        let mut going = found.value["metadata"].clone();
        going["deletionTimestamp"] = json!(written(self.store.now));
        going["finalizers"] = json!(["foregroundDeletion"]);
        self.edit(
            DEPLOYMENTS,
            name,
            [
                (
                    "deletes Deployment {}-tunnel, its pods first",
                    "metadata",
                    going,
                ),
                (
                    "edits Deployment {}-tunnel",
                    "spec/progressDeadlineSeconds",
                    json!(1),
                ),
                (
                    "removes the labels of Deployment {}-tunnel",
                    "metadata/labels",
                    Value::Null,
                ),
                (
                    "removes the owner of Deployment {}-tunnel",
                    "metadata/ownerReferences",
                    Value::Null,
                ),
                (
                    "removes the annotations of Deployment {}-tunnel",
                    "metadata/annotations",
                    Value::Null,
                ),
            ],
        );
    }

    /// What the controller of Deployments does: it makes pods of the newest template, and they become ready.
    fn pods(&mut self, found: &Stored, name: String) {
        let (status, generation) = (
            &found.value["status"],
            &found.value["metadata"]["generation"],
        );
        if status["observedGeneration"] == *generation && status["readyReplicas"] == 1 {
            let lost = (
                "loses the pod of {}-tunnel",
                "status/readyReplicas",
                json!(0),
            );
            return self.edit(DEPLOYMENTS, &name, [lost]);
        }
        let status = json!({
            "observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
            "conditions": [{ "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable" }],
        });
        self.act("the pod of {}-tunnel is new and ready", 0, move |store| {
            store.change(DEPLOYMENTS, &name, |it| it["status"] = status.clone());
        });
    }

    fn secret(&mut self) {
        let name = secret_name(self.name);
        let Some(found) = self.store.get(SECRETS, &name) else {
            let stranger = json!({ "metadata": { "name": name }, "data": {} });
            return self.create("somebody else creates the Secret of {}", SECRETS, stranger);
        };
        let owners = found.value["metadata"]["ownerReferences"].as_array();
        let is_gone = |owner: &Value| !lives(self.store, owner["uid"].as_str().unwrap_or_default());
        if owners.is_some_and(|it| !it.is_empty() && it.iter().all(is_gone)) {
            self.remove(
                "garbage collection deletes the Secret of {}",
                0,
                SECRETS,
                name.clone(),
            );
        }
        self.remove(
            "somebody deletes the Secret of {}",
            1,
            SECRETS,
            name.clone(),
        );
        self.edit(
            SECRETS,
            &name,
            [(
                "removes the labels of the Secret of {}",
                "metadata/labels",
                Value::Null,
            )],
        );
        if identity(&found.value).is_some() {
            let mut another = found.value.clone();
            // As no Secret has it that the operator made.
            set_key(&mut another, 100);
            self.edit(
                SECRETS,
                &name,
                [
                    (
                        "puts another key into the Secret of {}",
                        "data",
                        another["data"].take(),
                    ),
                    (
                        "breaks the Secret of {}",
                        "data",
                        json!({ IDENTITY_KEY: "" }),
                    ),
                ],
            );
        }
    }
}

/// Whether the PortalExpose of a UID is there.
pub(super) fn lives(store: &Store, uid: &str) -> bool {
    store.all(EXPOSES).values().any(|it| it.uid() == uid)
}

fn other(now: &Value, [one, other]: [&str; 2]) -> Value {
    json!(if *now == one { other } else { one })
}

/// The identity in a Secret, if it has one.
pub(super) fn identity(secret: &Value) -> Option<Value> {
    let bytes = STANDARD
        .decode(secret["data"][IDENTITY_KEY].as_str()?)
        .ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Puts the key of this number into a Secret.
pub(super) fn set_key(secret: &mut Value, number: u64) {
    let mut identity = identity(secret).unwrap_or_default();
    identity["private_key"] = json!(format!("{number:064x}"));
    identity["token_secret"] = json!(format!("token-{number}"));
    secret["data"][IDENTITY_KEY] = json!(STANDARD.encode(identity.to_string()));
}

/// What there is at first.
pub(super) fn begin(store: &mut Store, names: &[&str]) {
    store.create(CLASSES, class());
    store.create(SERVICES, service());
    store.create(
        CHAINS,
        json!({ "metadata": { "name": "chain" }, "status": { "phase": "one" } }),
    );
    for name in names {
        store.create(EXPOSES, expose(name));
    }
}

fn expose(name: &str) -> Value {
    json!({
        "apiVersion": "portal.gosuda.org/v1alpha1", "kind": "PortalExpose", "metadata": { "name": name },
        "spec": {
            "app": { "name": "shop", "service": { "name": "web", "port": 80 } },
            "relay": { "targets": [{ "name": "one", "url": "wss://relay.example.com" }] },
            "identityPolicy": "Retain",
        },
    })
}

fn class() -> Value {
    json!({
        "apiVersion": "portal.gosuda.org/v1alpha1", "kind": "TunnelClass", "spec": { "replicas": 1, "size": "small" },
        "metadata": { "name": "standard", "annotations": { annotation::IS_DEFAULT_CLASS: "true" } },
    })
}

fn service() -> Value {
    json!({ "metadata": { "name": "web" }, "spec": { "ports": [{ "port": 80 }] } })
}
