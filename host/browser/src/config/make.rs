//! How warm pods are created and deleted.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use podloom_api::{BrowserSpec, SelenosisKind, WarmPool, names};
use podloom_engine::answer::Stored;
use podloom_engine::error::{Attempt, Error};
use podloom_engine::kind::Context;
use podloom_engine::write::{Deletion, Target};
use podloom_mutation::{PluginOutcome, PluginRun, PodRequest};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{BrowserConfigKind, Outcome, World};
use crate::cause::Cause;
use crate::pod::SeenPod;
use crate::policy::of_warm;
use crate::render::{
    ConfigRef, MERGED_MAX, POOLS_MAX, Pair, hostname, is_of_session, max_age, merged_size,
    owner_of_session, pools, render_pod, resolve, warm_problem,
};
use crate::warm::pools::{Created, Doomed, Pool, Pools};
use crate::warm::{PoolId, Recipe, uid};

const CREATE_POD: Attempt = Attempt::new("CreateWarmPod", "create warm pod");
const APPLY_POLICY: Attempt =
    Attempt::new("ApplyNetworkPolicy", "apply network policy of warm pods");
const DELETE_POD: Attempt = Attempt::new("DeleteWarmPod", "delete warm pod");

/// How long a pod is not created because sessions are taking others.
const GIVES_WAY: Duration = Duration::from_millis(250);
/// How often it is looked whether they are.
const GLANCE: Duration = Duration::from_millis(5);
/// After this time, another pass looks at what is wanted then.
const LONG: Duration = Duration::from_secs(3);
/// How many pods are deleted at the same time.
const DELETIONS: usize = 8;
/// How many pods start at the same time, without `maxStarting`.
const MAX_STARTING: usize = 5;
/// How many bytes a warm pod may have: each pool keeps one in memory.
const POD_MAX: usize = 64 << 10;

/// The schema lets no negative number pass.
fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

impl BrowserConfigKind {
    /// Looks at the warm pods of a BrowserConfig.
    pub(crate) async fn pools(&self, ctx: &Context, world: &World) -> Pools {
        let config = &world.config;
        let (metadata, now) = (&config.metadata, ctx.clock.now());
        let own = metadata.uid.as_deref().unwrap_or_default();
        let (mut others, is_busy) = self.warm_pods(metadata.namespace.as_deref(), own);
        let serves = metadata.deletion_timestamp.is_none();
        let wanted = pools(&config.spec).take(POOLS_MAX).filter(|_| serves);
        let mut all: Vec<Pool> = Vec::new();
        for (Pair { browser, version }, pool) in wanted {
            let id = PoolId {
                config: metadata.name.clone().unwrap_or_default(),
                uid: own.to_owned(),
                browser: browser.to_owned(),
                version: version.to_owned(),
            };
            let (pods, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|pod| id.has(pod));
            others = rest;
            let mut demand = self.memory.demand(&id, now);
            if self.memory.is_unknowing() {
                demand = demand.max(pods.len());
            }
            let wanted = demand.min(count(pool.max)).max(count(pool.min));
            let twin = all.iter().find(|other| other.id.looks_like(&id));
            let recipe = match twin.map(|twin| &twin.id) {
                Some(PoolId {
                    browser, version, ..
                }) => Some(Err(format!(
                    "its pods would have the labels of those of {browser} {version}: rename one"
                ))),
                None if wanted == 0 && pods.is_empty() => None,
                None => Some(self.recipe(world, &id, pool).await),
            };
            let (recipe, problem) = match recipe {
                Some(Ok(recipe)) => (Some(recipe), None),
                Some(Err(problem)) => (None, Some(problem)),
                None => (None, None),
            };
            all.push(Pool {
                wanted,
                max_age: max_age(pool),
                max_starting: pool.max_starting.map_or(MAX_STARTING, count),
                start_within: self.start_within,
                recipe,
                problem,
                id,
                pods,
                refused: None,
                is_cut_short: false,
            });
        }
        self.memory.keep_only(own, &all);
        Pools {
            all,
            others,
            is_busy,
            written: self.memory.written(own),
        }
    }

