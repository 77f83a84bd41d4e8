//! How warm pods are made and deleted.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use podloom_api::{BrowserSpec, SelenosisKind, WarmPool, duration, names};
use podloom_engine::answer::Stored;
use podloom_engine::error::{Attempt, Error};
use podloom_engine::kind::Context;
use podloom_engine::write::{Deletion, Target};
use podloom_mutation::PodRequest;
use serde_json::{Value, json};

use super::{BrowserConfigKind, Outcome, World};
use crate::cause::Cause;
use crate::guard;
use crate::pod::SeenPod;
use crate::render::{
    ConfigRef, LEAST_AGE, hostname, owner_of_session, render_pod, resolve, warm_problem,
};
use crate::warm::keep::{Doomed, Keep, Warm};
use crate::warm::{Pool, Recipe};

const MAKE_POD: Attempt = Attempt::new("MakeWarmPod", "create warm pod");
const GUARD: Attempt = Attempt::new("ApplyNetworkPolicy", "apply network policy of warm pods");
const DROP_POD: Attempt = Attempt::new("DropWarmPod", "delete warm pod");

/// How many requests are on their way at the same time.
const AT_ONCE: usize = 8;
/// How long a pod waits at most, without `maxAge`: less than the five minutes after which seleniferous gives up by default.
const MAX_AGE: Duration = Duration::from_mins(4);
/// How many pods start at the same time, without `maxStarting`.
const MAX_STARTING: usize = 5;

/// Returns how long a pod of a pool waits at most.
pub(crate) fn max_age(pool: &WarmPool) -> Duration {
    let given = pool.max_age.as_deref().map(duration::parse);
    let given = given.and_then(Result::ok).unwrap_or(MAX_AGE);
    given.max(LEAST_AGE)
}

/// The schema lets no negative number pass.
fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

impl BrowserConfigKind {
    /// Looks at the warm pods of a BrowserConfig.
    pub(crate) async fn warm(&self, ctx: &Context, world: &World) -> Warm {
        let config = &world.config;
        let (metadata, now) = (&config.metadata, ctx.clock.now());
        let own = metadata.uid.as_deref().unwrap_or_default();
        let (mut others, is_busy) = self.warm_pods(metadata.namespace.as_deref(), own);
        let mut keeps = Vec::new();
        for (browser, versions) in config.spec.warm.iter().flatten() {
            for (version, wanted) in versions {
                let pool = Pool {
                    config: metadata.name.clone().unwrap_or_default(),
                    uid: own.to_owned(),
                    browser: browser.clone(),
                    version: version.clone(),
                };
                let (pods, rest) = others.into_iter().partition(|pod| pool.has(pod));
                others = rest;
                let demand = self.memory.demand(&pool, now).min(count(wanted.max));
                keeps.push(Keep {
                    wanted: demand.max(count(wanted.min)),
                    max_age: max_age(wanted),
                    max_starting: wanted.max_starting.map_or(MAX_STARTING, count),
                    recipe: self.recipe(world, &pool).await,
                    pool,
                    pods,
                });
            }
        }
        self.memory.keep_only(own, &keeps);
        Warm {
            keeps,
            others,
            is_busy,
            start_within: self.start_within,
            refused: None,
            written: self.memory.written(own),
        }
    }

    /// Those of a BrowserConfig that the watch shows, but for those that are being taken or deleted, and whether there are such; and those
    /// that it does not show yet.
    fn warm_pods(&self, namespace: Option<&str>, config: &str) -> (Vec<Arc<SeenPod>>, bool) {
        let mut pods = self.caches.warm.all_in(namespace);
        pods.retain(|pod| pod.controller() == Some(config));
        let all = pods.len();
        pods.retain(|pod| !self.memory.is_reserved(pod));
        let is_busy = pods.len() < all;
        pods.extend(self.memory.made(config));
        (pods, is_busy)
    }

