//! The only writer: carries out one action of a plan, and returns its outcome.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kube::core::ObjectMeta;
use podloom_api::PortalExposeStatus;
use podloom_api::names::portal::{FIELD_MANAGER, IDENTITY_KEY, reason};
use podloom_api::names::{annotation, portal};
use podloom_engine::answer::{Deleted, Patched, Stored};
use podloom_engine::error::{Attempt, Error};
use podloom_engine::kind::{Context, Kind};
use podloom_engine::read::read_object;
use podloom_engine::write::{Deletion, MetadataPatch, Target};
use podloom_mutation::{PodRejection, PodRequest};
use serde_json::{Map, Value, json};

use super::check::Blocker;
use super::deployment::{annotation_of, prune};
use super::identity::{Identity, IdentityProblem, checksum, is_ours, owner, secret};
use super::kind::ExposeKind;
use super::naming;
use super::render::{Tunnel, finish};
use super::verdict::judge;
use super::world::{Action, ActionOutcome, Apply, Why};
use super::world::{Content, OurIdentity, SeenIdentity, Try, Turn, World};

/// How the API server begins the message of a 500 if an admission webhook did not answer. That lasts as long as the webhook is broken, so
/// the status says it.
const WEBHOOK: &str = "failed calling webhook";

/// Whether a rejection says nothing about the object: the API server was busy or broken. The next try may succeed.
fn is_passing(code: u16, sentence: &str) -> bool {
    (code == 429 || code >= 500) && !sentence.contains(WEBHOOK)
}

/// A write without a usable answer: it may have succeeded. It is tried again with backoff, and the status stays as it is.
fn unanswered(message: String) -> Error {
    Error::Retry {
        reason: "Unanswered",
        message,
        within: Duration::MAX,
    }
}

impl ExposeKind {
    /// Carries out one action.
    pub(super) async fn carry_out(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<ActionOutcome, Error> {
        match action {
            Action::SetMetadata(patch) => self.set_metadata(ctx, world, patch).await,
            Action::ReadExpose => {
                let (client, resource) = (&ctx.client, &*self.resources.expose);
                let live = read_object(client, resource, &world.expose.metadata).await?;
                Ok(live.map_or(ActionOutcome::Gone, |it| ActionOutcome::Read(Box::new(it))))
            }
            Action::ReadIdentity => self.read_identity(ctx, world).await,
            Action::CreateIdentity => self.create_identity(ctx, world).await,
            Action::UpdateIdentity => self.update_identity(ctx, world).await,
            Action::ReadDeployment => self.read_deployment(ctx, world).await,
            Action::Adopt => self.adopt(ctx, world).await,
            Action::Mutate(tried) => Ok(self.mutate(ctx, world, tried).await),
            Action::TakeTurn(tried) => Ok(self.take_turn(world, tried)),
            Action::Apply(apply) => self.apply(ctx, world, apply).await,
            Action::DeleteDeployment { uid } => self.delete_deployment(ctx, world, uid).await,
            Action::WriteStatus(status) => self.write_status(ctx, world, status).await,
        }
    }

    async fn set_metadata(
        &self,
        ctx: &Context,
        world: &World,
        patch: &MetadataPatch,
    ) -> Result<ActionOutcome, Error> {
        let seen = &world.expose.metadata;
        let target = self.expose(ctx, world);
        let patched = target.set_finalizer(seen, patch, portal::FINALIZER);
        Ok(match patched.await? {
            Patched::Object(expose) => ActionOutcome::Written(expose),
            Patched::Rejected(sentence) => ActionOutcome::MetadataRejected(sentence),
            Patched::Gone => ActionOutcome::Gone,
        })
    }

    async fn write_status(
        &self,
        ctx: &Context,
        world: &World,
        status: &PortalExposeStatus,
    ) -> Result<ActionOutcome, Error> {
        let seen = &world.expose.metadata;
        let target = self.expose(ctx, world);
        let written = target.write_status(seen, world.status(), status).await?;
        Ok(written.map_or(ActionOutcome::Gone, ActionOutcome::Written))
    }

    /// Remembers that something failed, and logs it.
    fn refused(
        &self,
        ctx: &Context,
        world: &World,
        tried: &Try,
        problem: Blocker,
    ) -> ActionOutcome {
        let metadata = &world.expose.metadata;
        tracing::warn!(
            namespace = metadata.namespace,
            name = metadata.name,
            error.type = problem.reason,
            error = problem.message,
            "tunnel could not be written, trying again"
        );
        let uid = world.uid().unwrap_or_default();
        let now = ctx.clock.now();
        ActionOutcome::Refused(self.tunnels.memory.refused(uid, tried, problem, now))
    }

    /// The PortalExpose.
    fn expose<'a>(&'a self, ctx: &'a Context, world: &'a World) -> Target<'a> {
        Target::of(
            &ctx.client,
            &self.resources.expose,
            &world.expose.metadata,
            Self::TRAITS.field_manager,
        )
    }
}

