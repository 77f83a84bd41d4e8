//! An API server in memory, with one Cleaner and some ConfigMaps.

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub(super) const CLEANER: &str = "/apis/cleaner.vtex.dev/v1alpha/namespaces/demo/cleaners/shop";
pub(super) const MAPS: &str = "/api/v1/namespaces/demo/configmaps";

/// What the API server has, and what it was asked to change.
pub(super) struct State {
    /// None once it is gone.
    pub(super) cleaner: Option<Value>,
    /// By name.
    pub(super) maps: BTreeMap<String, Value>,
    /// Whether it serves ConfigMaps.
    pub(super) has_kind: bool,
    /// Requests that are answered otherwise, once or always.
    pub(super) faults: Vec<(String, u16)>,
    /// The writes, with their bodies.
    pub(super) writes: Vec<(String, Value)>,
    version: u64,
}

impl State {
    pub(super) fn new(spec: &Value) -> Self {
        let cleaner = json!({
            "apiVersion": "cleaner.vtex.dev/v1alpha", "kind": "Cleaner",
            "metadata": { "name": "shop", "namespace": "demo", "uid": "own", "resourceVersion": "10", "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": spec,
        });
        Self {
            cleaner: Some(cleaner),
            maps: BTreeMap::new(),
            has_kind: true,
            faults: Vec::new(),
            writes: Vec::new(),
            version: 10,
        }
    }

    /// Adds a ConfigMap.
    pub(super) fn map(&mut self, name: &str, uid: &str) {
        let map = json!({ "metadata": { "name": name, "namespace": "demo", "uid": uid, "resourceVersion": "5",
            "labels": { "app": "x" } } });
        self.maps.insert(name.to_owned(), map);
    }

    pub(super) fn serve(&mut self, request: &str, body: Value) -> (u16, Value) {
        let (method, path) = request.split_once(' ').unwrap();
        if method != "GET" {
            self.writes.push((request.to_owned(), body.clone()));
        }
        if let Some((_, code)) = self.faults.iter().find(|(it, _)| it == request) {
            return (*code, failure(*code, "refused", ""));
        }
        match (method, path) {
            ("GET", "/api/v1") => (200, self.kinds()),
            // Nobody may watch them in all namespaces, nor in this one.
            ("GET", "/api/v1/configmaps") => (403, failure(403, "Forbidden", "")),
            ("GET", MAPS) => {
                let items: Vec<&Value> = self.maps.values().collect();
                (
                    200,
                    json!({ "metadata": { "resourceVersion": "77" }, "items": items }),
                )
            }
            ("PATCH", path) if path.starts_with(CLEANER) => self.patch(body),
            ("DELETE", CLEANER) => self.delete_cleaner(&body),
            (_, path) => match path.strip_prefix(&format!("{MAPS}/")) {
                Some(name) if method == "GET" => found(self.maps.get(name), name),
                Some(name) if method == "DELETE" => self.delete_map(name, &body),
                _ => unreachable!("{request}"),
            },
        }
    }

    fn kinds(&self) -> Value {
        let maps = json!({ "name": "configmaps", "kind": "ConfigMap", "namespaced": true, "singularName": "configmap", "verbs": [] });
        let secrets = json!({ "name": "secrets", "kind": "Secret", "namespaced": true, "singularName": "secret", "verbs": [] });
        let kinds = if self.has_kind {
            vec![maps, secrets]
        } else {
            vec![secrets]
        };
        json!({ "groupVersion": "v1", "resources": kinds })
    }

    fn patch(&mut self, mut body: Value) -> (u16, Value) {
        let Some(cleaner) = &mut self.cleaner else {
            return found(None, "shop");
        };
        let seen = &body["metadata"]["resourceVersion"];
        if !seen.is_null() && *seen != cleaner["metadata"]["resourceVersion"] {
            return (409, failure(409, "Conflict", "shop"));
        }
        self.version += 1;
        body["metadata"]["resourceVersion"] = json!(self.version.to_string());
        json_patch::merge(cleaner, &body);
        let answer = cleaner.clone();
        let is_held = answer["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|it| !it.is_empty());
        if !is_held && answer["metadata"]["deletionTimestamp"].is_string() {
            self.cleaner = None;
        }
        (200, answer)
    }

    fn delete_cleaner(&mut self, body: &Value) -> (u16, Value) {
        let Some(cleaner) = &mut self.cleaner else {
            return found(None, "shop");
        };
        assert_eq!(body["preconditions"]["uid"], "own");
        self.version += 1;
        cleaner["metadata"]["resourceVersion"] = json!(self.version.to_string());
        cleaner["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        (200, cleaner.clone())
    }

    fn delete_map(&mut self, name: &str, body: &Value) -> (u16, Value) {
        if !self.has_kind {
            return (404, failure(404, "NotFound", ""));
        }
        let Some(map) = self.maps.get(name) else {
            return found(None, name);
        };
        if map["metadata"]["uid"] != body["preconditions"]["uid"] {
            return (409, failure(409, "Conflict", name));
        }
        let gone = self.maps.remove(name);
        (200, gone.unwrap())
    }
}

fn found(object: Option<&Value>, name: &str) -> (u16, Value) {
    match object {
        Some(object) => (200, object.clone()),
        None => (404, failure(404, "NotFound", name)),
    }
}

fn failure(code: u16, reason: &str, name: &str) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": format!("{reason} {name}"),
        "details": { "name": name } })
}
