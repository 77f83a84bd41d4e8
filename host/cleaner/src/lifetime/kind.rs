//! What the engine needs to keep a Cleaner for each object with a lifetime.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::core::{ApiResource, DynamicObject, ObjectMeta, PartialObjectMeta};
use podloom_api::names::cleaner::{FIELD_MANAGER, label};
use podloom_api::{Cleaner, CleanerSpec};
use podloom_engine::answer::{Patched, Stored};
use podloom_engine::cache::Cache;
use podloom_engine::error::{Attempt, Error};
use podloom_engine::kind::{Context, Kind, Remains, Source, Traits};
use podloom_engine::plan::Plan;
use podloom_engine::read::read_object;
use podloom_engine::readable::{Answered, Readable};
use podloom_engine::write::{Deletion, Target};
use podloom_turns::lock;
use serde_json::json;

use super::marks::{Expiry, MarkField, expiry, keys};
use super::plan::{Action, Found, World, cleaner_name, plan};
use crate::settings::{CleanerSettings, CleanerSetup};
use crate::world::StoredCleaner;

/// The name of the controllers in logs and metrics.
const CONTROLLER: &str = "lifetime";
/// Of how many objects it is remembered what was told. With more, some are told it again.
const TOLD_MAX: usize = 1000;

/// An object of any kind: nothing but its metadata is ever read.
type Marked = PartialObjectMeta<DynamicObject>;
/// The same in a cache.
pub(super) type Cached = Readable<Marked>;
/// The cache of Cleaners.
pub(super) type CachedCleaners = Cache<Readable<StoredCleaner>>;

/// The controller of the objects of one kind.
pub(super) struct MarkedKind {
    resource: Arc<ApiResource>,
    cleaner: ApiResource,
    cleaners: CachedCleaners,
    settings: Arc<CleanerSettings>,
    is_dry_run: bool,
    /// What was last told of an object, by its UID.
    told: Mutex<HashMap<String, String>>,
}

/// What came of an action.
pub(super) enum Outcome {
    /// The object as it is, or none.
    Object(Option<Box<Marked>>),
    Cleaner(Found),
    Refused(String),
    Told(String),
}

impl MarkedKind {
    pub(super) fn new(
        resource: Arc<ApiResource>,
        cleaners: CachedCleaners,
        setup: &CleanerSetup,
    ) -> Self {
        Self {
            resource,
            cleaner: Cleaner::resource(),
            cleaners,
            settings: Arc::clone(&setup.settings),
            is_dry_run: setup.lifetimes.is_dry_run,
            told: Mutex::default(),
        }
    }

    fn expiry(&self, object: &ObjectMeta) -> Result<Option<Expiry>, String> {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        match self.settings.excluded_namespaces.contains(namespace) {
            true => Ok(None),
            false => expiry(object),
        }
    }

    /// What was last told of an object. What is over is told again if it comes back.
    fn recall(
        &self,
        object: &ObjectMeta,
        expiry: &Result<Option<Expiry>, String>,
    ) -> Option<String> {
        let mut told = lock(&self.told);
        if *expiry == Ok(None) {
            told.remove(uid(object));
        }
        told.get(uid(object)).cloned()
    }

    fn remember(&self, world: &World, text: &str) {
        let mut told = lock(&self.told);
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        told.insert(uid(&world.object).to_owned(), text.to_owned());
    }

    async fn create(
        &self,
        target: Target<'_>,
        world: &World,
        spec: &CleanerSpec,
    ) -> Result<Outcome, Error> {
        let object = &world.object;
        let owner = OwnerReference {
            api_version: self.resource.api_version.clone(),
            kind: self.resource.kind.clone(),
            name: object.name.clone().unwrap_or_default(),
            uid: uid(object).to_owned(),
            ..OwnerReference::default()
        };
        let cleaner = json!({
            "apiVersion": self.cleaner.api_version,
            "kind": self.cleaner.kind,
            "metadata": {
                "name": target.name,
                "namespace": target.namespace,
                "labels": { label::MADE_FROM: label::MADE_FROM_TTL },
                "ownerReferences": [owner],
            },
            "spec": spec,
        });
        let attempt = Attempt::new("CreateCleaner", "create the Cleaner");
        let stored: Stored<Answered<StoredCleaner>> = target.create(&cleaner, attempt).await?;
        Ok(match stored {
            Stored::Object(made) => Outcome::Cleaner(found(object, &made.0)),
            Stored::Exists => Outcome::Cleaner(Found::Unseen),
            Stored::Invalid(sentence)
            | Stored::Rejected { sentence, .. }
            | Stored::Unanswered(sentence) => refused(&target, &sentence),
        })
    }

    async fn change(
        &self,
        target: Target<'_>,
        world: &World,
        spec: &CleanerSpec,
    ) -> Result<Outcome, Error> {
        let Found::Ours(cleaner) = &world.cleaner else {
            return Ok(Outcome::Cleaner(world.cleaner.clone()));
        };
        let ObjectMeta {
            uid,
            resource_version,
            ..
        } = &cleaner.metadata;
        let metadata = json!({ "uid": uid, "resourceVersion": resource_version });
        let patch = json!({ "metadata": metadata, "spec": spec });
        let attempt = Attempt::new("ChangeCleaner", "change the Cleaner");
        let done: Patched<Answered<StoredCleaner>> = target.patch(patch, attempt).await?;
        Ok(match done {
            Patched::Object(changed) => Outcome::Cleaner(found(&world.object, &changed.0)),
            Patched::Gone => Outcome::Cleaner(Found::Nothing),
            Patched::Rejected(sentence) => refused(&target, &sentence),
        })
    }

