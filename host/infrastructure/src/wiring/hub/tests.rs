use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::runtime::watcher::Event;
use podloom_api::{CloudObject, ClusterObject, InfrastructureProviderObject};
use podloom_control_loop::{ControlLoop, Next, handler_fn, source_fn, storage_fn};
use podloom_engine::readable::Readable;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Change, Hub};
use crate::cluster::Memory;
use crate::cluster::fixtures::remembering;
use crate::fixtures::{caches, cloud, cluster, known, metas, provider};
use crate::im::{ImState, Reading};
use crate::resolve::SecretKey;

const TEAM: Option<&str> = Some("team");

/// A hub that knows a Cluster of the namespace `team` on a Cloud of this namespace, with a provider of this kind.
fn hub(kind: &str) -> Hub {
    let of_provider = TEAM.filter(|_| kind == "InfrastructureProvider");
    let caches = caches(
        &[cloud(TEAM, kind)],
        &[provider(of_provider, "https://im.example.com")],
    );
    Hub {
        known: known(&[cluster(&json!({}))], caches),
        secrets: podloom_control_loop::Hints::default(),
        memory: Memory::default(),
    }
}

impl Hub {
    /// The Clusters that are woken.
    fn clusters(&self) -> Vec<String> {
        self.known.clusters.noted()
    }

    /// The Clouds of namespaces that are woken.
    fn clouds(&self) -> Vec<String> {
        self.known.caches.clouds.namespaced.noted()
    }

    /// The InfrastructureProviders that are woken.
    fn providers(&self) -> Vec<String> {
        self.known.caches.providers.namespaced.noted()
    }

    /// The GlobalInfrastructureProviders that are woken.
    fn global_providers(&self) -> Vec<String> {
        self.known.caches.providers.global.noted()
    }
}

fn object<K>(value: &Value) -> Readable<K>
where
    Readable<K>: DeserializeOwned,
{
    serde_json::from_value(value.clone()).unwrap()
}

/// The change from one object to another.
fn change<'a, K>(before: &'a K, after: &'a K) -> Change<'a, K> {
    Change {
        before: Some(before),
        after: Some(after),
        is_missed: false,
    }
}

#[test]
fn a_new_cluster_wakes_its_cloud_and_the_provider() {
    let hub = hub("GlobalInfrastructureProvider");
    let new: Readable<ClusterObject> = object(&cluster(&json!({})));
    hub.cluster(&Change {
        before: None,
        after: Some(&new),
        is_missed: false,
    });
    assert_eq!(hub.clouds(), ["dummy"]);
    assert_eq!(hub.global_providers(), ["im"]);
    assert!(hub.providers().is_empty());
}

#[test]
fn a_status_of_a_cluster_wakes_nobody_unless_it_needs_something_else() {
    let hub = hub("InfrastructureProvider");
    let before: Readable<ClusterObject> = object(&cluster(&json!({})));
    let online = object(&cluster(&json!({ "status": { "state": "ONLINE" } })));
    hub.cluster(&change(&before, &online));
    assert!(hub.clouds().is_empty());
    let gone = Change {
        before: Some(&before),
        after: None,
        is_missed: false,
    };
    hub.cluster(&gone);
    assert_eq!(hub.clouds(), ["dummy"]);
}

#[test]
fn a_cloud_wakes_its_clusters_when_it_gets_the_finalizer_and_not_for_its_status() {
    let hub = hub("InfrastructureProvider");
    let guarded = cloud(TEAM, "InfrastructureProvider");
    let mut bare = guarded.clone();
    bare["metadata"]["finalizers"] = json!([]);
    let (bare, guarded): (Readable<CloudObject>, _) = (object(&bare), object(&guarded));
    hub.cloud(&change(&bare, &guarded));
    assert_eq!(hub.clusters(), ["a"]);
    let mut online = cloud(TEAM, "InfrastructureProvider");
    online["status"] = json!({ "state": "ONLINE" });
    hub.cloud(&change(&guarded, &object(&online)));
    assert!(hub.clusters().is_empty());
}