    /// Those of a BrowserConfig that the watch shows, but for those that are being taken or deleted, and whether there are such; and those
    /// that it does not show yet.
    fn warm_pods(&self, namespace: Option<&str>, config: &str) -> (Vec<Arc<SeenPod>>, bool) {
        let mut pods = self
            .caches
            .taken_or_waiting(&self.memory, namespace, config);
        let shown = pods.iter().map(|pod| uid(pod)).collect();
        let created = self.memory.created(config, &shown);
        pods.extend(created);
        let all = pods.len();
        pods.retain(|pod| !self.memory.is_reserved(pod));
        let is_busy = pods.len() < all;
        (pods, is_busy)
    }

    /// What the pods of a pool are made from now.
    async fn recipe(
        &self,
        world: &World,
        id: &PoolId,
        pool: &WarmPool,
    ) -> Result<Arc<Recipe>, String> {
        let of = (world.config.metadata.generation, self.mutator.chain());
        if let Some(known) = self.memory.recent_recipe(id, &of) {
            return known;
        }
        let recipe = self.new_recipe(world, id, pool).await.map(Arc::new);
        self.memory.knows(id, of, recipe.clone());
        recipe
    }

    async fn new_recipe(
        &self,
        world: &World,
        id: &PoolId,
        pool: &WarmPool,
    ) -> Result<Recipe, String> {
        let size = merged_size(&world.config.spec);
        if size > MERGED_MAX {
            return Err("the BrowserConfig is not accepted".to_owned());
        }
        let resources = pool.resources.as_ref();
        let pod = self.passed(world, id, resources).await?;
        let policy = world.config.spec.network_policy.clone();
        let recipe = Recipe::of(pod, policy);
        if resources.is_none() {
            return Ok(recipe);
        }
        let recipe = recipe.of_small_pods();
        let whole = self.passed(world, id, None).await?;
        match recipe.difference(&whole) {
            Some(why) => Err(format!("no session could take its pods: {why}")),
            None => Ok(recipe),
        }
    }

    /// The pod of a session without a name, as it comes from the chain. Its browser has these resources instead of its own, if any.
    async fn passed(
        &self,
        world: &World,
        id: &PoolId,
        resources: Option<&ResourceRequirements>,
    ) -> Result<Value, String> {
        let metadata = ObjectMeta {
            name: Some(placeholder(id)),
            namespace: world.config.metadata.namespace.clone(),
            ..ObjectMeta::default()
        };
        let mut pod = self.rendered(world, id, resources, &metadata)?;
        as_warm(&mut pod, id, &self.owner(id));
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
        let failed = |run: &&PluginRun| matches!(run.outcome, PluginOutcome::Ignored(_));
        if let Some(run) = mutated.runs.iter().find(failed)
            && self.memory.recipe(id).is_some()
        {
            // It may be a moment's failure, and all pods would be replaced for it.
            return Err(format!("plugin {} failed", run.plugin));
        }
        if let Some(problem) = problem_of_session(&mutated.pod) {
            return Err(problem);
        }
        let size = mutated.pod.to_string().len();
        if size > POD_MAX {
            return Err(format!(
                "the pod has {} KiB, and a warm pod at most {}",
                size >> 10,
                POD_MAX >> 10
            ));
        }
        Ok(mutated.pod)
    }

    fn rendered(
        &self,
        world: &World,
        id: &PoolId,
        resources: Option<&ResourceRequirements>,
        metadata: &ObjectMeta,
    ) -> Result<Value, String> {
        let spec = BrowserSpec {
            browser_name: id.browser.clone(),
            browser_version: id.version.clone(),
        };
        let configs: Vec<ConfigRef<'_>> = world.serving().map(ConfigRef::from).collect();
        let mut resolved = resolve(&configs, &spec).map_err(|error| error.to_string())?;
        if resolved.config != id.config {
            let other = resolved.config;
            return Err(format!("the older BrowserConfig {other} serves it"));
        }
        if let Some(problem) = warm_problem(&resolved.effective, resources) {
            return Err(problem);
        }
        if resources.is_some() {
            resolved.effective.settings.resources = resources.cloned();
        }
        let pod = render_pod(self.api, metadata, &spec, &resolved);
        let pod = pod.map_err(|error| error.to_string())?;
        serde_json::to_value(pod).map_err(|error| error.to_string())
    }