    /// Deletes the Cleaner as it was seen. One that has begun to delete meanwhile is another one.
    async fn delete(&self, target: Target<'_>, world: &World) -> Result<Outcome, Error> {
        if let Found::Ours(cleaner) = &world.cleaner {
            let version = cleaner.metadata.resource_version.as_deref();
            let how = Deletion::ForceUnchanged(version.unwrap_or_default());
            target
                .delete(uid(&cleaner.metadata), how, Attempt::DELETE)
                .await?;
        }
        Ok(Outcome::Cleaner(Found::Nothing))
    }
}

fn refused(target: &Target<'_>, sentence: &str) -> Outcome {
    let name = target.name;
    Outcome::Refused(format!(
        "the Cleaner {name} of this object cannot be written: {sentence}"
    ))
}

fn uid(object: &ObjectMeta) -> &str {
    object.uid.as_deref().unwrap_or_default()
}

/// Whether a Cleaner is the one that was made for the object.
fn found(object: &ObjectMeta, cleaner: &StoredCleaner) -> Found {
    let metadata = &cleaner.metadata;
    let labels = metadata.labels.as_ref();
    let made_from = labels.and_then(|it| it.get(label::MADE_FROM));
    let mut owners = metadata.owner_references.iter().flatten();
    let is_ours = made_from.is_some_and(|it| it == label::MADE_FROM_TTL)
        && owners.any(|owner| owner.uid == uid(object))
        && cleaner.spec.spec().is_some();
    match is_ours {
        true => Found::Ours(Box::new(cleaner.clone())),
        false => Found::Foreign,
    }
}

impl Kind for MarkedKind {
    type Object = Marked;
    type World = World;
    type Action = Action;
    type Outcome = Outcome;

    const TRAITS: Traits = Traits::of("Lifetime", CONTROLLER, FIELD_MANAGER);

    async fn observe(&self, _: &Context, marked: &Marked, source: Source) -> Result<World, Error> {
        let object = marked.metadata.clone();
        let expiry = self.expiry(&object);
        let mut world = World {
            kind: Arc::clone(&self.resource),
            is_live: source == Source::Live,
            cleaner: Found::Nothing,
            is_dry_run: self.is_dry_run,
            told: self.recall(&object, &expiry),
            refused: None,
            expiry,
            object,
        };
        let namespace = world.object.namespace.as_deref();
        let cached = self.cleaners.get(namespace, &cleaner_name(&world));
        world.cleaner = match cached.as_deref().map(|it| &it.0) {
            None => Found::Nothing,
            Some(Ok(cleaner)) => found(&world.object, cleaner),
            Some(Err(_)) => Found::Foreign,
        };
        Ok(world)
    }

    fn plan(&self, world: &World, now: Timestamp) -> Plan<Action> {
        plan(world, now)
    }

    async fn act(&self, ctx: &Context, world: &World, action: &Action) -> Result<Outcome, Error> {
        let name = cleaner_name(world);
        let target = Target {
            client: &ctx.client,
            resource: &self.cleaner,
            namespace: world.object.namespace.as_deref(),
            name: &name,
            field_manager: FIELD_MANAGER,
        };
        match action {
            Action::Read => {
                let (client, resource) = (&ctx.client, &*self.resource);
                let read = read_object(client, resource, &world.object).await?;
                Ok(Outcome::Object(read.map(Box::new)))
            }
            Action::Create(spec) => self.create(target, world, spec).await,
            Action::Change(spec) => self.change(target, world, spec).await,
            Action::Delete => self.delete(target, world).await,
            Action::Tell(text) => {
                self.remember(world, text);
                Ok(Outcome::Told(text.clone()))
            }
        }
    }

    fn learn(&self, world: &mut World, outcome: Outcome) -> Remains {
        match outcome {
            Outcome::Object(None) => return Remains::Unknown,
            Outcome::Object(Some(object)) => {
                world.object = object.metadata;
                world.expiry = self.expiry(&world.object);
                world.is_live = true;
            }
            Outcome::Cleaner(found) => {
                if matches!(found, Found::Ours(_)) {
                    // What was wrong is over.
                    lock(&self.told).remove(uid(&world.object));
                }
                world.cleaner = found;
            }
            Outcome::Refused(sentence) => world.refused = Some(sentence),
            Outcome::Told(text) => world.told = Some(text),
        }
        Remains::Object
    }

    fn metadata(world: &World) -> &ObjectMeta {
        &world.object
    }
}

/// Leaves of an object what its lifetime needs, since all objects of the kind are cached.
pub(super) fn prune(object: &mut Cached) {
    let metadata = object.meta_mut();
    metadata.owner_references = None;
    metadata.finalizers = None;
    for (field, all) in [
        (MarkField::Annotation, &mut metadata.annotations),
        (MarkField::Label, &mut metadata.labels),
    ] {
        if let Some(all) = all {
            all.retain(|key, _| keys(field).any(|it| it == key));
        }
    }
}
