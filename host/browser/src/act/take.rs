//! How a Browser takes a warm pod.

use std::sync::Arc;

use jiff::Timestamp;
use podloom_api::names;
use podloom_engine::answer::Patched;
use podloom_engine::error::{Attempt, Error};
use podloom_engine::kind::Context;
use podloom_engine::plan::later;
use podloom_engine::write::{Deletion, Target};
use serde_json::{Map, Value, json};

use crate::kind::{BrowserKind, READ_POD};
use crate::pod::{SeenPod, instant};
use crate::render::resize;
use crate::warm::{Cold, FromPool, Recipe, is_ready, uid, version};
use crate::world::World;

const RESIZE_POD: Attempt = Attempt::new("ResizePod", "resize warm pod");
const TAKE_POD: Attempt = Attempt::new("TakePod", "take warm pod");
const DELETE_POD: Attempt = Attempt::new("DeletePod", "delete pod");

/// How many pods are tried, and how often each: one that is lost was taken or changed by somebody else a moment ago.
const TRIES: usize = 3;

/// What a Browser looks for, and the pod that would be created for it.
struct Search<'s> {
    from: &'s FromPool,
    recipe: &'s Recipe,
    pod: &'s Value,
    now: Timestamp,
}

impl Search<'_> {
    /// Whether the Browser can take a pod that waits.
    fn fits(&self, found: &SeenPod) -> bool {
        let created = instant(found.metadata.creation_timestamp.as_ref(), self.now);
        let mark = found.warm.as_ref();
        self.from.id.has(found)
            && mark.is_some_and(|mark| mark.recipe == self.recipe.hash)
            && is_ready(found)
            && later(created, self.from.max_age) > self.now
    }
}

/// What came of an attempt to take one pod.
enum Tried {
    Taken(Arc<SeenPod>),
    /// It was changed or taken by somebody else.
    Lost,
    /// Another pod would be refused too.
    Refused(String),
    /// This pod was not resized; another one may be.
    NotResized(String),
}

impl BrowserKind {
    /// Gives a Browser the oldest warm pod of a pool that is what would be created for it, or becomes that by a resize; or says why there
    /// is none.
    ///
    /// The patch changes exactly the version of the pod that was seen: of two Browsers that want it, one gets it. If it changed, it is
    /// read and tried again.
    ///
    /// # Errors
    ///
    /// Returns an error if nobody knows whether the Browser has the pod now. The next pass looks.
    pub(crate) async fn take_warm(
        &self,
        ctx: &Context,
        world: &World,
        from: &FromPool,
        pod: &Value,
    ) -> Result<Result<Arc<SeenPod>, Cold>, Error> {
        let recipe = self.memory.warm.recipe(&from.id);
        let Some(recipe) = recipe.filter(|recipe| recipe.policy == from.policy) else {
            return Ok(Err(Cold::NoneReady));
        };
        if let Some(sentence) = recipe.difference(pod) {
            return Ok(Err(Cold::Differs(sentence)));
        }
        let search = Search {
            from,
            recipe: &recipe,
            pod,
            now: ctx.clock.now(),
        };
        let namespace = world.browser.metadata.namespace.as_deref();
        let memory = &self.memory.warm;
        let mut warm = self
            .caches
            .taken_or_waiting(memory, namespace, &from.id.uid);
        warm.retain(|it| search.fits(it));
        warm.sort_by_key(|it| {
            let metadata = &it.metadata;
            (metadata.creation_timestamp.clone(), metadata.name.clone())
        });
        let free = warm
            .iter()
            .filter(|it| memory.hold(&from.id.uid, uid(it), version(it)));
        let mut cold = Cold::NoneReady;
        for found in free.take(TRIES) {
            match self.try_to_take(ctx, world, &search, found).await? {
                Tried::Taken(taken) => return Ok(Ok(taken)),
                Tried::Lost => memory.let_go(uid(found), version(found)),
                Tried::NotResized(sentence) => {
                    memory.release(uid(found));
                    cold = Cold::Refused(sentence);
                }
                Tried::Refused(sentence) => {
                    memory.release(uid(found));
                    return Ok(Err(Cold::Refused(sentence)));
                }
            }
        }
        Ok(Err(cold))
    }

    /// Returns the pod that the Browser has after all, if it tried to take or to create one and the answer was lost.
    pub(crate) async fn attempted_pod(
        &self,
        ctx: &Context,
        world: &World,
    ) -> Result<Option<Arc<SeenPod>>, Error> {
        let owner = world.browser.metadata.uid.as_deref().unwrap_or_default();
        let Some(name) = self.memory.warm.attempted(owner) else {
            return Ok(None);
        };
        let read = self.read_pod_named(ctx, world, &name).await?;
        self.memory.warm.settled(owner);
        Ok(read.filter(|pod| world.owns(pod)))
    }

    /// Makes one pod the Browser's own. It gets all metadata that a new one would have, and the resources.
    async fn try_to_take(
        &self,
        ctx: &Context,
        world: &World,
        search: &Search<'_>,
        found: &Arc<SeenPod>,
    ) -> Result<Tried, Error> {
        let target = Target {
            name: found.metadata.name.as_deref().unwrap_or_default(),
            ..self.pod(ctx, world)
        };
        let Some(spec) = search.recipe.for_resize(search.pod) else {
            return self.claim(world, &target, search, Arc::clone(found)).await;
        };
        let tried = match self.resize(&target, found, spec).await {
            Ok(Ok(resized)) => self.claim(world, &target, search, resized).await,
            Ok(Err(tried)) => Ok(tried),
            Err(error) => Err(error),
        };
        if !matches!(tried, Ok(Tried::Taken(_))) {
            self.discard_resized(&target, search, found).await;
        }
        tried
    }

