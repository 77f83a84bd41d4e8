//! What is done to uninstall a release. Nothing else writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ApiResource;
use podloom_api::names::cleaner::annotation::{HOOK_RUN, PROTECT};
use podloom_api::{HelmHookRun, PropagationPolicy};
use podloom_engine::blocking::BlockingThreads;
use podloom_engine::kind::ResourceScope;
use podloom_helm::{
    ChartObject, HookDeletePolicy, Record, SECRET_KEY, SECRET_TYPE, label, unpacked_size,
};
use podloom_syntax::names::{dns_label, dns_subdomain};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::checked::{KindReference, is_object_name};
use crate::discovery::{FailureKind, RequestError, ServedKind};
use crate::helm::chart::PlannedHook;
use crate::helm::{Chart, HelmAction, HelmOutcome, HelmWorld, SeenHook, StoredRecord, Sweep};
use crate::objects::Place;
use crate::read::{Reader, is_terminating, metadata};

/// After this time, an action begins nothing more in a pass: what has begun may take a while.
const BEGIN_WITHIN: Duration = Duration::from_secs(15);

/// How much all charts that are being read may have together once they are unpacked, in MiB: one of the largest, or many small ones.
/// Each takes several times as much memory while it is read.
pub(crate) const CHARTS: u16 = 32;

/// What actions need.
#[derive(Clone, Copy)]
pub(crate) struct Tools<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) blocking: &'a BlockingThreads,
    /// How many [`CHARTS`] of memory are left.
    pub(crate) charts: &'a Arc<Semaphore>,
    pub(crate) now: Timestamp,
}

/// What came of an action, whether it went to its end or not.
type Done = Result<HelmOutcome, HelmOutcome>;

/// Executes one action.
pub(crate) async fn act(
    tools: Tools<'_>,
    world: &HelmWorld<'_>,
    action: &HelmAction,
) -> HelmOutcome {
    let done: Done = match action {
        HelmAction::List => list(tools, world).await,
        HelmAction::Read => read(tools, world).await,
        HelmAction::Mark => mark(tools, world).await,
        HelmAction::Purge => purge(tools, world).await,
        HelmAction::LookAtHook => look(tools, world).await,
        HelmAction::CreateHook => create(tools, world).await,
        HelmAction::DeleteHook(uid) => delete_hook(tools, world, uid).await,
        HelmAction::TidyHooks => tidy(tools, world).await,
        HelmAction::DeleteObjects(from) => delete_objects(tools, world, *from).await,
        HelmAction::GiveUp(progress) => Ok(HelmOutcome::GaveUp(progress.clone())),
    };
    done.unwrap_or_else(|outcome| outcome)
}

impl Tools<'_> {
    /// Finds the kind of an object of a chart. Whoever writes charts writes its group and version, and both are parts of a URL.
    async fn kind(&self, object: &ChartObject) -> Result<Arc<ServedKind>, RequestError> {
        let (group, version) = object
            .api_version
            .split_once('/')
            .unwrap_or(("", &object.api_version));
        let is_core = group.is_empty() && !object.api_version.contains('/');
        if dns_label(version).is_err() || !(is_core || dns_subdomain(group).is_ok()) {
            return Err(RequestError {
                kind: FailureKind::NotServed,
                message: "there is no such API version".to_owned(),
            });
        }
        let reference = KindReference::gvk(group, version, &object.kind);
        self.reader.discovery.find(&reference).await
    }

    /// Deletes an object of this UID, and what it owns after it.
    async fn delete(&self, place: Place<'_>, uid: &str) -> Result<(), RequestError> {
        let objects = &self.reader.objects;
        let deleted = objects.delete(place, uid, PropagationPolicy::Background);
        deleted.await.map(drop)
    }

    /// What the discovery knows of a kind is old, if it was found but is not served.
    async fn forget(&self, kind: &ServedKind, error: &RequestError) {
        if error.kind == FailureKind::NotServed {
            let ApiResource {
                group,
                version,
                kind,
                ..
            } = &kind.resource;
            let reference = KindReference::gvk(group, version, kind);
            self.reader.discovery.forget(&reference).await;
        }
    }
}

/// What this pass has read of the release. No step acts on a chart before that.
fn chart<'a>(world: &'a HelmWorld<'_>) -> Result<&'a Arc<Chart>, HelmOutcome> {
    let chart = world.learned.chart.as_ref();
    chart.ok_or_else(|| HelmOutcome::Trouble("the release was not read".to_owned()))
}

