//! The records of a release: the Secrets that hold its revisions.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ApiResource;
use podloom_api::PropagationPolicy;
use podloom_engine::kind::ResourceScope;
use podloom_helm::{Record, SECRET_KEY, SECRET_TYPE, label, unpacked_size};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::{BEGIN_WITHIN, CHARTS, Tools, chart, trouble};
use crate::helm::chart::Chart;
use crate::helm::{HelmOutcome, HelmWorld, StoredRecord};
use crate::objects::Place;
use crate::served::ServedKind;
use crate::sight::metadata;

/// When Helm last wrote a record: a label, in seconds.
const MODIFIED_AT: &str = "modifiedAt";

/// Lists the records. Their payloads may be large, and only the last one is needed: this reads none.
pub(super) async fn list(tools: Tools<'_>, world: &HelmWorld<'_>) -> HelmOutcome {
    let release = &world.progress.release;
    let (owner, helm) = label::OWNER;
    let labels = format!("{owner}={helm},{}={release}", label::NAME);
    let fields = format!("type={SECRET_TYPE}");
    let secrets = secrets();
    let listed = tools
        .objects
        .list_metadata(&secrets, world.namespace, (&labels, &fields));
    match listed.await {
        Ok(found) => {
            let mut records: Vec<StoredRecord> =
                found.iter().filter_map(|it| record(it, world)).collect();
            records.sort_by_key(|record| record.revision);
            HelmOutcome::Listed(records)
        }
        Err(error) => trouble(&error),
    }
}

/// Which revision a Secret holds; none if it has not the name of a record: Helm has not written it.
fn record(secret: &Value, world: &HelmWorld<'_>) -> Option<StoredRecord> {
    let name = metadata(secret, "name");
    let revision = name.rsplit_once(".v")?.1.parse().ok()?;
    let expected = of(world, revision).secret_name();
    let uid = metadata(secret, "uid");
    (name == expected && !uid.is_empty()).then(|| StoredRecord {
        revision,
        name: expected,
        uid: uid.to_owned(),
    })
}

/// Reads the last record.
pub(super) async fn read(tools: Tools<'_>, world: &HelmWorld<'_>) -> HelmOutcome {
    let Some(last) = world.learned.records.iter().flatten().last().cloned() else {
        return HelmOutcome::Trouble("the release has no record".to_owned());
    };
    let secrets = secrets();
    let read = match tools.objects.get(place(&secrets, world, &last.name)).await {
        Ok(Some(secret)) => serde_json::from_value::<Secret>(secret),
        Ok(None) => return HelmOutcome::Trouble("the record of the release is gone".to_owned()),
        Err(error) => return trouble(&error),
    };
    let unusable = |what: &str| {
        let text = format!("the Secret {} cannot be used: {what}", last.name);
        HelmOutcome::Trouble(text)
    };
    // The error would quote it.
    let Ok(mut secret) = read else {
        return unusable("it has not the form of a Secret");
    };
    if secret.metadata.uid.as_deref() != Some(&last.uid) {
        return unusable("it has just been replaced");
    }
    let payload = secret.data.as_mut().and_then(|all| all.remove(SECRET_KEY));
    let Some(payload) = payload else {
        return unusable("it has no payload");
    };
    let version = secret.metadata.resource_version.unwrap_or_default();
    let (release, namespace) = (world.progress.release.clone(), world.namespace.to_owned());
    let (payload, turn) = match turn(tools, payload.0).await {
        Ok(its) => its,
        Err(error) => return unusable(&error),
    };
    let revision = last.revision;
    let reading = tools.blocking.run(move || {
        let record = Record {
            release: &release,
            namespace: &namespace,
            revision,
        };
        Chart::read(&payload, record, version)
    });
    match reading.await {
        Ok(chart) => HelmOutcome::Read(Arc::new(chart.with_turn(turn))),
        Err(error) => unusable(&error),
    }
}

/// A payload, and its part of the memory that all charts may take together: waits until there is enough left.
async fn turn(
    tools: Tools<'_>,
    payload: Vec<u8>,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), String> {
    let weighing = tools.blocking.run(move || {
        let size = unpacked_size(&payload);
        size.map(|size| (payload, size))
    });
    let (payload, size) = weighing.await.map_err(|error| error.to_string())?;
    let megabytes = u32::try_from(size.div_ceil(1024 * 1024)).unwrap_or(u32::MAX);
    let charts = Arc::clone(tools.charts);
    let turn = charts.acquire_many_owned(megabytes.clamp(1, CHARTS.into()));
    // It is never closed.
    Ok((payload, turn.await.ok()))
}

/// Writes into the record that the release is being uninstalled, unless somebody has changed it since it was read.
pub(super) async fn mark(tools: Tools<'_>, world: &HelmWorld<'_>) -> HelmOutcome {
    let read = match chart(world) {
        Ok(chart) => Arc::clone(chart),
        Err(outcome) => return outcome,
    };
    let Some(last) = world.learned.records.iter().flatten().last() else {
        return HelmOutcome::Trouble("the release has no record".to_owned());
    };
    let now = tools.now;
    let version = read.version.clone();
    let packing = tools.blocking.run(move || {
        let payload = read.uninstalling(now);
        payload.map(|payload| STANDARD.encode(payload))
    });
    let Ok(payload) = packing.await else {
        return HelmOutcome::Trouble("the payload of the release cannot be written".to_owned());
    };
    let patch = json!({
        "metadata": {
            "uid": last.uid,
            "resourceVersion": version,
            "labels": { label::STATUS: "uninstalling", MODIFIED_AT: now.as_second().to_string() },
        },
        "data": { SECRET_KEY: payload },
    });
    let secrets = secrets();
    let place = place(&secrets, world, &last.name);
    match tools.objects.merge(place, &patch).await {
        Ok(Some(_)) => HelmOutcome::Marked,
        Ok(None) => HelmOutcome::Trouble("the record of the release is gone".to_owned()),
        Err(error) => trouble(&error),
    }
}

/// Deletes the records, the oldest first. If one cannot be deleted, those of later revisions stay.
pub(super) async fn purge(tools: Tools<'_>, world: &HelmWorld<'_>) -> HelmOutcome {
    let began = Instant::now();
    let secrets = secrets();
    for record in world.learned.records.iter().flatten() {
        if began.elapsed() > BEGIN_WITHIN {
            return HelmOutcome::Unfinished;
        }
        let place = place(&secrets, world, &record.name);
        let deleted = tools
            .objects
            .delete(place, &record.uid, PropagationPolicy::Background);
        if let Err(error) = deleted.await {
            return trouble(&error);
        }
    }
    HelmOutcome::Purged
}

fn of<'a>(world: &'a HelmWorld<'_>, revision: i64) -> Record<'a> {
    Record {
        release: &world.progress.release,
        namespace: world.namespace,
        revision,
    }
}

fn secrets() -> ServedKind {
    ServedKind {
        resource: ApiResource::erase::<Secret>(&()),
        scope: ResourceScope::Namespaced,
    }
}

fn place<'a>(secrets: &'a ServedKind, world: &HelmWorld<'a>, name: &'a str) -> Place<'a> {
    Place {
        kind: secrets,
        namespace: Some(world.namespace),
        name,
    }
}