    /// Deletes a pod that was resized for a session which has not taken it: the next one may want other resources.
    async fn discard_resized(&self, target: &Target<'_>, search: &Search<'_>, found: &SeenPod) {
        for _ in 0..TRIES {
            let Ok(Some(read)) = target.read::<SeenPod>(READ_POD).await else {
                return;
            };
            // A generation counts changes of the spec.
            let is_resized = read.metadata.generation != found.metadata.generation;
            if !is_resized || !search.from.id.has(&read) {
                return;
            }
            let how = Deletion::Unchanged(version(&read));
            match target.delete(uid(&read), how, DELETE_POD).await {
                Err(error) if error.is_conflict() => {}
                _ => return,
            }
        }
    }

    /// Gives a warm pod these resources, and returns it as it is then.
    async fn resize(
        &self,
        target: &Target<'_>,
        found: &SeenPod,
        spec: Value,
    ) -> Result<Result<Arc<SeenPod>, Tried>, Error> {
        let patch = json!({ "metadata": as_seen(found), "spec": spec });
        let answer = target.patch_subresource::<Value>("resize", patch.clone(), RESIZE_POD);
        Ok(match answer.await {
            Ok(Patched::Object(resized)) if resize::is_done(&patch["spec"], &resized["spec"]) => {
                match serde_json::from_value(*resized) {
                    Ok(resized) => Ok(Arc::new(resized)),
                    Err(error) => Err(Tried::NotResized(format!(
                        "the API server answered {error}"
                    ))),
                }
            }
            Ok(Patched::Object(_)) => Err(Tried::Refused(format!(
                "an admission policy gives warm pod {} other resources",
                target.name
            ))),
            Ok(Patched::Rejected(sentence)) => Err(Tried::NotResized(sentence)),
            Ok(Patched::Gone) => Err(match target.read::<SeenPod>(READ_POD).await? {
                Some(_) => Tried::Refused("this API server does not resize pods".to_owned()),
                None => Tried::Lost,
            }),
            Err(error) if error.is_conflict() => Err(Tried::Lost),
            Err(error) => return Err(error),
        })
    }

    /// Makes a pod the Browser's own as it was seen, or as it is now if its spec is the same and it still waits: its node may have written
    /// its status.
    async fn claim(
        &self,
        world: &World,
        target: &Target<'_>,
        search: &Search<'_>,
        mut seen: Arc<SeenPod>,
    ) -> Result<Tried, Error> {
        let owner = world.browser.metadata.uid.as_deref().unwrap_or_default();
        self.memory.warm.attempts(owner, target.name);
        let generation = seen.metadata.generation;
        let mut tried = Tried::Lost;
        for _ in 0..TRIES {
            tried = self.patch(world, target, &seen, search).await?;
            if let Tried::Taken(_) = tried {
                break;
            }
            // The answer to a first attempt may have been lost.
            let read = target.read::<SeenPod>(READ_POD).await?.map(Arc::new);
            match read {
                Some(read) if world.owns(&read) => {
                    tried = Tried::Taken(read);
                    break;
                }
                Some(read)
                    if matches!(tried, Tried::Lost)
                        && search.fits(&read)
                        && read.metadata.generation == generation =>
                {
                    seen = read;
                }
                _ => break,
            }
        }
        self.memory.warm.settled(owner);
        Ok(tried)
    }

    async fn patch(
        &self,
        world: &World,
        target: &Target<'_>,
        found: &SeenPod,
        search: &Search<'_>,
    ) -> Result<Tried, Error> {
        let patch = patch_for(found, search);
        Ok(match target.patch::<SeenPod>(patch, TAKE_POD).await {
            Ok(Patched::Object(taken)) if world.owns(&taken) => Tried::Taken(Arc::from(taken)),
            Ok(Patched::Object(_)) => {
                // It may be nobody's now.
                let deletion = target.delete(uid(found), Deletion::Graceful, DELETE_POD);
                drop(deletion.await);
                let name = target.name;
                Tried::Refused(format!(
                    "an admission policy keeps warm pod {name} from being taken"
                ))
            }
            Ok(Patched::Gone) => Tried::Lost,
            Ok(Patched::Rejected(sentence)) => Tried::Refused(sentence),
            Err(error) if error.is_conflict() => Tried::Lost,
            Err(error) => return Err(error),
        })
    }
}

/// What lets a patch change exactly the pod that was seen.
fn as_seen(found: &SeenPod) -> Value {
    let metadata = &found.metadata;
    json!({ "uid": metadata.uid, "resourceVersion": metadata.resource_version })
}

/// The patch that makes a pod, as it was seen, the one that was to be created. What others have added to it since it was made stays.
fn patch_for(found: &SeenPod, search: &Search<'_>) -> Value {
    let Search { recipe, pod, .. } = search;
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
    let mut metadata = as_seen(found);
    metadata["labels"] = labels.into();
    metadata["annotations"] = now("annotations").into();
    metadata["ownerReferences"] = pod["metadata"]["ownerReferences"].clone();
    json!({ "metadata": metadata })
}