    /// Sees to it that nobody can reach the warm pods, and says why that is refused.
    async fn protect(
        &self,
        ctx: &Context,
        world: &World,
        id: &PoolId,
    ) -> Result<Option<String>, Error> {
        let metadata = &world.config.metadata;
        let wanted = world.config.spec.network_policy.as_ref();
        let policy = of_warm(wanted, id, metadata.namespace.clone(), self.owner(id));
        let text = json!(policy).to_string();
        if self.memory.was_applied(&id.uid, &text) {
            return Ok(None);
        }
        let target = Target {
            resource: &self.resources.policy,
            name: policy.metadata.name.as_deref().unwrap_or_default(),
            ..self.pods(ctx, world)
        };
        Ok(match target.apply::<Value>(&policy, APPLY_POLICY).await? {
            Stored::Object(_) | Stored::Exists => {
                self.memory.has_applied(&id.uid, text);
                None
            }
            Stored::Invalid(sentence)
            | Stored::Rejected { sentence, .. }
            | Stored::Unanswered(sentence) => Some(sentence),
        })
    }

    fn owner(&self, id: &PoolId) -> OwnerReference {
        OwnerReference {
            api_version: self.resources.config.api_version.clone(),
            kind: SelenosisKind::BrowserConfig.name().to_owned(),
            name: id.config.clone(),
            uid: id.uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }

    /// Creates pods one after the other, for each pool in turn. With eight at once and 50 sessions a second on two cores, a session took
    /// ten times as long.
    pub(crate) async fn create(
        &self,
        ctx: &Context,
        world: &World,
        lacking: &[(PoolId, usize)],
    ) -> Result<Outcome, Error> {
        let mut all = Vec::new();
        for (id, count) in lacking {
            let mut pools = world.pools.all.iter();
            let pool = pools.find(|pool| pool.id == *id);
            if let Some(recipe) = pool.and_then(|pool| pool.recipe.as_ref()) {
                let created = Created {
                    id: id.clone(),
                    pods: Vec::new(),
                    refused: self.protect(ctx, world, id).await?,
                    is_cut_short: false,
                };
                all.push((recipe, *count, created));
            }
        }
        let begun = Instant::now();
        let most = all.iter().map(|(_, count, _)| *count).max();
        for round in 0..most.unwrap_or(0) {
            for (recipe, count, created) in &mut all {
                if round >= *count || created.refused.is_some() {
                    continue;
                }
                if begun.elapsed() > LONG {
                    created.is_cut_short = true;
                    continue;
                }
                self.give_way(&created.id.uid).await;
                match self.create_one(ctx, world, (&created.id, recipe)).await? {
                    Ok(pod) => created.pods.extend(pod),
                    Err(refused) => created.refused = Some(refused),
                }
            }
        }
        let all: Vec<Created> = all.into_iter().map(|(_, _, created)| created).collect();
        if all.iter().any(|created| created.is_cut_short) {
            let metadata = &world.config.metadata;
            let name = metadata.name.as_deref().unwrap_or_default();
            let namespace = metadata.namespace.as_deref();
            self.caches.configs.wake(namespace, name);
        }
        Ok(Outcome::Created(all))
    }

    /// Creates a pod under a name of its own, or says why it is refused; none if the name is taken.
    async fn create_one(
        &self,
        ctx: &Context,
        world: &World,
        (id, recipe): (&PoolId, &Recipe),
    ) -> Result<Result<Option<Arc<SeenPod>>, String>, Error> {
        let name = format!("{}-{}", placeholder(id), random());
        let pod = named(recipe, &name);
        let target = Target {
            name: &name,
            ..self.pods(ctx, world)
        };
        Ok(match target.create::<SeenPod>(&pod, CREATE_POD).await? {
            Stored::Object(pod) => {
                let pod = Arc::from(pod);
                self.memory.has_created(&pod);
                Ok(Some(pod))
            }
            Stored::Exists => Ok(None),
            // With the name, which is random, no two messages were the same: each would be a new status and a new Event.
            Stored::Invalid(sentence)
            | Stored::Rejected { sentence, .. }
            | Stored::Unanswered(sentence) => Err(sentence.replace(&name, &placeholder(id))),
        })
    }

    /// Waits while sessions are taking pods of a BrowserConfig, but not for long: if the API server is busy, they are first.
    async fn give_way(&self, config: &str) {
        let waits = async {
            while self.memory.is_taking(config, GIVES_WAY) {
                sleep(GLANCE).await;
            }
        };
        let _in_vain = timeout(GIVES_WAY, waits).await;
    }

    /// Deletes pods that nobody has taken meanwhile.
    pub(crate) async fn delete(
        &self,
        ctx: &Context,
        world: &World,
        doomed: &[Doomed],
    ) -> Result<Outcome, Error> {
        let delete = |pod: Doomed| async move {
            let target = Target {
                name: &pod.name,
                ..self.pods(ctx, world)
            };
            let how = Deletion::Unchanged(&pod.version);
            match target.delete(&pod.uid, how, DELETE_POD).await {
                // If it changed, the watch shows how.
                Err(error) if !error.is_conflict() => Err(error),
                _ => Ok(()),
            }
        };
        let mut free = doomed.to_vec();
        free.retain(|pod| self.memory.reserve(&pod.uid, &pod.version));
        let answers: Vec<Result<(), Error>> = stream::iter(free)
            .map(delete)
            .buffer_unordered(DELETIONS)
            .collect()
            .await;
        answers.into_iter().collect::<Result<(), Error>>()?;
        let all = doomed.iter().map(|pod| pod.uid.clone());
        Ok(Outcome::Deleted(all.collect()))
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
    let before = pod["metadata"]["name"].as_str().unwrap_or_default();
    if pod["spec"]["hostname"] == hostname(before) {
        pod["spec"]["hostname"] = hostname(name).into();
    }
    let mut annotations: BTreeMap<String, Value> =
        serde_json::from_value(pod["metadata"]["annotations"].take()).unwrap_or_default();
    let hash = recipe.hash.clone();
    annotations.insert(names::annotation::RECIPE.to_owned(), hash.into());
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["annotations"] = json!(annotations);
    pod
}

/// Returns what a plugin has added that a warm pod cannot have, as it runs before anybody knows its session.
fn problem_of_session(pod: &Value) -> Option<String> {
    let lists = ["containers", "initContainers"];
    let containers = lists.iter().flat_map(|list| pod["spec"][*list].as_array());
    containers.flatten().find_map(|container| {
        let variables = container["env"].as_array();
        let read = variables.into_iter().flatten().find_map(|variable| {
            let path = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str()?;
            is_of_session(path).then(|| (variable["name"].as_str().unwrap_or_default(), path))
        });
        let (variable, path) = read?;
        let container = container["name"].as_str().unwrap_or_default();
        Some(format!(
            "a plugin gives container {container} the variable {variable} from {path}, and a warm pod has no session yet"
        ))
    })
}

/// A name for the pods of a pool, without what tells them apart.
fn placeholder(id: &PoolId) -> String {
    let words = format!("warm-{}-{}", id.browser, id.version).to_lowercase();
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

/// Makes a pod that was rendered for a Browser a warm one: of its BrowserConfig, and without the Browser's label.
fn as_warm(pod: &mut Value, id: &PoolId, owner: &OwnerReference) {
    let metadata = &mut pod["metadata"];
    metadata["ownerReferences"] = json!([owner]);
    let mut labels: BTreeMap<String, Value> =
        serde_json::from_value(metadata["labels"].take()).unwrap_or_default();
    labels.remove(names::label::BROWSER);
    labels.insert(
        names::label::WARM.to_owned(),
        names::label_value(&id.config).into(),
    );
    metadata["labels"] = json!(labels);
}

#[cfg(test)]
mod tests;
