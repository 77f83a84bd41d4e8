//! What people, garbage collection and the Infrastructure Manager (IM) can do around a Cluster.

use std::sync::Arc;

use kube::Resource;
use podloom_api::ClusterObject;
use podloom_engine::cache::Cache;
use podloom_engine::readable::Readable;
use podloom_model::Act;
use podloom_model::store::{Store, Stored, written};
use serde_json::{Map, Value, json};

use super::manager::{self, INFRASTRUCTURES, create, name as name_of, set, size, state};
use super::{CLUSTERS, DRIFTS, SECRETS};
use crate::cluster::Memory;
use crate::fixtures;

/// An infrastructure that is no Cluster's.
pub(super) const OTHERS: &str = "00000000-0000-4000-8000-000000000000";

/// The Cloud of all Clusters.
pub(super) fn cloud() -> Value {
    fixtures::cloud(Some("team"), "InfrastructureProvider")
}

/// Its provider: with one account, and without the certificates of this machine.
pub(super) fn provider() -> Value {
    let mut provider = fixtures::provider(Some("team"), "https://192.0.2.2");
    let im =
        json!({ "insecureSkipTlsVerify": true, "basic": { "previousPasswordSecretRef": null } });
    json_patch::merge(&mut provider, &json!({ "spec": { "im": im } }));
    provider
}

/// Creates what Clusters need, and an infrastructure that is no Cluster's.
pub(super) fn begin(store: &mut Store) {
    store.create("clouds", cloud());
    store.create("infrastructureproviders", provider());
    for (name, key) in [("account", "password"), ("cloud", "value")] {
        store.create(SECRETS, fixtures::secret("team", name, &[(key, "text")]));
    }
    let mut theirs = template(1);
    theirs["metadata"] = json!({ "infra_name": "theirs" });
    assert_eq!(create(store, &theirs, false), OTHERS);
    set(store, OTHERS, "configured", 0);
}

/// A template with so many workers.
fn template(workers: usize) -> Value {
    let node = |number| {
        (
            format!("worker_{number}"),
            json!({ "type": "tosca.nodes.Compute" }),
        )
    };
    let nodes: Map<String, Value> = (0..workers).map(node).collect();
    json!({ "topology_template": { "node_templates": nodes, "outputs": { "kubeconfig": {} } } })
}

pub(super) fn create_cluster(store: &mut Store, name: &str) {
    // A first wait is over with the next tick.
    let spec = json!({ "tosca": template(2), "pollIntervalSeconds": 25 });
    let changes = json!({ "metadata": { "name": name }, "spec": spec });
    store.create(CLUSTERS, fixtures::cluster(&changes));
}

/// Finds what the drift loop finds: if the state was read, it reads another one.
pub(super) fn find_drift(
    memory: &Memory,
    own: &Cache<Readable<ClusterObject>>,
    cluster: &Arc<Readable<ClusterObject>>,
) {
    let uid = cluster.meta().uid.as_deref().unwrap_or_default();
    if memory.reading(uid).is_some() {
        memory.doubt(uid);
        own.wake_it(cluster);
    }
}

type Change = fn(&mut Store, &str);

/// What can happen next about a name. What takes nothing of the bounds happens sooner or later.
pub(super) fn acts(store: &Store, name: &'static str) -> Vec<Act> {
    let mut acts = of_people(store, name);
    let all = store.all(INFRASTRUCTURES);
    let ours = all
        .values()
        .filter(|it| name_of(it).starts_with(&format!("podloom-{CLUSTERS}-{name}")));
    for infrastructure in ours {
        of_manager(infrastructure, store, &mut acts);
    }
    acts
}