/// The outcome of a request about the records that failed.
fn trouble(error: &RequestError) -> HelmOutcome {
    HelmOutcome::Trouble(error_message(error))
}

/// What a status says of an error. The API server quotes what it calls invalid, and that may be a secret.
fn error_message(error: &RequestError) -> String {
    match error.kind {
        FailureKind::Refused => {
            "the API server calls it invalid, or an admission webhook refuses it".to_owned()
        }
        _ => error.to_string(),
    }
}

/// How many seconds a Job stays at least after it has ended: longer than it takes until it is looked at, also after a restart.
const JOB_STAYS: i64 = 300;

/// The hook whose turn it is.
struct Turn<'a> {
    hook: &'a PlannedHook,
    object: &'a ChartObject,
    run: &'a HelmHookRun,
    kind: Arc<ServedKind>,
}

/// Looks at the object of the hook whose turn it is.
async fn look(tools: Tools<'_>, world: &HelmWorld<'_>) -> Done {
    let turn = turn(tools, world).await?;
    match tools.reader.objects.get(turn.place(world)).await {
        Ok(None) => Ok(HelmOutcome::Seen(SeenHook::Missing)),
        Ok(Some(found)) => Ok(HelmOutcome::Seen(seen(&turn, &found, world))),
        Err(error) => {
            tools.forget(&turn.kind, &error).await;
            Err(failed(&error))
        }
    }
}

/// Creates the object of the hook whose turn it is.
async fn create(tools: Tools<'_>, world: &HelmWorld<'_>) -> Done {
    let turn = turn(tools, world).await?;
    let (hook, namespace) = (turn.hook.hook.clone(), world.namespace.to_owned());
    let read = tools.blocking.run(move || hook.document(&namespace));
    let document = read.await.map_err(|error| impossible(error.to_string()))?;
    let document = prepared(&turn, document, run_id(world, turn.run));
    let created = tools
        .reader
        .objects
        .create(&turn.kind, world.namespace, &document)
        .await;
    match created {
        Ok(created) => Ok(HelmOutcome::Seen(seen(&turn, &created, world))),
        // Somebody was faster: the next pass looks.
        Err(error) if error.kind == FailureKind::Conflict => Err(trouble(&error)),
        Err(error) => {
            tools.forget(&turn.kind, &error).await;
            Err(failed(&error))
        }
    }
}

/// Deletes the object with this UID that has the place of the hook whose turn it is.
async fn delete_hook(tools: Tools<'_>, world: &HelmWorld<'_>, uid: &str) -> Done {
    let turn = turn(tools, world).await?;
    match tools.delete(turn.place(world), uid).await {
        Ok(()) => Ok(HelmOutcome::HookDeleted),
        Err(error) if error.kind == FailureKind::Conflict => Err(trouble(&error)),
        // A hook that has failed stays then.
        Err(error) if turn.run.uid.is_some() && !error.is_transient() => {
            Ok(HelmOutcome::HookDeleted)
        }
        Err(error) => Err(failed(&error)),
    }
}

/// Deletes the objects of hooks that have succeeded. Only those that this Cleaner has created: others of their names stay.
async fn tidy(tools: Tools<'_>, world: &HelmWorld<'_>) -> Done {
    let chart = chart(world)?;
    let began = Instant::now();
    let mut left = None;
    let hooks = chart.hooks(world.progress.step).iter();
    for hook in hooks.filter(|it| it.hook.is_deleted(HookDeletePolicy::HookSucceeded)) {
        let Ok(object) = &hook.object else { continue };
        if began.elapsed() > BEGIN_WITHIN {
            return Ok(HelmOutcome::Unfinished);
        }
        match tidied(tools, world, object).await {
            Ok(()) => {}
            Err(error) if error.is_transient() => return Err(trouble(&error)),
            Err(error) => {
                let (kind, name) = (&hook.hook.kind, &hook.hook.name);
                left.get_or_insert(format!(
                    "the object of hook {kind} {name} stays: {}",
                    error_message(&error)
                ));
            }
        }
    }
    Ok(HelmOutcome::Tidied(left))
}

