//! What people, nodes and garbage collection can do around a Browser.

use podloom_api::names;
use podloom_model::Act;
use podloom_model::store::{Store, Stored, written};
use serde_json::{Value, json};

use super::{BROWSERS, CONFIGS, FORGED, PODS, RELEASED};
use crate::warm::Recipe;

/// What people, nodes and garbage collection can do next about a name. What takes nothing of the bounds happens sooner or later.
pub(super) fn acts(store: &Store, name: &'static str) -> Vec<Act> {
    let mut acts: Vec<Act> = Vec::new();
    let mut act = |what: &str, takes, change: fn(&mut Store, &str)| {
        let what = what.replace("{}", name);
        acts.push((what, takes, Box::new(move |store| change(store, name))));
    };
    let browser = store.get(BROWSERS, name);
    match browser {
        None => act("somebody creates Browser {} again", 1, create_browser),
        Some(browser) => {
            if !browser.is_deleted() {
                act("somebody deletes Browser {}", 1, delete_browser);
            }
            if browser.value["metadata"]["labels"].is_object() {
                act("somebody removes the labels of Browser {}", 1, unlabel);
            }
            if browser.finalizers().next().is_some() {
                act("somebody removes the finalizers of Browser {}", 1, release);
            }
        }
    }
    match store.get(CONFIGS, "config") {
        None => act("somebody creates the BrowserConfig again", 1, |store, _| {
            create_config(store);
        }),
        Some(_) => {
            act("somebody deletes the BrowserConfig", 1, |store, _| {
                store.remove(CONFIGS, "config");
            });
            act("somebody edits the BrowserConfig", 1, edit_config);
        }
    }
    if store.get(PODS, name).is_none() {
        act("somebody creates a pod {}", 1, create_pod);
        if browser.is_some() {
            act(
                "somebody creates a pod {} in the name of its Browser",
                1,
                forge_pod,
            );
        }
    }
    of_pod(store, name, &mut acts);
    acts
}

/// What can happen to a pod.
pub(super) fn of_pod(store: &Store, name: &'static str, acts: &mut Vec<Act>) {
    let Some(pod) = store.get(PODS, name) else {
        return;
    };
    let mut act = |what: &str, takes, change: fn(&mut Store, &str)| {
        let what = what.replace("{}", name);
        acts.push((what, takes, Box::new(move |store| change(store, name))));
    };
    if pod.value["metadata"]["labels"].is_object() {
        act("somebody removes the labels of pod {}", 1, unlabel_pod);
    }
    let owners = [store.all(BROWSERS), store.all(CONFIGS)];
    let mut owners = owners.iter().flat_map(|all| all.values());
    let is_owned = owners.any(|owner| owner.uid() == pod.controller());
    if pod.is_deleted() {
        if pod.phase() != "Unknown" {
            act("pod {} is gone", 0, |store, name| store.remove(PODS, name));
        }
    } else {
        if !is_owned && !pod.controller().is_empty() {
            act("garbage collection deletes pod {}", 0, delete_pod);
        }
        act("somebody deletes pod {}", 1, delete_pod);
        act("pod {} is evicted", 1, evict);
    }
    of_node(pod, &mut act);
}