// Reads and writes the Secret with the identity. Its value never leaves this file, but for a hash.

const READ: Attempt = Attempt::at_secret("ReadIdentity", "read Secret");
const CREATE: Attempt = Attempt::at_secret("CreateIdentity", "create Secret");
const UPDATE: Attempt = Attempt::at_secret("UpdateIdentity", "update Secret");

/// The fields of an identity that we put right.
const OUR_FIELDS: [&str; 2] = ["name", "token_secret"];

impl ExposeKind {
    async fn read_identity(&self, ctx: &Context, world: &World) -> Result<ActionOutcome, Error> {
        let found = self.found_secret(ctx, world).await?;
        let identity = found.map_or(SeenIdentity::Absent, |found| self.learn_of(world, &found));
        Ok(read(identity))
    }

    /// Creates the Secret, never over another one.
    async fn create_identity(&self, ctx: &Context, world: &World) -> Result<ActionOutcome, Error> {
        let tried = world.identity_try();
        let identity = match Identity::generate(&world.expose.spec.app.name) {
            Ok(identity) => identity,
            Err(error) => {
                let problem = Blocker::of_children(reason::IDENTITY_REJECTED, error.to_string());
                return Ok(self.refused(ctx, world, &tried, problem));
            }
        };
        let name = naming::secret_name(world.name());
        let target = self.secret(ctx, world, &name);
        let wanted = secret(&world.expose, &identity);
        let problem = match target.create::<Secret>(&wanted, CREATE).await? {
            Stored::Object(created) => return Ok(self.written(world, &tried, &created)),
            Stored::Exists => return self.read_identity(ctx, world).await,
            // If it was created all the same, the next try finds it.
            Stored::Unanswered(sentence) => return Err(unanswered(sentence)),
            Stored::Rejected { code, sentence } if is_passing(code, &sentence) => {
                return Err(unanswered(sentence));
            }
            Stored::Invalid(sentence) | Stored::Rejected { sentence, .. } => sentence,
        };
        let problem = format!("Secret {name} cannot be created: {problem}");
        let problem = Blocker::of_children(reason::IDENTITY_REJECTED, problem);
        Ok(self.refused(ctx, world, &tried, problem))
    }

    /// Puts the Secret right. What it is made from is read in the same step, so that a key which somebody else wrote meanwhile is
    /// never overwritten.
    async fn update_identity(&self, ctx: &Context, world: &World) -> Result<ActionOutcome, Error> {
        let Some(found) = self.found_secret(ctx, world).await? else {
            return Ok(read(SeenIdentity::Absent));
        };
        let seen = self.learn_of(world, &found);
        let SeenIdentity::Ours(OurIdentity {
            content: Some(Content::Valid { app, .. }),
            ..
        }) = &seen
        else {
            return Ok(read(seen));
        };
        let is_complete = app.as_ref() == Some(&world.expose.spec.app.name);
        let identity = value(&found).and_then(Identity::parse).ok();
        let tried = world.identity_try();
        let name = naming::secret_name(world.name());
        let target = self.secret(ctx, world, &name);
        let patch = difference(world, &found, identity.filter(|_| !is_complete));
        match target.patch::<Secret>(patch, UPDATE).await? {
            Patched::Object(updated) => Ok(self.written(world, &tried, &updated)),
            Patched::Gone => Ok(read(SeenIdentity::Absent)),
            Patched::Rejected(sentence) => {
                let problem = format!("Secret {name} cannot be updated: {sentence}");
                let problem = Blocker::of_children(reason::IDENTITY_REJECTED, problem);
                Ok(self.refused(ctx, world, &tried, problem))
            }
        }
    }

