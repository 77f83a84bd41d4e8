//! The only writer: carries out one action of a plan, and returns its outcome.

mod take;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Resource;
use kube::core::Status;
use kube::core::response::reason::ALREADY_EXISTS;
use podloom_api::{BrowserObject, BrowserStatus, Phase, SelenosisKind, names};
use podloom_engine::answer::{Deleted, Patched, Stored};
use podloom_engine::error::{Attempt, Error};
use podloom_engine::kind::Context;
use podloom_engine::plain::plain;
use podloom_engine::plan::later;
use podloom_engine::read::{read_all, read_object};
use podloom_engine::readable::Answered;
use podloom_engine::write::{Deletion, MetadataPatch, Target};
use podloom_mutation::{LaterChange, PodRejection, PodRequest, RejectedPod, remarks};
use serde_json::Value;

use super::judge::patience;
use super::kind::BrowserKind;
use super::metrics;
use super::plan::missing_metadata;
use super::pod::SeenPod;
use super::render::owner_of_session;
use super::warm::{Cold, FromPool};
use super::world::World;
use super::world::{Action, ActionOutcome, PodDeletion};

const CREATE_POD: Attempt = Attempt::new("CreatePod", "create pod");
const APPLY_POLICY: Attempt = Attempt::new("ApplyNetworkPolicy", "apply network policy");
const DELETE_POD: Attempt = Attempt::new("DeletePod", "delete pod");