#[test]
fn a_provider_that_becomes_ready_wakes_its_clouds_alone() {
    let hub = hub("GlobalInfrastructureProvider");
    let before = provider(None, "https://im.example.com");
    let mut after = before.clone();
    after["status"] = json!({ "conditions": [{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] });
    let (before, after): (Readable<InfrastructureProviderObject>, _) =
        (object(&before), object(&after));
    hub.provider(&change(&before, &after));
    assert_eq!(hub.clouds(), ["dummy"]);
    assert!(hub.clusters().is_empty());
}

#[test]
fn a_secret_wakes_whoever_names_it_and_the_clusters_behind_them() {
    let hub = hub("InfrastructureProvider");
    let secret =
        |name: &str| serde_json::from_value(json!({ "name": name, "namespace": "team" })).unwrap();
    hub.secret(&secret("account"));
    assert_eq!(hub.providers(), ["im"]);
    assert_eq!(hub.clouds(), ["dummy"]);
    assert_eq!(hub.clusters(), ["a"]);
    hub.secret(&secret("cloud"));
    assert!(hub.providers().is_empty());
    assert_eq!(hub.clusters(), ["a"]);
    hub.secret(&secret("unrelated"));
    assert!(hub.clusters().is_empty());
    // The one with its kubeconfig.
    hub.secret(&secret("a-kubeconfig"));
    assert_eq!(hub.clusters(), ["a"]);
}

const ID: &str = "22222222-2222-4222-8222-222222222222";

/// A Cluster that wants to take over an infrastructure waits for the one that has it.
#[test]
fn a_cluster_that_loses_its_infrastructure_wakes_the_one_that_wants_it() {
    let mut hub = hub("InfrastructureProvider");
    let adopting = cluster(&json!({
        "metadata": { "name": "b", "uid": "uid-of-b" }, "spec": { "adoptInfrastructureId": ID },
    }));
    let other = cluster(&json!({ "metadata": { "name": "c", "uid": "uid-of-c" } }));
    let caches = caches(&[cloud(TEAM, "InfrastructureProvider")], &[]);
    hub.known = known(&[cluster(&json!({})), adopting, other], caches);
    let has: Readable<ClusterObject> = object(&cluster(&json!({ "status": { "clusterId": ID } })));
    let gone = Change {
        before: Some(&has),
        after: None,
        is_missed: false,
    };
    hub.cluster(&gone);
    assert_eq!(hub.clusters(), ["b"]);
    let online = object(&cluster(
        &json!({ "status": { "clusterId": ID, "state": "ONLINE" } }),
    ));
    hub.cluster(&change(&has, &online));
    assert!(hub.clusters().is_empty());
    let forgot = object(&cluster(&json!({ "status": { "state": "PENDING" } })));
    hub.cluster(&change(&has, &forgot));
    assert_eq!(hub.clusters(), ["b"]);
}

/// A Cluster that came while the watch was broken shows in no event, and nor do the Secrets that it needs.
#[tokio::test(start_paused = true)]
async fn a_list_has_all_secrets_looked_at_again() {
    let hub = hub("InfrastructureProvider");
    hub.all();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handled = Arc::clone(&seen);
    let keeper = ControlLoop {
        hints: hub.secrets.clone(),
        ..ControlLoop::new(
            "secrets",
            source_fn(|_| async { Ok(Vec::new()) }),
            storage_fn(|_, secret: SecretKey| async move { Ok(Some(secret)) }),
            handler_fn(move |_, secret: SecretKey, _| {
                handled.lock().unwrap().push(secret.name);
                async { Ok(Next::Settled) }
            }),
        )
    };
    let work = keeper.run(CancellationToken::new());
    assert!(timeout(Duration::from_secs(1), work).await.is_err());
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["account", "cloud"]);
}

#[test]
fn a_cluster_that_vanished_while_the_watch_was_broken_is_forgotten() {
    let reading = Reading {
        state: ImState::Configured,
        vms: [].into(),
    };
    let hub = Hub {
        memory: remembering(&[("uid-of-a", reading)]),
        ..hub("InfrastructureProvider")
    };
    hub.listen(&metas(&[]));
    let clusters = &hub.known.clusters;
    clusters.show(None, &Event::Init);
    assert_eq!(hub.memory.len(), 1);
    clusters.show(None, &Event::InitDone);
    assert_eq!(hub.memory.len(), 0);
}

/// Whoever watches a Secret tells of it.
#[test]
fn all_are_looked_at_after_a_list() {
    let (hub, metas) = (hub("GlobalInfrastructureProvider"), metas(&[]));
    hub.listen(&metas);
    metas.0.show(None, &Event::InitDone);
    assert_eq!(
        (hub.clusters(), hub.clouds()),
        (vec!["a".to_owned()], vec!["dummy".to_owned()])
    );
    assert_eq!(hub.global_providers(), ["im"]);
}