    async fn found_secret(&self, ctx: &Context, world: &World) -> Result<Option<Secret>, Error> {
        let name = naming::secret_name(world.name());
        self.secret(ctx, world, &name).read::<Secret>(READ).await
    }

    fn written(&self, world: &World, tried: &Try, secret: &Secret) -> ActionOutcome {
        let memory = &self.tunnels.memory;
        memory.succeeded(world.uid().unwrap_or_default(), tried);
        ActionOutcome::Identity {
            identity: self.learn_of(world, secret),
            is_written: true,
        }
    }

    /// What may be remembered of a Secret.
    fn learn_of(&self, world: &World, secret: &Secret) -> SeenIdentity {
        if !is_ours(&secret.metadata, world.name()) {
            return SeenIdentity::NotOurs;
        }
        let mut metadata = secret.metadata.clone();
        naming::prune(&mut metadata);
        let identity = OurIdentity {
            metadata: Arc::new(metadata),
            content: Some(content(secret)),
        };
        let uid = world.uid().unwrap_or_default();
        self.tunnels.memory.read_identity(uid, identity.clone());
        SeenIdentity::Ours(identity)
    }

    fn secret<'a>(&'a self, ctx: &'a Context, world: &'a World, name: &'a str) -> Target<'a> {
        Target {
            resource: &self.resources.secret,
            name,
            ..self.expose(ctx, world)
        }
    }
}

fn read(identity: SeenIdentity) -> ActionOutcome {
    ActionOutcome::Identity {
        identity,
        is_written: false,
    }
}

fn value(secret: &Secret) -> Result<&[u8], IdentityProblem> {
    let data = secret.data.as_ref();
    let value = data.and_then(|data| data.get(IDENTITY_KEY));
    value.map_or(Err(IdentityProblem::Missing), |ByteString(bytes)| Ok(bytes))
}

/// What may be remembered of a Secret's value.
fn content(secret: &Secret) -> Content {
    match value(secret).and_then(|bytes| Ok((bytes, Identity::parse(bytes)?))) {
        Err(problem) => Content::Invalid(problem.to_string()),
        Ok((bytes, identity)) => Content::Valid {
            checksum: checksum(bytes),
            app: complete_for(bytes, &identity),
        },
    }
}

/// The application that an identity is complete for; none if a field has to be added.
fn complete_for(bytes: &[u8], identity: &Identity) -> Option<String> {
    let fields = |bytes: &[u8]| -> Option<Value> { serde_json::from_slice(bytes).ok() };
    let (stored, complete) = (fields(bytes)?, fields(&identity.to_json())?);
    let is_complete = OUR_FIELDS
        .iter()
        .all(|field| stored[field] == complete[field]);
    is_complete.then(|| stored[OUR_FIELDS[0]].as_str().map(str::to_owned))?
}

/// The patch that puts a Secret right, and the identity in it if there is one. It changes exactly this version of the Secret.
fn difference(world: &World, found: &Secret, identity: Option<Identity>) -> Value {
    let expose = &world.expose;
    let (uid, owners) = (
        world.uid(),
        found.metadata.owner_references.iter().flatten(),
    );
    let others = owners.filter(|owner| Some(&*owner.uid) != uid).cloned();
    let owners: Vec<_> = others.chain(owner(expose)).collect();
    let mut patch = json!({
        "metadata": {
            "uid": found.metadata.uid,
            "resourceVersion": found.metadata.resource_version,
            "annotations": { portal::annotation::IDENTITY_FOR: world.name() },
            "ownerReferences": owners,
        },
    });
    if let Some(identity) = identity {
        let identity = identity.named(&expose.spec.app.name);
        patch["data"] = json!(secret(expose, &identity).data);
    }
    patch
}