fn of_people(store: &Store, name: &'static str) -> Vec<Act> {
    let mut acts: Vec<Act> = Vec::new();
    let mut act = |what: &str, takes, change: Change| {
        let what = what.replace("{}", name);
        acts.push((what, takes, Box::new(move |store| change(store, name))));
    };
    let cluster = store.get(CLUSTERS, name);
    match cluster {
        None => act("somebody creates Cluster {} again", 1, create_cluster),
        Some(cluster) => {
            if !cluster.is_deleted() {
                act("somebody deletes Cluster {}", 1, |store, name| {
                    store.delete(CLUSTERS, name, &Value::Null);
                });
            }
            if cluster.value["spec"]["tosca"] == template(2) {
                act("somebody wants one more worker in Cluster {}", 1, grow);
            }
            if cluster.value["status"].is_object() {
                act("somebody wipes the status of Cluster {}", 1, wipe);
            }
            if cluster.value["status"]["clusterId"] != *OTHERS {
                act(
                    "somebody writes a foreign id into the status of Cluster {}",
                    1,
                    forge,
                );
            }
        }
    }
    if let Some(secret) = store.get(SECRETS, &kubeconfig(name)) {
        act("somebody deletes the kubeconfig of Cluster {}", 1, uncover);
        if cluster.is_none_or(|it| it.uid() != secret.controller()) {
            act(
                "garbage collection deletes the kubeconfig of Cluster {}",
                0,
                uncover,
            );
        }
    }
    acts
}

/// What IM does about an infrastructure, and what happens to its machines.
fn of_manager(infrastructure: &Stored, store: &Store, acts: &mut Vec<Act>) {
    let id = infrastructure.meta("name").to_owned();
    let mut act = |what: &str, takes, change: Change| {
        let what = what.replace("{}", &id);
        let id = id.clone();
        acts.push((what, takes, Box::new(move |store| change(store, &id))));
    };
    match state(infrastructure) {
        "pending" | "running" => {
            act("{} is configured", 0, |store, id| {
                store.change(INFRASTRUCTURES, id, |it| it["state"] = json!("configured"));
            });
            act("{} fails", 1, |store, id| set(store, id, "failed", 0));
            act("{} cannot be configured", 1, |store, id| {
                set(store, id, "unconfigured", 0)
            });
        }
        "configured" => {
            act("{} vanishes", 1, |store, id| {
                store.remove(INFRASTRUCTURES, id);
                drift(store, id);
            });
            act("{} is stopped", 1, |store, id| {
                harm(store, id, "stopped", 0)
            });
            if size(infrastructure) > 1 {
                act("{} loses a machine", 1, |store, id| {
                    harm(store, id, "configured", 1)
                });
            }
        }
        "deleting" => {
            act("{} is gone", 0, |store, id| {
                store.remove(INFRASTRUCTURES, id)
            });
            act("{} is gone, perhaps not for good", 1, |store, id| {
                let now = written(store.now);
                set(store, id, "gone", 0);
                store.change(INFRASTRUCTURES, id, |it| it["went"] = json!(now));
            });
        }
        "gone" => {
            if manager::is_there(infrastructure, store.now) {
                act("IM writes the record of {} back", 0, |store, id| {
                    set(store, id, "unknown", usize::MAX);
                });
            }
            act("{} is gone for good", 0, |store, id| {
                store.remove(INFRASTRUCTURES, id)
            });
        }
        _ => {}
    }
}

/// The name of the Secret with the kubeconfig.
pub(super) fn kubeconfig(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

fn uncover(store: &mut Store, cluster: &str) {
    store.remove(SECRETS, &kubeconfig(cluster));
}

fn grow(store: &mut Store, name: &str) {
    store.change(CLUSTERS, name, |it| it["spec"]["tosca"] = template(3));
}

fn wipe(store: &mut Store, name: &str) {
    store.change(CLUSTERS, name, |it| {
        it.as_object_mut().unwrap().remove("status");
    });
}

fn forge(store: &mut Store, name: &str) {
    store.change(CLUSTERS, name, |it| {
        it["status"]["clusterId"] = json!(OTHERS)
    });
}

fn harm(store: &mut Store, id: &str, state: &str, lacks: usize) {
    set(store, id, state, lacks);
    drift(store, id);
}

/// The drift loop will find it.
fn drift(store: &mut Store, id: &str) {
    store.create(DRIFTS, json!({ "metadata": { "name": id } }));
}