/// What can happen to a pod on its node.
fn of_node(pod: &Stored, act: &mut impl FnMut(&str, u8, fn(&mut Store, &str))) {
    let is_scheduled = pod.value["spec"]["nodeName"].is_string();
    match pod.phase() {
        "Pending" if pod.is_deleted() => {}
        "Pending" if !is_scheduled => act("pod {} is scheduled", 0, |store, name| {
            store.change(PODS, name, |pod| pod["spec"]["nodeName"] = json!("node"));
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
    store.delete(BROWSERS, name, &Value::Null);
}

fn unlabel(store: &mut Store, name: &str) {
    store.change(BROWSERS, name, |it| {
        it["metadata"]["labels"] = Value::Null;
    });
}

fn release(store: &mut Store, name: &str) {
    let uid = store.get(BROWSERS, name).map(|it| it.uid().to_owned());
    store.create(RELEASED, json!({ "metadata": { "name": uid } }));
    store.change(BROWSERS, name, |it| {
        it["metadata"]["finalizers"] = Value::Null;
    });
}

fn edit_config(store: &mut Store, _: &str) {
    store.change(CONFIGS, "config", |it| {
        it["spec"]["browsers"]["chrome"]["1"]["image"] = json!("example/other");
    });
}

fn create_pod(store: &mut Store, name: &str) {
    let pod = json!({ "metadata": { "name": name }, "spec": { "containers": [] } });
    store.create(PODS, pod);
}

fn unlabel_pod(store: &mut Store, name: &str) {
    store.change(PODS, name, |it| it["metadata"]["labels"] = Value::Null);
}

/// A pod that looks as if the operator had made it.
fn forge_pod(store: &mut Store, name: &str) {
    let Some(browser) = store.get(BROWSERS, name) else {
        return;
    };
    let owner = json!({
        "apiVersion": "selenosis.io/v1", "kind": "Browser", "name": name, "uid": browser.uid(), "controller": true,
    });
    let metadata = json!({
        "name": name, "labels": { names::label::BROWSER_NAME: "chrome" }, "ownerReferences": [owner],
    });
    let pod = json!({ "metadata": metadata, "spec": { "containers": [] } });
    let uid = store.create(PODS, pod).uid().to_owned();
    store.create(FORGED, json!({ "metadata": { "name": uid } }));
}

fn delete_pod(store: &mut Store, name: &str) {
    store.delete(PODS, name, &Value::Null);
}

fn evict(store: &mut Store, name: &str) {
    let target = json!([{
        "type": names::condition::DISRUPTION_TARGET, "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicted",
    }]);
    store.change(PODS, name, |pod| pod["status"]["conditions"] = target);
    delete_pod(store, name);
}

fn cannot_start(store: &mut Store, name: &str) {
    let waits = json!([{
        "name": "browser", "image": "example/chrome", "restartCount": 0, "state": { "waiting": { "reason": "ErrImagePull" } },
    }]);
    store.change(PODS, name, |pod| {
        pod["status"]["containerStatuses"] = waits;
    });
}

fn set_phase(store: &mut Store, name: &str, phase: &str) {
    store.change(PODS, name, |pod| pod["status"]["phase"] = json!(phase));
}

fn run(store: &mut Store, name: &str) {
    let now = written(store.now);
    store.change(PODS, name, |pod| {
        pod["status"] = json!({
            "phase": "Running", "podIP": "10.0.0.1", "startTime": now,
            "containerStatuses": [{ "name": "browser", "image": "example/chrome", "restartCount": 0, "state": { "running": {} } }],
        });
    });
}

fn end(store: &mut Store, name: &str, phase: &str, code: i32) {
    store.change(PODS, name, |pod| {
        pod["status"]["phase"] = json!(phase);
        pod["status"]["containerStatuses"][0]["state"] =
            json!({ "terminated": { "exitCode": code } });
    });
}

pub(super) fn create_browser(store: &mut Store, name: &str) {
    store.create(
        BROWSERS,
        json!({
            "apiVersion": "selenosis.io/v1", "kind": "Browser", "metadata": { "name": name },
            "spec": { "browserName": "chrome", "browserVersion": "1" },
        }),
    );
}

pub(super) fn create_config(store: &mut Store) {
    store.create(
        CONFIGS,
        json!({
            "apiVersion": "selenosis.io/v1", "kind": "BrowserConfig", "metadata": { "name": "config" },
            "spec": { "browsers": { "chrome": { "1": { "image": "example/chrome" } } } },
        }),
    );
}

/// What warm pods are made from.
pub(super) fn recipe() -> Recipe {
    let pod = json!({ "spec": {
        "containers": [{ "name": "browser", "image": "example/chrome" }], "restartPolicy": "Never",
    } });
    Recipe::of(pod, None)
}

/// A BrowserConfig that has this pod wait, which runs.
pub(super) fn create_warm(store: &mut Store, name: &str) {
    store.change(CONFIGS, "config", |it| {
        it["spec"]["warm"] = json!({ "chrome": { "1": { "max": 1 } } });
    });
    let owner = store.get(CONFIGS, "config").map(|it| it.uid().to_owned());
    let Recipe { pod, hash, .. } = recipe();
    let metadata = json!({
        "name": name,
        "labels": {
            names::label::WARM: "config", names::label::BROWSER_NAME: "chrome", names::label::BROWSER_VERSION: "1",
        },
        "annotations": { names::annotation::RECIPE: hash },
        "ownerReferences": [{
            "apiVersion": "selenosis.io/v1", "kind": "BrowserConfig", "name": "config", "uid": owner, "controller": true,
        }],
    });
    store.create(PODS, json!({ "metadata": metadata, "spec": pod["spec"] }));
    run(store, name);
}