// Reads and writes the Deployment.

const READ_DEPLOYMENT: Attempt = Attempt::new("ReadDeployment", "read Deployment");
const ADOPT: Attempt = Attempt::new("AdoptDeployment", "adopt Deployment");
const APPLY: Attempt = Attempt::new("ApplyDeployment", "apply Deployment");
const DELETE: Attempt = Attempt::new("DeleteDeployment", "delete Deployment");

impl ExposeKind {
    async fn read_deployment(&self, ctx: &Context, world: &World) -> Result<ActionOutcome, Error> {
        let name = naming::deployment_name(world.name());
        let target = self.deployment(ctx, world, &name);
        let found = target.read::<Deployment>(READ_DEPLOYMENT).await?;
        let found = found.map(|mut found| {
            prune(&mut found);
            Arc::new(found)
        });
        Ok(ActionOutcome::Deployment(found))
    }

    /// Makes the fields that the operator before us wrote our own, so that a later apply can remove them.
    async fn adopt(&self, ctx: &Context, world: &World) -> Result<ActionOutcome, Error> {
        let name = naming::deployment_name(world.name());
        let target = self.deployment(ctx, world, &name);
        let Some(found) = target.read::<Deployment>(READ_DEPLOYMENT).await? else {
            return Ok(ActionOutcome::Deployment(None));
        };
        let Some(fields) = takeover(&found.metadata, world.uid().unwrap_or_default()) else {
            return Ok(ActionOutcome::Adopted);
        };
        let patch = json!({
            "metadata": {
                "uid": found.metadata.uid,
                "resourceVersion": found.metadata.resource_version,
                "managedFields": fields,
            },
        });
        match target.patch::<Deployment>(patch, ADOPT).await? {
            Patched::Object(_) => Ok(ActionOutcome::Adopted),
            Patched::Gone => Ok(ActionOutcome::Deployment(None)),
            Patched::Rejected(sentence) => {
                let problem = format!("Deployment {name} cannot be adopted: {sentence}");
                let problem = Blocker::of_children(reason::DEPLOYMENT_REJECTED, problem);
                let tunnel = judge(world, &self.settings).tunnel;
                let tried = world.tunnel_try(tunnel.as_ref().map_or("", |it| &it.input_hash));
                Ok(self.refused(ctx, world, &tried, problem))
            }
        }
    }

    /// Passes the template through the chain.
    async fn mutate(&self, ctx: &Context, world: &World, tried: &Try) -> ActionOutcome {
        let refused = |problem| {
            self.give_turn_back(world);
            self.refused(ctx, world, tried, problem)
        };
        let Some(tunnel) = judge(world, &self.settings).tunnel else {
            // The plan is made from the same world.
            let message = "there is nothing to render";
            return refused(Blocker::of_mutators(reason::MUTATOR_FAILED, message));
        };
        let request = self.request(&tunnel);
        let mutated = match self.tunnels.mutator.mutate(tunnel.pod(), request).await {
            Ok(mutated) => mutated,
            Err(rejected) => return refused(problem(rejected.rejection)),
        };
        match finish(&tunnel, mutated) {
            Ok(rendered) => ActionOutcome::Rendered(Box::new(rendered)),
            Err(problem) => refused(Blocker::of_mutators(
                reason::MUTATOR_RESULT_INVALID,
                problem.to_string(),
            )),
        }
    }

    fn take_turn(&self, world: &World, tried: &Try) -> ActionOutcome {
        let deployment = world.own_deployment();
        let may = deployment.is_none_or(|found| self.tunnels.rolls.take(&found.metadata));
        if !may {
            let uid = world.uid().unwrap_or_default();
            self.tunnels.memory.queued(uid, tried.clone());
        }
        ActionOutcome::Turn(if may { Turn::Now } else { Turn::Later })
    }

