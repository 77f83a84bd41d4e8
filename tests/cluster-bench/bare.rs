//! The bare client that the operator is compared with: it knows in advance what to write, and only writes it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, future};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use podloom_api::{BrowserObject, SelenosisKind, names};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::browsers::{PATIENCE, Progress, Workplace};

/// The namespace of the bare client.
const NAMESPACE: &str = "bench-bare";
/// The name of the Browser in the pod template.
pub(crate) const NAME: &str = "session-00000";

/// A piece of work for one Browser.
enum Work {
    /// The Browser was created: create its pod.
    Created(Box<BrowserObject>),
    /// The pod runs: write the status.
    Runs(Box<Pod>),
}

/// Makes all writes for all Browsers, and returns how long that took; `None` if a controller would interfere.
pub(crate) async fn measure(
    workplace: &Workplace,
    pod: &str,
    alone: bool,
) -> Result<Option<Progress>> {
    if !alone {
        return Ok(None);
    }
    eprintln!("bare client: {} Browsers", workplace.browsers);
    workplace.open(NAMESPACE).await?;
    let begun = Instant::now();
    let (sender, receiver) = mpsc::unbounded_channel();
    let created = async {
        let sender = sender.clone();
        workplace
            .create(NAMESPACE, |browser| {
                let _closed_at_the_end = sender.send(Work::Created(Box::new(browser)));
            })
            .await?;
        anyhow::Ok(begun.elapsed())
    };
    let watch = watch_pods(workplace, sender.clone());
    let writes = write(workplace, pod, receiver, begun);
    let done = future::try_join(created, writes);
    let (last_created, (last_pod, last_running)) = tokio::select! {
        done = timeout(PATIENCE, done) => done.context("the bare client did not finish in time")??,
        watched = watch => return Err(watched.err().context("the watch of Pods ended")?),
    };
    clean_up(workplace).await?;
    Ok(Some(Progress {
        last_created,
        last_pod,
        last_running,
    }))
}

async fn watch_pods(workplace: &Workplace, sender: mpsc::UnboundedSender<Work>) -> Result<()> {
    let api = workplace.pods(NAMESPACE);
    let config = watcher::Config::default().labels(names::label::BROWSER_NAME);
    let mut events = std::pin::pin!(watcher(api, config).applied_objects());
    let mut seen = HashSet::new();
    while let Some(pod) = events.try_next().await? {
        let status = pod.status.as_ref();
        let runs = status.is_some_and(|status| {
            status.phase.as_deref() == Some("Running") && status.pod_ip.is_some()
        });
        if runs && seen.insert(pod.name_any()) {
            let _closed_at_the_end = sender.send(Work::Runs(Box::new(pod)));
        }
    }
    Ok(())
}

/// Writes with the configured concurrency; returns when the last pod was created, and when the last status was written.
async fn write(
    workplace: &Workplace,
    pod: &str,
    receiver: mpsc::UnboundedReceiver<Work>,
    begun: Instant,
) -> Result<(std::time::Duration, std::time::Duration)> {
    let last_pod = Arc::new(Mutex::new(begun.elapsed()));
    // Each Browser has two pieces of work.
    let work = futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|work| (work, receiver))
    })
    .take(2 * workplace.browsers);
    work.map(|work| {
        let last_pod = Arc::clone(&last_pod);
        async move {
            match work {
                Work::Created(browser) => {
                    start(workplace, pod, &browser).await?;
                    *last_pod.lock().unwrap_or_else(PoisonError::into_inner) = begun.elapsed();
                }
                Work::Runs(pod) => publish(workplace, &pod).await?,
            }
            anyhow::Ok(())
        }
    })
    .buffer_unordered(workplace.concurrency)
    .try_for_each(|()| future::ready(Ok(())))
    .await?;
    let last_pod = *last_pod.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((last_pod, begun.elapsed()))
}

/// Writes finalizer and labels, the pod, and the first status.
async fn start(workplace: &Workplace, pod: &str, browser: &BrowserObject) -> Result<()> {
    let api = workplace.browsers(NAMESPACE);
    let name = browser.name_any();
    let metadata = json!({
        "uid": browser.metadata.uid,
        "resourceVersion": browser.metadata.resource_version,
        "finalizers": [names::finalizer::BROWSER],
        "labels": {
            names::label::BROWSER: name,
            names::label::BROWSER_NAME: "chrome",
            names::label::BROWSER_VERSION: "139.0",
        },
    });
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    api.patch(&name, &PatchParams::default(), &patch).await?;
    let pod = pod_of(workplace, pod, browser)?;
    let created = workplace
        .pods(NAMESPACE)
        .create(&PostParams::default(), &pod)
        .await?;
    let status = json!({
        "phase": "Pending",
        "podUID": created.metadata.uid,
        "observedGeneration": 1,
        "conditions": conditions(&name, "Unknown", "PodPending", "the pod is not running yet"),
    });
    write_status(workplace, &name, status).await
}

/// Writes the second status.
async fn publish(workplace: &Workplace, pod: &Pod) -> Result<()> {
    let name = pod.name_any();
    let status = pod.status.as_ref();
    let containers: Vec<Value> = status
        .and_then(|status| status.container_statuses.as_ref())
        .into_iter()
        .flatten()
        .map(|container| {
            json!({
                "name": container.name,
                "state": container.state,
                "image": container.image,
                "restartCount": container.restart_count,
            })
        })
        .collect();
    let status = json!({
        "phase": "Running",
        "podIP": status.and_then(|status| status.pod_ip.clone()),
        "startTime": status.and_then(|status| status.start_time.clone()),
        "containerStatuses": containers,
        "conditions": conditions(&name, "True", "Running", "the pod is running"),
    });
    write_status(workplace, &name, status).await
}

async fn write_status(workplace: &Workplace, name: &str, status: Value) -> Result<()> {
    let patch = Patch::Merge(json!({ "status": status }));
    workplace
        .browsers(NAMESPACE)
        .patch_status(name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

fn conditions(name: &str, ready: &str, reason: &str, message: &str) -> Value {
    let condition = |type_: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
        })
    };
    json!([
        condition(
            "ConfigResolved",
            "True",
            "Resolved",
            "a BrowserConfig defines chrome 139.0"
        ),
        condition("PodCreated", "True", "PodCreated", &format!("pod {name}")),
        condition("Ready", ready, reason, message),
    ])
}

/// The pod that the operator would create for this Browser.
fn pod_of(workplace: &Workplace, template: &str, browser: &BrowserObject) -> Result<Pod> {
    let name = browser.name_any();
    let mut pod: Pod = serde_json::from_str(&template.replace(NAME, &name))?;
    let resource = workplace.api.resource(SelenosisKind::Browser);
    pod.metadata.namespace = Some(NAMESPACE.to_owned());
    pod.metadata.owner_references = Some(vec![serde_json::from_value(json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "uid": browser.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }))?]);
    Ok(pod)
}

/// Deletes everything, so that the operator starts with the same empty cluster as the bare client.
async fn clean_up(workplace: &Workplace) -> Result<()> {
    let api = workplace.browsers(NAMESPACE);
    let all = api.list(&kube::api::ListParams::default()).await?;
    futures::stream::iter(all.items)
        .map(|browser| {
            let api = api.clone();
            async move {
                let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
                api.patch(&browser.name_any(), &PatchParams::default(), &patch)
                    .await
            }
        })
        .buffer_unordered(workplace.concurrency)
        .try_for_each(|_| future::ready(Ok(())))
        .await?;
    workplace.delete_all(NAMESPACE).await?;
    Ok(())
}