    /// What the pods of a pool are made from now.
    async fn recipe(&self, world: &World, pool: &Pool) -> Result<Arc<Recipe>, String> {
        let of = (world.config.metadata.generation, self.mutator.chain());
        if let Some(known) = self.memory.recent_recipe(pool, &of) {
            return known;
        }
        let recipe = self.new_recipe(world, pool).await.map(Arc::new);
        self.memory.knows(pool, of, recipe.clone());
        recipe
    }

    async fn new_recipe(&self, world: &World, pool: &Pool) -> Result<Recipe, String> {
        let metadata = ObjectMeta {
            name: Some(placeholder(pool)),
            namespace: world.config.metadata.namespace.clone(),
            ..ObjectMeta::default()
        };
        let spec = BrowserSpec {
            browser_name: pool.browser.clone(),
            browser_version: pool.version.clone(),
        };
        let mut pod = {
            let configs: Vec<ConfigRef<'_>> = world.serving().map(ConfigRef::from).collect();
            let resolved = resolve(&configs, &spec).map_err(|error| error.to_string())?;
            if resolved.config != pool.config {
                let other = resolved.config;
                return Err(format!("the older BrowserConfig {other} serves it"));
            }
            if let Some(problem) = warm_problem(&resolved.effective) {
                return Err(problem);
            }
            let pod = render_pod(self.api, &metadata, &spec, &resolved);
            let pod = pod.map_err(|error| error.to_string())?;
            serde_json::to_value(pod).map_err(|error| error.to_string())?
        };
        waiting(&mut pod, pool, &self.owner(pool));
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let request = PodRequest {
            kind: SelenosisKind::Browser.name(),
            name: metadata.name.unwrap_or_default(),
            owner: owner_of_session(&pod, &namespace).unwrap_or_default(),
            labels: podloom_mutation::texts(&pod, "labels"),
            ..PodRequest::default()
        };
        let about = self.caches.namespaces.get(&namespace);
        let request = PodRequest {
            namespace,
            ..request.of_namespace(about)
        };
        let mutated = self.mutator.mutate(pod, request).await;
        let mutated = mutated.map_err(|rejected| Cause::from(&rejected.rejection).to_string())?;
        Ok(Recipe::of(
            mutated.pod,
            world.config.spec.network_policy.is_some(),
        ))
    }

    /// Sees to it that nobody can reach the pods that wait, and says why that is refused.
    async fn guard(
        &self,
        ctx: &Context,
        world: &World,
        pool: &Pool,
    ) -> Result<Option<String>, Error> {
        let namespace = world.config.metadata.namespace.clone();
        let policy = guard::of_waiting(pool, namespace, self.owner(pool));
        let target = Target {
            resource: &self.resources.policy,
            name: policy.metadata.name.as_deref().unwrap_or_default(),
            ..self.pods(ctx, world)
        };
        Ok(match target.apply::<Value>(&policy, GUARD).await? {
            Stored::Object(_) | Stored::Exists => None,
            Stored::Invalid(sentence)
            | Stored::Rejected { sentence, .. }
            | Stored::Unanswered(sentence) => Some(sentence),
        })
    }