    async fn apply(
        &self,
        ctx: &Context,
        world: &World,
        apply: &Apply,
    ) -> Result<ActionOutcome, Error> {
        let name = naming::deployment_name(world.name());
        let mut object = apply.rendered.object.clone();
        if let Some(uid) = &apply.uid {
            object["metadata"]["uid"] = json!(uid);
        }
        let target = self.deployment(ctx, world, &name);
        // The plugins took time, and an apply would take over what somebody else created meanwhile.
        if apply.why == Why::Missing {
            let found = self.read_deployment(ctx, world).await?;
            if !matches!(found, ActionOutcome::Deployment(None)) {
                return Ok(found);
            }
        }
        let stored = match target.apply::<Deployment>(&object, APPLY).await {
            Ok(stored) => stored,
            Err(error) => {
                self.give_turn_back(world);
                return Err(error);
            }
        };
        let sentence = match stored {
            Stored::Object(applied) => return Ok(self.applied(ctx, world, apply, *applied)),
            Stored::Exists => {
                self.give_turn_back(world);
                return self.read_deployment(ctx, world).await;
            }
            // It may have been written, and may roll, so it keeps its turn.
            Stored::Unanswered(sentence) => return Err(unanswered(sentence)),
            Stored::Rejected { code, sentence } if is_passing(code, &sentence) => {
                self.give_turn_back(world);
                return Err(unanswered(sentence));
            }
            Stored::Invalid(sentence) | Stored::Rejected { sentence, .. } => sentence,
        };
        self.give_turn_back(world);
        let problem = format!("the API server rejected Deployment {name}: {sentence}");
        let problem = Blocker::of_children(reason::DEPLOYMENT_REJECTED, problem);
        Ok(self.refused(ctx, world, &apply.tried, problem))
    }

    fn applied(
        &self,
        ctx: &Context,
        world: &World,
        apply: &Apply,
        mut applied: Deployment,
    ) -> ActionOutcome {
        prune(&mut applied);
        let tunnels = &self.tunnels;
        // Also of a write for another cause: the answer to the one before may have been lost.
        tunnels.rolls.wrote(&applied.metadata);
        let applied = Arc::new(applied);
        let uid = world.uid().unwrap_or_default();
        tunnels.memory.wrote_deployment(uid, Arc::clone(&applied));
        tunnels.memory.succeeded(uid, &apply.tried);
        let now = ctx.clock.now();
        tunnels.memory.rolls(uid, applied.metadata.generation, now);
        if apply.why == Why::Drift {
            tunnels.memory.repaired(uid, now);
        }
        ActionOutcome::Applied(applied)
    }

    async fn delete_deployment(
        &self,
        ctx: &Context,
        world: &World,
        uid: &str,
    ) -> Result<ActionOutcome, Error> {
        let name = naming::deployment_name(world.name());
        let target = self.deployment(ctx, world, &name);
        match target.delete(uid, Deletion::Graceful, DELETE).await? {
            Deleted::Asked => Ok(ActionOutcome::DeploymentDeleted),
            // Another one of its name may be there, from a write of ours that was on its way for long.
            Deleted::Gone => self.read_deployment(ctx, world).await,
        }
    }

    /// Gives back a turn that was taken in this pass and not used.
    fn give_turn_back(&self, world: &World) {
        if let (Some(Turn::Now), Some(found)) = (world.learned.turn, world.own_deployment()) {
            self.tunnels.rolls.give_back(&found.metadata);
        }
    }

    /// Gives a turn back if nothing has to roll: meanwhile the chain went back to the one that runs.
    pub(crate) fn give_needless_turn_back(&self, world: &mut World) {
        let found = world.own_deployment();
        let runs = found.and_then(|found| annotation_of(&found.metadata, annotation::CHAIN));
        if runs.is_some() && runs == world.chain.as_deref() {
            self.give_turn_back(world);
            world.learned.turn = None;
        }
    }

    /// What plugins may ask for.
    fn request(&self, tunnel: &Tunnel) -> PodRequest {
        let request = tunnel.request();
        let about = self.caches.namespaces.get(&request.namespace);
        request.of_namespace(about)
    }

