//! Keeps Secrets that Clusters need: a control loop with one id for each Secret that is named or has our finalizer.
//!
//! Secrets are no kind of ours: others write them, and we may lack the right to. Then a Warning on whoever names the Secret says, once,
//! that nothing keeps it from being deleted. Without the right to list and watch Secrets, none gets our finalizer: nobody would notice
//! which have it.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ObjectReference, Secret};
use kube::core::{ApiResource, ObjectMeta};
use podloom_api::names::infrastructure::{FIELD_MANAGER, reason};
use podloom_control_loop::{
    BoxError, ControlLoop, Ctx, Handler, Hints, Next, Options, Recorder, source_fn, storage_fn,
};
use podloom_engine::answer::Patched;
use podloom_engine::error::Attempt;
use podloom_engine::events::Notice;
use podloom_engine::kind::{Context, Source};
use podloom_engine::shown::shown;
use podloom_engine::write::{MetadataPatch, Target};
use podloom_turns::lock;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Known, Live, Release, Step, Users, step, unless_hidden};
use crate::resolve::{
    Key, SecretKey, TwinResources, is_guarded, secrets_named_by_cloud, secrets_named_by_provider,
};
use crate::secrets::SecretMetas;

/// The loop's name in metrics and logs.
const NAME: &str = "infrastructure-secrets";
/// How often all Secrets are looked at. Changes wake single ones.
const RESYNC: Duration = Duration::from_mins(10);
/// How many Secrets are looked at at once.
const WORKERS: usize = 2;

/// The handler of the loop.
pub(crate) struct Keeper {
    /// Sends requests and Events.
    pub(crate) ctx: Arc<Context>,
    /// Which Secrets there are.
    pub(crate) metas: SecretMetas,
    /// What may need them.
    pub(crate) known: Known,
    /// The same, as the API server knows it.
    pub(crate) live: Live,
    /// Secrets that somebody was warned about.
    pub(crate) warned: Mutex<HashSet<SecretKey>>,
}

/// What the caches know of a Secret.
pub(crate) enum Sight {
    /// Its metadata.
    Seen(Box<ObjectMeta>),
    /// Nothing: Secrets of its namespace may not be listed and watched.
    Hidden,
}

impl Keeper {
    /// Returns the loop's work, which runs until it is stopped. Begin it when the caches are filled.
    pub(crate) fn start(
        self,
        hints: Hints<SecretKey>,
        recorder: Arc<dyn Recorder>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let keeper = Arc::new(self);
        let (listed, metas) = (Arc::clone(&keeper), keeper.metas.clone());
        let source = source_fn(move |_| {
            let all = listed.all();
            async move { Ok(all) }
        });
        let storage = storage_fn(move |_, secret: SecretKey| {
            let found = match metas.are_known(&secret.namespace) {
                true => metas
                    .get(&secret)
                    .map(|it| Sight::Seen(Box::new(it.metadata.clone()))),
                false => Some(Sight::Hidden),
            };
            async move { Ok(found) }
        });
        let control = ControlLoop {
            options: Options {
                workers: NonZeroUsize::new(WORKERS).unwrap_or(NonZeroUsize::MIN),
                resync_interval: Some(RESYNC),
                ..Options::default()
            },
            recorder,
            hints,
            ..ControlLoop::new(NAME, source, storage, keeper)
        };
        control.run(stop).map(drop).boxed()
    }

    /// Returns the Secrets that something names, and those that have our finalizer.
    fn all(&self) -> Vec<SecretKey> {
        let mut all: BTreeSet<SecretKey> = self.metas.pick(is_guarded).into_iter().collect();
        all.extend(self.named().into_iter().flat_map(|(_, named)| named));
        all.into_iter().collect()
    }