async fn tidied(
    tools: Tools<'_>,
    world: &HelmWorld<'_>,
    object: &ChartObject,
) -> Result<(), RequestError> {
    let kind = match tools.kind(object).await {
        Ok(kind) if kind.scope == ResourceScope::Namespaced => kind,
        Err(error) if error.kind != FailureKind::NotServed => return Err(error),
        Ok(_) | Err(_) => return Ok(()),
    };
    let place = place(&kind, world, &object.name);
    let Some(found) = tools.reader.objects.get(place).await? else {
        return Ok(());
    };
    let is_ours = text(&found, HOOK_RUN)
        .split_once('/')
        .is_some_and(|(cleaner, _)| cleaner == world.cleaner);
    if is_ours {
        tools.delete(place, metadata(&found, "uid")).await?;
    }
    Ok(())
}

/// Finds the hook whose turn it is, and the kind of its object.
async fn turn<'a>(tools: Tools<'_>, world: &'a HelmWorld<'_>) -> Result<Turn<'a>, HelmOutcome> {
    let progress = world.progress;
    let hooks = chart(world)?.hooks(progress.step);
    let hook = usize::try_from(progress.hooks_done)
        .ok()
        .and_then(|place| hooks.get(place));
    let (Some(hook), Some(run)) = (hook, &progress.hook) else {
        return Err(HelmOutcome::Trouble("no hook runs".to_owned()));
    };
    let object = hook
        .object
        .as_ref()
        .map_err(|why| impossible(why.clone()))?;
    let kind = tools.kind(object).await.map_err(|error| failed(&error))?;
    if kind.scope == ResourceScope::Cluster {
        let text = "its object would be in no namespace";
        return Err(impossible(text.to_owned()));
    }
    Ok(Turn {
        hook,
        object,
        run,
        kind,
    })
}

impl Turn<'_> {
    fn place<'a>(&'a self, world: &HelmWorld<'a>) -> Place<'a> {
        place(&self.kind, world, &self.object.name)
    }
}

/// What an object is to a run of a hook.
fn seen(turn: &Turn<'_>, found: &Value, world: &HelmWorld<'_>) -> SeenHook {
    let uid = metadata(found, "uid").to_owned();
    // A crash may have kept its UID from the status; and whoever may write the status could have written any UID there.
    let is_ours = text(found, HOOK_RUN) == run_id(world, turn.run)
        && turn.run.uid.as_ref().is_none_or(|ours| *ours == uid);
    if !is_ours && text(found, PROTECT) == "true" {
        let message = format!("the annotation {PROTECT} protects an object of its name");
        return SeenHook::Failed { uid: None, message };
    }
    if !is_ours {
        return SeenHook::Other {
            uid,
            is_terminating: is_terminating(found),
        };
    }
    match &turn.kind {
        kind if kind.is("batch", "Job") => job(found, uid),
        kind if kind.is("", "Pod") => pod(found, uid),
        _ => SeenHook::Succeeded { uid },
    }
}

fn job(job: &Value, uid: String) -> SeenHook {
    let conditions = job["status"]["conditions"].as_array();
    let is_true = |type_: &str| {
        let mut conditions = conditions.into_iter().flatten();
        conditions.find(|it| it["type"] == type_ && it["status"] == "True")
    };
    if is_true("Complete").is_some() {
        return SeenHook::Succeeded { uid };
    }
    match is_true("Failed") {
        Some(condition) => {
            let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            let message = format!("{}: {}", text("reason"), text("message"));
            SeenHook::Failed {
                uid: Some(uid),
                message,
            }
        }
        None => SeenHook::Running { uid },
    }
}

fn pod(pod: &Value, uid: String) -> SeenHook {
    match pod["status"]["phase"].as_str() {
        Some("Succeeded") => SeenHook::Succeeded { uid },
        Some("Failed") => SeenHook::Failed {
            uid: Some(uid),
            message: "the phase of the pod is Failed".to_owned(),
        },
        _ => SeenHook::Running { uid },
    }
}

/// What the object of a run is annotated with.
fn run_id(world: &HelmWorld<'_>, run: &HelmHookRun) -> String {
    format!("{}/{}", world.cleaner, run.started_at.0)
}

/// The value of an annotation; empty if there is none.
fn text<'a>(object: &'a Value, annotation: &str) -> &'a str {
    let value = &object["metadata"]["annotations"][annotation];
    value.as_str().unwrap_or_default()
}