    fn deployment<'a>(&'a self, ctx: &'a Context, world: &'a World, name: &'a str) -> Target<'a> {
        Target {
            resource: &self.resources.deployment,
            name,
            ..self.expose(ctx, world)
        }
    }
}

/// Why the chain rejected a template.
fn problem(rejection: PodRejection) -> Blocker {
    match rejection {
        PodRejection::Denied(message) => Blocker::of_mutators(reason::MUTATOR_DENIED, message),
        PodRejection::Broken(message)
        | PodRejection::Overdue(message)
        | PodRejection::Unread(message)
        | PodRejection::Invalid(message)
        | PodRejection::Forbidden(message) => Blocker::of_mutators(reason::MUTATOR_FAILED, message),
    }
}

// How a Deployment of another operator becomes ours.
//
// The public operator writes with plain updates. The API server remembers its fields under its name, so a later apply of ours could
// change them and never remove one. So its entry becomes ours first, as `kubectl apply --server-side` does with that of client-side apply.

/// Returns the managed fields of a Deployment after the fields of the operator that made it became ours; none if there is nothing to do.
///
/// That operator is the one that set the reference to this owner. Fields that people set with kubectl stay theirs.
pub(crate) fn takeover(
    deployment: &ObjectMeta,
    owner_uid: &str,
) -> Option<Vec<ManagedFieldsEntry>> {
    let entries = deployment.managed_fields.as_deref()?;
    let (theirs, mut rest): (Vec<_>, Vec<_>) = entries
        .iter()
        .cloned()
        .partition(|entry| is_theirs(entry, owner_uid));
    let api_version = theirs.first()?.api_version.clone();
    let place = rest
        .iter()
        .position(|entry| is_our_entry(entry) && entry.api_version == api_version);
    let mut ours = match place {
        Some(place) => rest.remove(place),
        None => ManagedFieldsEntry {
            manager: Some(FIELD_MANAGER.to_owned()),
            operation: Some("Apply".to_owned()),
            fields_v1: None,
            ..theirs.first()?.clone()
        },
    };
    for entry in theirs {
        ours.fields_v1 = union(ours.fields_v1, entry.fields_v1);
    }
    rest.insert(0, ours);
    Some(rest)
}

/// Whether an entry is that of the operator which set the owner.
fn is_theirs(entry: &ManagedFieldsEntry, owner_uid: &str) -> bool {
    let fields = entry.fields_v1.as_ref();
    let owners = fields.and_then(|fields| fields.0.get("f:metadata")?.get("f:ownerReferences"));
    let owner = format!("k:{}", serde_json::json!({ "uid": owner_uid }));
    entry.operation.as_deref() == Some("Update")
        && has_no_subresource(entry)
        && owners.is_some_and(|owners| owners.get(owner).is_some())
        && !entry.manager.as_deref().is_some_and(is_kubectl)
}

/// kubectl names its commands: `kubectl-edit`, `kubectl-client-side-apply`.
fn is_kubectl(manager: &str) -> bool {
    manager == "kubectl" || manager.starts_with("kubectl-")
}

fn is_our_entry(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(FIELD_MANAGER)
        && entry.operation.as_deref() == Some("Apply")
        && has_no_subresource(entry)
}

fn has_no_subresource(entry: &ManagedFieldsEntry) -> bool {
    entry.subresource.as_deref().unwrap_or_default().is_empty()
}

/// The fields of both sets.
fn union(one: Option<FieldsV1>, other: Option<FieldsV1>) -> Option<FieldsV1> {
    let (Some(FieldsV1(mut one)), Some(FieldsV1(other))) = (one.clone(), other.clone()) else {
        return one.or(other);
    };
    add(&mut one, other);
    Some(FieldsV1(one))
}

fn add(fields: &mut Value, more: Value) {
    if let (Value::Object(fields), Value::Object(more)) = (fields, more) {
        for (key, value) in more {
            add(
                fields
                    .entry(key)
                    .or_insert_with(|| Value::Object(Map::new())),
                value,
            );
        }
    }
}

#[cfg(test)]
mod tests;