impl BrowserKind {
    /// Carries out one action.
    pub(super) async fn carry_out(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<ActionOutcome, Error> {
        match action {
            Action::ReadBrowser => {
                let resource = &*self.resources.browser;
                let live = read_object(&ctx.client, resource, &world.browser.metadata).await?;
                Ok(live.map_or(ActionOutcome::Gone, |live| {
                    ActionOutcome::Read(Box::new(live))
                }))
            }
            Action::ConfirmPod => self.confirm_pod(ctx, world).await,
            Action::ConfirmAbsence => self.confirm_absence(ctx, world).await,
            Action::SetMetadata(patch) => self.set_metadata(ctx, world, patch).await,
            Action::WriteStatus { status, .. } => self.write_status(ctx, world, status).await,
            Action::ApplyPolicy(policy) => self.apply_policy(ctx, world, policy).await,
            Action::CreatePod(pod) => self.create_pod(ctx, world, pod, None).await,
            Action::TakePod { pod, from } => self.create_pod(ctx, world, pod, Some(from)).await,
            Action::DeleteStray { name, uid } => {
                let target = self.pod(ctx, world);
                let stray = Target { name, ..target };
                let deletion = stray.delete(uid, Deletion::Graceful, DELETE_POD).await;
                if let Err(error) = deletion {
                    // The next pass tries again, and the garbage collector deletes it with the Browser.
                    tracing::warn!(
                        namespace = stray.namespace,
                        pod = stray.name,
                        error = plain(&error),
                        "could not delete the second pod of a session"
                    );
                }
                Ok(ActionOutcome::StrayDeleted(uid.clone()))
            }
            Action::DeletePod { uid, how } => self.delete_pod(ctx, world, uid, *how).await,
            Action::Delete => {
                let uid = world.browser.metadata.uid.as_deref().unwrap_or_default();
                let target = self.browser(ctx, world);
                let deletion = target.delete(uid, Deletion::Graceful, Attempt::DELETE);
                deletion.await.map(|_| ActionOutcome::Gone)
            }
        }
    }

    async fn confirm_pod(&self, ctx: &Context, world: &World) -> Result<ActionOutcome, Error> {
        let pod = self.read_pod(ctx, world).await?;
        let now = ctx.clock.now();
        let known = || self.memory.late_for(&world.browser.metadata);
        let own = pod.as_deref().filter(|pod| world.owns(pod));
        let late_until = own
            .and_then(|pod| patience(pod, &self.timeouts, now, known))
            .map(|rest| later(now, rest));
        Ok(ActionOutcome::Pod { pod, late_until })
    }

    async fn confirm_absence(&self, ctx: &Context, world: &World) -> Result<ActionOutcome, Error> {
        let pod = self.read_pod(ctx, world).await?;
        if pod.is_some() {
            return Ok(ActionOutcome::Absence { pod, configs: None });
        }
        let cached = world.configs.iter().map(|config| config.meta());
        let namespace = world.browser.metadata.namespace.as_deref();
        let resource = &self.resources.config;
        let live = read_all(&ctx.client, resource, namespace, cached).await?;
        let configs = live.map(|live| live.into_iter().map(Arc::new).collect());
        Ok(ActionOutcome::Absence { pod, configs })
    }

    async fn set_metadata(
        &self,
        ctx: &Context,
        world: &World,
        patch: &MetadataPatch,
    ) -> Result<ActionOutcome, Error> {
        let seen = &world.browser.metadata;
        let target = self.browser(ctx, world);
        let patched = target.set_metadata::<Answered<BrowserObject>>(seen, patch);
        Ok(match patched.await? {
            Patched::Object(answered) => {
                let browser = Box::new(answered.0);
                if browser.metadata.deletion_timestamp.is_none() {
                    let is_missing = missing_metadata(&browser).is_some();
                    let dropped = is_missing
                        .then(|| "an admission policy removes what the operator sets".to_owned());
                    return Ok(ActionOutcome::Marked { browser, dropped });
                }
                let finalizer = names::finalizer::BROWSER;
                if MetadataPatch::without(&browser.metadata, finalizer).is_some() {
                    return Err(Error::held_again());
                }
                ActionOutcome::Marked {
                    browser,
                    dropped: None,
                }
            }
            Patched::Rejected(sentence) => ActionOutcome::MetadataRejected(sentence),
            Patched::Gone => ActionOutcome::Gone,
        })
    }

    async fn write_status(
        &self,
        ctx: &Context,
        world: &World,
        status: &BrowserStatus,
    ) -> Result<ActionOutcome, Error> {
        let seen = &world.browser.metadata;
        let target = self.browser(ctx, world);
        let written = target.write_status(seen, world.status(), status).await?;
        Ok(written.map_or(ActionOutcome::Gone, ActionOutcome::StatusWritten))
    }

    async fn apply_policy(
        &self,
        ctx: &Context,
        world: &World,
        policy: &NetworkPolicy,
    ) -> Result<ActionOutcome, Error> {
        let target = Target {
            resource: &self.resources.policy,
            name: policy.metadata.name.as_deref().unwrap_or_default(),
            ..self.browser(ctx, world)
        };
        // It may be there from an attempt when the BrowserConfig said something else.
        Ok(match target.apply::<Value>(policy, APPLY_POLICY).await? {
            Stored::Object(_) | Stored::Exists => ActionOutcome::PolicyApplied,
            Stored::Invalid(sentence) => {
                ActionOutcome::PodRejected(PodRejection::Invalid(sentence))
            }
            Stored::Rejected { sentence, .. } | Stored::Unanswered(sentence) => {
                ActionOutcome::PodRejected(PodRejection::Forbidden(sentence))
            }
        })
    }

    /// Passes a pod through the plugin chain and creates the result, or takes a warm pod that can be it.
    async fn create_pod(
        &self,
        ctx: &Context,
        world: &World,
        pod: &Pod,
        from: Option<&FromPool>,
    ) -> Result<ActionOutcome, Error> {
        let pod = match serde_json::to_value(pod) {
            Ok(pod) => pod,
            Err(error) => {
                let reason = format!("the pod cannot be written as JSON: {error}");
                return Ok(ActionOutcome::PodRejected(PodRejection::Broken(reason)));
            }
        };
        let request = self.request(world);
        let request = PodRequest {
            owner: owner_of_session(&pod, &request.namespace).unwrap_or_default(),
            ..request
        };
        let (pod, remarks) = match self.pass(pod, request).await {
            Ok(passed) => passed,
            Err(rejected) => return Ok(ActionOutcome::PodRejected(rejected.rejection)),
        };
        let mut cold = None;
        if let Some(from) = from {
            match self.take_warm(ctx, world, from, &pod).await? {
                Ok(taken) => {
                    self.begins(ctx, world, from, None);
                    return Ok(ActionOutcome::PodTaken(taken, remarks));
                }
                Err(why) => cold = Some(why),
            }
        }
        let target = self.pod(ctx, world);
        let owner = world.browser.metadata.uid.as_deref().unwrap_or_default();
        if from.is_some() {
            // Or the next pass might take a warm pod besides.
            self.memory.warm.attempts(owner, target.name);
        }
        let stored = target.create::<SeenPod>(&pod, CREATE_POD).await?;
        if !matches!(stored, Stored::Unanswered(_)) {
            self.memory.warm.settled(owner);
        }
        Ok(match stored {
            Stored::Object(created) => {
                if let Some(from) = from {
                    self.begins(ctx, world, from, cold.as_ref());
                }
                let cold = cold.map(|why| why.to_string());
                ActionOutcome::PodCreated(Arc::from(created), remarks, cold)
            }
            Stored::Exists => match self.read_pod(ctx, world).await? {
                Some(found) => ActionOutcome::PodExists(found),
                None => return Err(gone_again(target.name)),
            },
            Stored::Invalid(sentence) => {
                ActionOutcome::PodRejected(PodRejection::Invalid(sentence))
            }
            // If only the answer was lost, the pod exists: then the next attempt finds it.
            Stored::Rejected { sentence, .. } | Stored::Unanswered(sentence) => {
                ActionOutcome::PodRejected(PodRejection::Forbidden(sentence))
            }
        })
    }

    /// Passes a new pod through the chain, then through the plugins for pods of sessions: no warm pod has passed those.
    async fn pass(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> Result<(Value, Vec<String>), RejectedPod> {
        let mut passed = self.mutator.mutate(pod, request.clone()).await?;
        // The chain may be another one than before that pod had its turn.
        if self.mutator.takes_claims() {
            let claim = PodRequest {
                later: Some(Arc::new(LaterChange::claim())),
                ..request
            };
            let claimed = self.mutator.mutate(passed.pod, claim).await?;
            passed.pod = claimed.pod;
            passed.runs.extend(claimed.runs);
        }
        Ok((passed.pod, remarks(&passed.runs)))
    }

    /// Notes that a session began for which there might have been a warm pod, and why it took none.
    fn begins(&self, ctx: &Context, world: &World, from: &FromPool, cold: Option<&Cold>) {
        self.metrics.sessions.of([metrics::start(cold)]).inc();
        if !matches!(cold, None | Some(Cold::NoneReady)) {
            // More warm pods would not help it.
            return;
        }
        self.memory.warm.began(&from.id, ctx.clock.now());
        let namespace = world.browser.metadata.namespace.as_deref();
        self.caches.configs.wake(namespace, &from.id.config);
    }

    async fn delete_pod(
        &self,
        ctx: &Context,
        world: &World,
        uid: &str,
        how: PodDeletion,
    ) -> Result<ActionOutcome, Error> {
        let target = self.pod(ctx, world);
        let seen = world.own_pod();
        let version = seen.and_then(|pod| pod.metadata.resource_version.as_deref());
        let deletion = match how {
            PodDeletion::Graceful => Deletion::Graceful,
            // It never started, or was forced before. If it has started by now, it gets its grace period after all.
            PodDeletion::Force if world.phase() != Some(Phase::Failed) => {
                version.map_or(Deletion::Force, Deletion::ForceUnchanged)
            }
            PodDeletion::Force | PodDeletion::LastResort => Deletion::Force,
        };
        match target.delete(uid, deletion, DELETE_POD).await {
            Ok(Deleted::Asked) => Ok(ActionOutcome::PodDeleted(how)),
            Ok(Deleted::Gone) => Ok(ActionOutcome::PodGone),
            Err(error) if how == PodDeletion::LastResort => {
                tracing::warn!(
                    namespace = target.namespace,
                    pod = target.name,
                    error = plain(&error),
                    "could not delete a pod, leaving it behind"
                );
                Ok(ActionOutcome::PodDeleted(how))
            }
            Err(error) => Err(error),
        }
    }

    /// What plugins may ask for.
    fn request(&self, world: &World) -> PodRequest {
        let metadata = &world.browser.metadata;
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let about = self.caches.namespaces.get(&namespace);
        let request = PodRequest {
            kind: SelenosisKind::Browser.name(),
            name: world.name().to_owned(),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            namespace,
            ..PodRequest::default()
        };
        request.of_namespace(about)
    }
}

/// A pod of the same name existed when ours was to be created, and no longer when it was read: the next attempt creates ours.
fn gone_again(name: &str) -> Error {
    let status = Status::failure("a pod of that name existed a moment ago", ALREADY_EXISTS);
    Error::Request {
        attempt: CREATE_POD,
        name: name.to_owned(),
        source: Box::new(kube::Error::Api(Box::new(status.with_code(409)))),
    }
}

#[cfg(test)]
mod tests;