/// The object with our annotation. A Job stays long enough for its result to be seen: nobody watches it.
fn prepared(turn: &Turn<'_>, mut document: Value, run: String) -> Value {
    let annotations = &mut document["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    annotations[HOOK_RUN] = run.into();
    let ttl = match turn.kind.is("batch", "Job") {
        true => document.pointer_mut("/spec/ttlSecondsAfterFinished"),
        false => None,
    };
    if let Some(ttl) = ttl.filter(|ttl| ttl.as_i64().is_some_and(|ttl| ttl < JOB_STAYS)) {
        *ttl = JOB_STAYS.into();
    }
    document
}

/// A request failed: the hook too, unless it may go well later.
fn failed(error: &RequestError) -> HelmOutcome {
    match error.is_transient() {
        true => trouble(error),
        false => impossible(error_message(error)),
    }
}

fn impossible(message: String) -> HelmOutcome {
    HelmOutcome::Seen(SeenHook::Failed { uid: None, message })
}

/// When Helm last wrote a record: a label, in seconds.
const MODIFIED_AT: &str = "modifiedAt";

/// Lists the records. Their payloads may be large, and only the last one is needed: this reads none.
async fn list(tools: Tools<'_>, world: &HelmWorld<'_>) -> Done {
    let release = &world.progress.release;
    let (owner, helm) = label::OWNER;
    let labels = format!("{owner}={helm},{}={release}", label::NAME);
    let fields = format!("type={SECRET_TYPE}");
    let secrets = secrets();
    let listed = tools
        .reader
        .objects
        .list_metadata(&secrets, world.namespace, (&labels, &fields));
    let found = listed.await.map_err(|error| trouble(&error))?;
    let mut records: Vec<StoredRecord> = found.iter().filter_map(|it| stored(it, world)).collect();
    records.sort_by_key(|record| record.revision);
    Ok(HelmOutcome::Listed(records))
}

/// Which revision a Secret holds; none if it has not the name of a record: Helm has not written it.
fn stored(secret: &Value, world: &HelmWorld<'_>) -> Option<StoredRecord> {
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
async fn read(tools: Tools<'_>, world: &HelmWorld<'_>) -> Done {
    let last = last(world)?.clone();
    let secrets = secrets();
    let read = match tools
        .reader
        .objects
        .get(place(&secrets, world, &last.name))
        .await
    {
        Ok(Some(secret)) => serde_json::from_value::<Secret>(secret),
        Ok(None) => return Err(gone()),
        Err(error) => return Err(trouble(&error)),
    };
    let unusable = |what: &str| {
        let text = format!("the Secret {} cannot be used: {what}", last.name);
        HelmOutcome::Trouble(text)
    };
    // The error would quote it.
    let mut secret = read.map_err(|_| unusable("it has not the form of a Secret"))?;
    if secret.metadata.uid.as_deref() != Some(&last.uid) {
        return Err(unusable("it has just been replaced"));
    }
    let payload = secret.data.as_mut().and_then(|all| all.remove(SECRET_KEY));
    let payload = payload.ok_or_else(|| unusable("it has no payload"))?;
    let version = secret.metadata.resource_version.unwrap_or_default();
    let (release, namespace) = (world.progress.release.clone(), world.namespace.to_owned());
    let weighed = weighed(tools, payload.0).await;
    let (payload, turn) = weighed.map_err(|error| unusable(&error))?;
    let revision = last.revision;
    let reading = tools.blocking.run(move || {
        let record = Record {
            release: &release,
            namespace: &namespace,
            revision,
        };
        Chart::read(&payload, record, version)
    });
    let chart = reading.await.map_err(|error| unusable(&error))?;
    Ok(HelmOutcome::Read(Arc::new(chart.with_turn(turn))))
}

/// The last record.
fn last<'a>(world: &'a HelmWorld<'_>) -> Result<&'a StoredRecord, HelmOutcome> {
    let last = world.learned.records.iter().flatten().last();
    last.ok_or_else(|| HelmOutcome::Trouble("the release has no record".to_owned()))
}

fn gone() -> HelmOutcome {
    HelmOutcome::Trouble("the record of the release is gone".to_owned())
}

/// A payload, and its part of the memory that all charts may take together: waits until there is enough left.
async fn weighed(
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
async fn mark(tools: Tools<'_>, world: &HelmWorld<'_>) -> Done {
    let read = Arc::clone(chart(world)?);
    let last = last(world)?;
    let now = tools.now;
    let version = read.version.clone();
    let packing = tools.blocking.run(move || {
        let payload = read.uninstalling(now);
        payload.map(|payload| STANDARD.encode(payload))
    });
    let payload = packing.await.map_err(|_| {
        let text = "the payload of the release cannot be written";
        HelmOutcome::Trouble(text.to_owned())
    })?;
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
    match tools.reader.objects.merge(place, &patch).await {
        Ok(Some(_)) => Ok(HelmOutcome::Marked),
        Ok(None) => Err(gone()),
        Err(error) => Err(trouble(&error)),
    }
}

/// Deletes the records, the oldest first. If one cannot be deleted, those of later revisions stay.
async fn purge(tools: Tools<'_>, world: &HelmWorld<'_>) -> Done {
    let began = Instant::now();
    let secrets = secrets();
    for record in world.learned.records.iter().flatten() {
        if began.elapsed() > BEGIN_WITHIN {
            return Ok(HelmOutcome::Unfinished);
        }
        let place = place(&secrets, world, &record.name);
        let deleted = tools.delete(place, &record.uid).await;
        deleted.map_err(|error| trouble(&error))?;
    }
    Ok(HelmOutcome::Purged)
}

fn of<'a>(world: &'a HelmWorld<'_>, revision: i64) -> Record<'a> {
    Record {
        release: &world.progress.release,
        namespace: world.namespace,
        revision,
    }
}

fn secrets() -> ServedKind {
    ServedKind::namespaced(ApiResource::erase::<Secret>(&()))
}

fn place<'a>(kind: &'a ServedKind, world: &HelmWorld<'a>, name: &'a str) -> Place<'a> {
    Place {
        kind,
        namespace: Some(world.namespace),
        name,
    }
}

/// Deletes objects of the manifest, from the one at this place. A failure of one stops no other.
async fn delete_objects(tools: Tools<'_>, world: &HelmWorld<'_>, from: usize) -> Done {
    let chart = chart(world)?;
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
        match delete_object(tools, world, object).await {
            Ok(None) => {}
            Ok(Some(object)) => sweep.skipped.push(object),
            Err(why) => {
                sweep.failed += 1;
                let text = || format!("{} {}: {why}", object.kind, object.name);
                sweep.first_failure.get_or_insert_with(text);
            }
        }
        sweep.done += 1;
    }
    Ok(HelmOutcome::Swept(sweep))
}