    /// The Clouds and providers, with the Secrets that they name.
    fn named(&self) -> Vec<(ObjectReference, Vec<SecretKey>)> {
        let (global, resources) = (self.known.global(), &self.live.resources);
        let (clouds, providers) = (self.known.clouds(), self.known.providers());
        let clouds = clouds.iter().filter_map(|it| it.0.as_ref().ok());
        let clouds = clouds.map(|it| {
            let named = secrets_named_by_cloud(it, global);
            (reference(&resources.clouds, &it.metadata), named)
        });
        let providers = providers.iter().filter_map(|it| it.0.as_ref().ok());
        let providers = providers.map(|it| {
            let named = secrets_named_by_provider(it, global);
            (reference(&resources.providers, &it.metadata), named)
        });
        clouds.chain(providers).collect()
    }

    /// Writes the finalizers of a Secret. Nothing of the answer is kept, since it has the values.
    async fn write(
        &self,
        secret: &ObjectMeta,
        patch: &MetadataPatch,
    ) -> Result<Patched<IgnoredAny>, BoxError> {
        let resource = ApiResource::erase::<Secret>(&());
        let target = Target::of(&self.ctx.client, &resource, secret, FIELD_MANAGER);
        let patch = json!({ "metadata": {
            "uid": secret.uid,
            "resourceVersion": secret.resource_version,
            "finalizers": patch.finalizers,
        } });
        Ok(target.patch(patch, KEEP).await?)
    }

    /// Says once, on whoever names it, that nothing keeps a Secret from being deleted.
    fn warn(&self, secret: &SecretKey) {
        if !lock(&self.warned).insert(secret.clone()) {
            return;
        }
        let SecretKey { namespace, name } = secret;
        tracing::warn!(
            namespace,
            secret = name,
            "a Secret that Clusters need cannot be kept from being deleted: its finalizer was refused"
        );
        let note = format!(
            "nothing keeps Secret {} from being deleted while Clusters need it: the operator could not write its finalizer",
            shown(name)
        );
        let notice = Notice::warning(reason::UNGUARDED, note);
        for (about, named) in self.named() {
            if named.contains(secret) {
                self.ctx.events.send(about, notice.clone());
            }
        }
    }

    /// Adds the finalizer or removes it.
    async fn look(&self, secret: &SecretKey, object: &ObjectMeta) -> Result<(), BoxError> {
        for from in [Source::Cache, Source::Live] {
            let users = self.users(secret, object, from).await?;
            // Clusters read it before they create anything, and rely on nothing else.
            let patch = match step(object, &users, from, Release::AtOnce) {
                Step::Rest => return Ok(()),
                Step::Confirm => continue,
                Step::Write(patch) => patch,
            };
            match self.write(object, &patch).await? {
                Patched::Object(_) => {
                    lock(&self.warned).remove(secret);
                }
                Patched::Gone => {}
                // It is looked at again at the next list, since a right or a webhook may change.
                Patched::Rejected(_) => self.warn(secret),
            }
            return Ok(());
        }
        Ok(())
    }

    async fn users(
        &self,
        secret: &SecretKey,
        object: &ObjectMeta,
        from: Source,
    ) -> Result<Users, BoxError> {
        let seen = self.known.users_of_secret(secret);
        if from == Source::Cache {
            return Ok(seen);
        }
        let found = self.live.users_of_secret(secret).await;
        Ok(unless_hidden(found, object, seen)?)
    }
}

/// Writing the finalizer of a Secret. What the API server says about it may quote its values.
const KEEP: Attempt = Attempt::at_secret("KeepSecret", "set the finalizer of Secret");

impl Handler<SecretKey, Sight> for Keeper {
    async fn handle(
        &self,
        _: &Ctx,
        secret: &SecretKey,
        object: Option<Sight>,
    ) -> Result<Next, BoxError> {
        match object {
            Some(Sight::Seen(object)) => self.look(secret, &object).await?,
            Some(Sight::Hidden) if self.known.users_of_secret(secret).needs.is_some() => {
                self.warn(secret);
            }
            Some(Sight::Hidden) => {}
            None => {
                lock(&self.warned).remove(secret);
            }
        }
        Ok(Next::Settled)
    }
}

fn reference(resources: &TwinResources, object: &ObjectMeta) -> ObjectReference {
    let resource = resources.of(&Key::of(object));
    ObjectReference {
        api_version: Some(resource.api_version.clone()),
        kind: Some(resource.kind.clone()),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        uid: object.uid.clone(),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests;
