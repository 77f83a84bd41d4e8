//! Reads and writes the Secret with the identity. Its value never leaves this file, but for a hash.

use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use podloom_api::names::portal::{IDENTITY_KEY, annotation};
use podloom_engine::answer::{Patched, Stored};
use podloom_engine::error::{Attempt, Error};
use podloom_engine::kind::{Context, Kind};
use podloom_engine::write::Target;
use serde_json::{Value, json};

use super::super::action::ActionOutcome;
use super::super::identity::{self, Identity, IdentityProblem, checksum, is_ours, secret};
use super::super::kind::ExposeKind;
use super::super::naming;
use super::super::world::{Content, OurIdentity, Problem, SeenIdentity, Try, World};
use super::{is_passing, unanswered};

const READ: Attempt = Attempt::at_secret("ReadIdentity", "read Secret");
const CREATE: Attempt = Attempt::at_secret("CreateIdentity", "create Secret");
const UPDATE: Attempt = Attempt::at_secret("UpdateIdentity", "update Secret");

/// The fields of an identity that we put right.
const OUR_FIELDS: [&str; 2] = ["name", "token_secret"];

impl ExposeKind {
    pub(super) async fn read_identity(
        &self,
        ctx: &Context,
        world: &World,
    ) -> Result<ActionOutcome, Error> {
        let found = self.found_secret(ctx, world).await?;
        let identity = found.map_or(SeenIdentity::Absent, |found| self.learn_of(world, &found));
        Ok(read(identity))
    }

    /// Creates the Secret, never over another one.
    pub(super) async fn create_identity(
        &self,
        ctx: &Context,
        world: &World,
    ) -> Result<ActionOutcome, Error> {
        let tried = tried(world);
        let identity = match Identity::generate(&world.expose.spec.app.name) {
            Ok(identity) => identity,
            Err(error) => {
                let problem = Problem::Identity(error.to_string());
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
        let problem = Problem::Identity(format!("Secret {name} cannot be created: {problem}"));
        Ok(self.refused(ctx, world, &tried, problem))
    }

    /// Puts the Secret right. What it is made from is read in the same step, so that a key which somebody else wrote meanwhile is
    /// never overwritten.
    pub(super) async fn update_identity(
        &self,
        ctx: &Context,
        world: &World,
    ) -> Result<ActionOutcome, Error> {
        let Some(found) = self.found_secret(ctx, world).await? else {
            return Ok(read(SeenIdentity::Absent));
        };
        let seen = self.learn_of(world, &found);
        let is_ours = matches!(seen, SeenIdentity::Ours(_));
        let parsed = value(&found).and_then(|bytes| Ok((bytes, Identity::parse(bytes)?)));
        let (true, Ok((bytes, identity))) = (is_ours, parsed) else {
            return Ok(read(seen));
        };
        let is_complete =
            complete_for(bytes, &identity).is_some_and(|app| app == world.expose.spec.app.name);
        let tried = tried(world);
        let name = naming::secret_name(world.name());
        let target = self.secret(ctx, world, &name);
        let identity = (!is_complete).then_some(identity);
        let patch = difference(world, &found, identity);
        match target.patch::<Secret>(patch, UPDATE).await? {
            Patched::Object(updated) => Ok(self.written(world, &tried, &updated)),
            Patched::Gone => Ok(read(SeenIdentity::Absent)),
            Patched::Rejected(sentence) => {
                let problem = format!("Secret {name} cannot be updated: {sentence}");
                Ok(self.refused(ctx, world, &tried, Problem::Identity(problem)))
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
            client: &ctx.client,
            resource: &self.resources.secret,
            namespace: world.expose.metadata.namespace.as_deref(),
            name,
            field_manager: Self::TRAITS.field_manager,
        }
    }
}

fn read(identity: SeenIdentity) -> ActionOutcome {
    ActionOutcome::Identity {
        identity,
        is_written: false,
    }
}

fn tried(world: &World) -> Try {
    let generation = world.expose.metadata.generation;
    Try::Identity { generation }
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
    let owners: Vec<_> = others.chain(identity::owner(expose)).collect();
    let mut patch = json!({
        "metadata": {
            "uid": found.metadata.uid,
            "resourceVersion": found.metadata.resource_version,
            "annotations": { annotation::IDENTITY_FOR: world.name() },
            "ownerReferences": owners,
        },
    });
    if let Some(identity) = identity {
        let identity = identity.named(&expose.spec.app.name);
        patch["data"] = json!(secret(expose, &identity).data);
    }
    patch
}
