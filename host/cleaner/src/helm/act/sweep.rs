//! Deletes the objects of the manifest, one after another in Helm's order.

use std::collections::BTreeMap;

use podloom_api::PropagationPolicy;
use podloom_api::names::cleaner::annotation::PROTECT;
use podloom_engine::kind::ResourceScope;
use podloom_helm::{ChartObject, Record};
use podloom_syntax::names::dns_label;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::{BEGIN_WITHIN, Tools, chart, told};
use crate::checked::is_object_name;
use crate::discovery::KindError;
use crate::helm::{HelmOutcome, HelmWorld, Sweep};
use crate::objects::Place;
use crate::served::ServedKind;
use crate::sight::metadata;

/// What became of an object.
enum Fate {
    /// Its deletion has begun, or it is gone.
    Deleted,
    /// It is not this release's, or must stay: as `kind/namespace/name`.
    Skipped(String),
    /// It cannot be deleted now.
    Failed(String),
}

/// Deletes objects of the manifest, from the one at this place. A failure of one stops no other.
pub(super) async fn delete(tools: Tools<'_>, world: &HelmWorld<'_>, from: usize) -> HelmOutcome {
    let chart = match chart(world) {
        Ok(chart) => chart,
        Err(outcome) => return outcome,
    };
    let began = Instant::now();
    let objects = &chart.objects.deleted;
    let mut sweep = Sweep {
        total: objects.len(),
        ..Sweep::default()
    };
    for object in objects.iter().skip(from) {
        // One at least, so that there is an end.
        if sweep.done > 0 && began.elapsed() > BEGIN_WITHIN {
            break;
        }
        match fate(tools, world, object).await {
            Fate::Deleted => {}
            Fate::Skipped(object) => sweep.skipped.push(object),
            Fate::Failed(why) => {
                sweep.failed += 1;
                let text = || format!("{} {}: {why}", object.kind, object.name);
                sweep.first_failure.get_or_insert_with(text);
            }
        }
        sweep.done += 1;
    }
    HelmOutcome::Swept(sweep)
}

async fn fate(tools: Tools<'_>, world: &HelmWorld<'_>, object: &ChartObject) -> Fate {
    // Both would be parts of a URL. No object is in such a namespace or has such a name.
    if dns_label(&object.namespace).is_err() || !is_object_name(&object.name) {
        return Fate::Deleted;
    }
    let kind = match tools.kind(object).await {
        Ok(kind) => kind,
        Err(KindError::Unknown(_)) => return Fate::Deleted,
        Err(KindError::Request(error)) => return Fate::Failed(told(&error)),
    };
    let place = Place {
        kind: &kind,
        namespace: match kind.scope {
            ResourceScope::Namespaced => Some(&object.namespace),
            ResourceScope::Cluster => None,
        },
        name: &object.name,
    };
    if is_excluded(tools, place) {
        return Fate::Skipped(identity(place));
    }
    let found = match tools.objects.get(place).await {
        Ok(Some(found)) => found,
        Ok(None) => return Fate::Deleted,
        Err(error) => {
            tools.forget(&kind, &error).await;
            return Fate::Failed(told(&error));
        }
    };
    let annotations = annotations(&found);
    let record = record(world);
    let is_ours = match place.namespace == Some(world.namespace) {
        true => !record.is_of_another(&annotations),
        false => record.owns(&annotations),
    };
    if !is_ours {
        return Fate::Skipped(identity(place));
    }
    if !found["metadata"]["deletionTimestamp"].is_null() {
        return Fate::Deleted;
    }
    if annotations
        .get(PROTECT)
        .is_some_and(|value| value == "true")
    {
        return Fate::Failed(format!("its annotation {PROTECT} protects it"));
    }
    let uid = metadata(&found, "uid");
    let deleted = tools
        .objects
        .delete(place, uid, PropagationPolicy::Background);
    match deleted.await {
        Ok(_) => Fate::Deleted,
        Err(error) => {
            tools.forget(&kind, &error).await;
            Fate::Failed(told(&error))
        }
    }
}

/// Whether the operator deletes nothing there, by its flag. That is also true of the namespace itself.
fn is_excluded(tools: Tools<'_>, place: Place<'_>) -> bool {
    let ServedKind { resource, .. } = place.kind;
    let is_namespace = resource.group.is_empty() && resource.kind == "Namespace";
    let namespace = match place.namespace {
        Some(namespace) => namespace,
        None if is_namespace => place.name,
        None => return false,
    };
    tools.excluded.contains(namespace)
}

fn record<'a>(world: &'a HelmWorld<'_>) -> Record<'a> {
    Record {
        release: &world.progress.release,
        namespace: world.namespace,
        revision: world.progress.revision.unwrap_or_default(),
    }
}

fn identity(place: Place<'_>) -> String {
    let kind = &place.kind.resource.kind;
    match place.namespace {
        Some(namespace) => format!("{kind}/{namespace}/{}", place.name),
        None => format!("{kind}/{}", place.name),
    }
}

fn annotations(object: &Value) -> BTreeMap<String, String> {
    BTreeMap::deserialize(&object["metadata"]["annotations"]).unwrap_or_default()
}