    fn owner(&self, pool: &Pool) -> OwnerReference {
        OwnerReference {
            api_version: self.resources.config.api_version.clone(),
            kind: SelenosisKind::BrowserConfig.name().to_owned(),
            name: pool.config.clone(),
            uid: pool.uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }

    /// Makes pods for a pool.
    pub(crate) async fn make(
        &self,
        ctx: &Context,
        world: &World,
        pool: &Pool,
        count: usize,
    ) -> Result<Outcome, Error> {
        let keep = world.warm.keeps.iter().find(|keep| keep.pool == *pool);
        let Some(Ok(recipe)) = keep.map(|keep| keep.recipe.as_ref()) else {
            return Ok(Outcome::Made(Vec::new(), None));
        };
        if world.config.spec.network_policy.is_some()
            && let Some(refused) = self.guard(ctx, world, pool).await?
        {
            return Ok(Outcome::Made(Vec::new(), Some(refused)));
        }
        let create = |_| async {
            let name = format!("{}-{}", placeholder(pool), random());
            let pod = named(recipe, &name);
            let target = Target {
                name: &name,
                ..self.pods(ctx, world)
            };
            target.create::<SeenPod>(&pod, MAKE_POD).await
        };
        let answers: Vec<_> = stream::iter(0..count)
            .map(create)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let (mut made, mut refused) = (Vec::new(), None);
        for answer in answers {
            match answer? {
                Stored::Object(pod) => made.push(Arc::from(pod)),
                Stored::Exists => {}
                Stored::Invalid(sentence)
                | Stored::Rejected { sentence, .. }
                | Stored::Unanswered(sentence) => refused = Some(sentence),
            }
        }
        for pod in &made {
            self.memory.has_made(pod);
        }
        Ok(Outcome::Made(made, refused))
    }

    /// Deletes pods that nobody has taken meanwhile.
    pub(crate) async fn drop_pods(
        &self,
        ctx: &Context,
        world: &World,
        doomed: &[Doomed],
    ) -> Result<Outcome, Error> {
        let delete = |pod: &Doomed| {
            let (name, uid, version) = (pod.name.clone(), pod.uid.clone(), pod.version.clone());
            async move {
                let target = Target {
                    name: &name,
                    ..self.pods(ctx, world)
                };
                let how = Deletion::Unchanged(&version);
                match target.delete(&uid, how, DROP_POD).await {
                    Ok(_) => Ok(uid),
                    // It changed: the watch shows how.
                    Err(error) if error.is_conflict() => Ok(uid),
                    Err(error) => Err(error),
                }
            }
        };
        let free = doomed
            .iter()
            .filter(|pod| self.memory.reserve(&pod.uid, &pod.version));
        let answers: Vec<Result<String, Error>> =
            stream::iter(free.map(delete).collect::<Vec<_>>())
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
        for answer in answers {
            answer?;
        }
        let all = doomed.iter().map(|pod| pod.uid.clone());
        Ok(Outcome::Dropped(all.collect()))
    }

    fn pods<'a>(&'a self, ctx: &'a Context, world: &'a World) -> Target<'a> {
        Target {
            resource: &self.resources.pod,
            ..Target::of(
                &ctx.client,
                &self.resources.config,
                &world.config.metadata,
                names::field_manager::BROWSER,
            )
        }
    }
}

/// The recipe's pod under a name of its own.
fn named(recipe: &Recipe, name: &str) -> Value {
    let mut pod = recipe.pod.clone();
    let before = pod["metadata"]["name"].take();
    if before.as_str().map(hostname).map(Value::from).as_ref() == Some(&pod["spec"]["hostname"]) {
        pod["spec"]["hostname"] = hostname(name).into();
    }
    let mut annotations: BTreeMap<String, Value> =
        serde_json::from_value(pod["metadata"]["annotations"].take()).unwrap_or_default();
    annotations.insert(
        names::annotation::WARM.to_owned(),
        recipe.hash.clone().into(),
    );
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["annotations"] = json!(annotations);
    pod
}

/// A name for the pods of a pool, without what tells them apart.
fn placeholder(pool: &Pool) -> String {
    let words = format!("warm-{}-{}", pool.browser, pool.version).to_lowercase();
    let dashed: String = words
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(48)
        .collect();
    dashed.trim_matches('-').to_owned()
}

/// Eight random hex digits. A name that exists is refused, and another one is tried.
fn random() -> String {
    format!("{:08x}", RandomState::new().hash_one(()) & 0xffff_ffff)
}

/// Makes a pod that was rendered for a Browser one that waits for any: of its BrowserConfig, and without the Browser's label.
fn waiting(pod: &mut Value, pool: &Pool, owner: &OwnerReference) {
    let metadata = &mut pod["metadata"];
    metadata["ownerReferences"] = json!([owner]);
    let mut labels: BTreeMap<String, Value> =
        serde_json::from_value(metadata["labels"].take()).unwrap_or_default();
    labels.remove(names::label::BROWSER);
    labels.insert(
        names::label::WARM.to_owned(),
        names::label_value(&pool.config).into(),
    );
    metadata["labels"] = json!(labels);
}