/// Deletes an object; one that is gone, or is going, is deleted too. Returns which one stays, as `kind/namespace/name`, if it is not this
/// release's or must stay.
///
/// # Errors
///
/// Says why it cannot be deleted now.
async fn delete_object(
    tools: Tools<'_>,
    world: &HelmWorld<'_>,
    object: &ChartObject,
) -> Result<Option<String>, String> {
    // Both would be parts of a URL. No object is in such a namespace or has such a name.
    if dns_label(&object.namespace).is_err() || !is_object_name(&object.name) {
        return Ok(None);
    }
    let kind = match tools.kind(object).await {
        Ok(kind) => kind,
        Err(error) if error.kind == FailureKind::NotServed => return Ok(None),
        Err(error) => return Err(error_message(&error)),
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
        return Ok(Some(identity(place)));
    }
    let found = match tools.reader.objects.get(place).await {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(None),
        Err(error) => {
            tools.forget(&kind, &error).await;
            return Err(error_message(&error));
        }
    };
    let annotations = annotations(&found);
    let record = of(world, world.progress.revision.unwrap_or_default());
    let is_ours = match place.namespace == Some(world.namespace) {
        true => !record.is_of_another(&annotations),
        false => record.owns(&annotations),
    };
    if !is_ours {
        return Ok(Some(identity(place)));
    }
    if is_terminating(&found) {
        return Ok(None);
    }
    if annotations
        .get(PROTECT)
        .is_some_and(|value| value == "true")
    {
        return Err(format!("its annotation {PROTECT} protects it"));
    }
    match tools.delete(place, metadata(&found, "uid")).await {
        Ok(()) => Ok(None),
        Err(error) => {
            tools.forget(&kind, &error).await;
            Err(error_message(&error))
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
    tools
        .reader
        .settings
        .excluded_namespaces
        .contains(namespace)
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

#[cfg(test)]
mod tests;
