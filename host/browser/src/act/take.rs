//! How a Browser takes a warm pod.

use std::sync::Arc;

use podloom_api::names;
use podloom_engine::answer::Patched;
use podloom_engine::error::{Attempt, Error};
use podloom_engine::kind::Context;
use podloom_engine::write::Target;
use serde_json::{Map, Value, json};

use crate::kind::{BrowserKind, READ_POD};
use crate::pod::SeenPod;
use crate::warm::{Pool, Recipe, difference, hash_of_spec, is_ready, uid, version};
use crate::world::World;

const TAKE_POD: Attempt = Attempt::new("TakePod", "take warm pod");

/// What keeps a session from a warm pod, if nothing else does.
const NONE_READY: &str = "no warm pod is ready";

/// How many pods are tried: each that is lost was taken or changed by somebody else a moment ago.
const TRIES: usize = 3;

impl BrowserKind {
    /// Gives a Browser the oldest warm pod of a pool that is the very pod which would be created for it, or says why there is none.
    ///
    /// The patch changes exactly the pod that the cache shows: of two Browsers that want it, one gets it, and one that changed or goes is
    /// nobody's.
    ///
    /// # Errors
    ///
    /// Returns an error if nobody knows whether the Browser has the pod now. The next pass looks.
    pub(crate) async fn take_warm(
        &self,
        ctx: &Context,
        world: &World,
        pool: &Pool,
        pod: &Value,
    ) -> Result<Result<Arc<SeenPod>, String>, Error> {
        let recipe = self.memory.warm.recipe(pool);
        let Some(recipe) = recipe else {
            return Ok(Err(NONE_READY.to_owned()));
        };
        if recipe.spec != hash_of_spec(pod) {
            let place = difference(&recipe.pod, pod).unwrap_or_else(|| "spec".to_owned());
            return Ok(Err(format!("{place} is not that of the warm pods")));
        }
        let fits = |it: &SeenPod| {
            pool.has(it) && it.warm.as_ref().is_some_and(|it| it.hash == recipe.hash)
        };
        let namespace = world.browser.metadata.namespace.as_deref();
        let mut waiting = self.caches.warm.all_in(namespace);
        waiting.retain(|it| fits(it) && is_ready(it));
        waiting.sort_by_key(|it| {
            let metadata = &it.metadata;
            (metadata.creation_timestamp.clone(), metadata.name.clone())
        });
        let mut why = None;
        let free = waiting
            .iter()
            .filter(|it| self.memory.warm.reserve(uid(it), version(it)));
        for found in free.take(TRIES) {
            let claim = claim(found, &recipe, pod);
            match self.take(ctx, world, found, claim).await {
                Ok(Ok(taken)) => return Ok(Ok(taken)),
                Ok(Err(refused)) => why = Some(refused),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Err(why.unwrap_or_else(|| NONE_READY.to_owned())))
    }

    /// Returns the pod that the Browser has after all, if it tried to take one and the answer was lost.
    pub(crate) async fn doubtful_pod(
        &self,
        ctx: &Context,
        world: &World,
    ) -> Result<Option<Arc<SeenPod>>, Error> {
        let owner = world.browser.metadata.uid.as_deref().unwrap_or_default();
        let Some(name) = self.memory.warm.doubtful(owner) else {
            return Ok(None);
        };
        let target = Target {
            name: &name,
            ..self.pod(ctx, world)
        };
        let read = target.read::<SeenPod>(READ_POD).await?;
        self.memory.warm.doubts(owner, None);
        Ok(read.filter(|pod| world.owns(pod)).map(Arc::new))
    }

    /// Makes one pod the Browser's own. It gets all metadata that a new one would have.
    async fn take(
        &self,
        ctx: &Context,
        world: &World,
        found: &SeenPod,
        claim: Value,
    ) -> Result<Result<Arc<SeenPod>, String>, Error> {
        let target = Target {
            name: found.metadata.name.as_deref().unwrap_or_default(),
            ..self.pod(ctx, world)
        };
        let owner = world.browser.metadata.uid.as_deref().unwrap_or_default();
        self.memory.warm.doubts(owner, Some(target.name));
        let patched = target.patch::<SeenPod>(claim, TAKE_POD).await;
        let refused = match patched {
            Ok(Patched::Object(taken)) if world.owns(&taken) => {
                self.memory.warm.doubts(owner, None);
                return Ok(Ok(Arc::from(taken)));
            }
            Ok(Patched::Object(_)) => "an admission policy does not let it have its pod".to_owned(),
            Ok(Patched::Gone) => "the warm pod is gone".to_owned(),
            // It may have been an answer that was lost.
            Ok(Patched::Rejected(sentence)) => sentence,
            Err(error) => {
                self.memory.warm.doubts(owner, None);
                return Err(error);
            }
        };
        let read = target.read::<SeenPod>(READ_POD).await?.map(Arc::new);
        self.memory.warm.doubts(owner, None);
        Ok(match read.filter(|read| world.owns(read)) {
            Some(taken) => Ok(taken),
            None => Err(refused),
        })
    }
}

/// The patch that makes a pod, as it was seen, the one that was to be created. What others have added to it since it was made stays.
fn claim(found: &SeenPod, recipe: &Recipe, pod: &Value) -> Value {
    let now = |field: &str| {
        let before = recipe.pod["metadata"][field].as_object();
        let before = before.into_iter().flatten();
        let mut entries: Map<String, Value> =
            before.map(|(key, _)| (key.clone(), Value::Null)).collect();
        let after = pod["metadata"][field].as_object();
        entries.extend(after.cloned().into_iter().flatten());
        entries
    };
    let mut labels = now("labels");
    labels.insert(names::label::WARM.to_owned(), Value::Null);
    json!({
        "metadata": {
            "uid": found.metadata.uid,
            "resourceVersion": found.metadata.resource_version,
            "labels": labels,
            "annotations": now("annotations"),
            "ownerReferences": pod["metadata"]["ownerReferences"],
        }
    })
}
