//! The only writer: carries out one action of a plan, and returns its outcome.

mod identity;
mod tunnel;

use std::time::Duration;

use podloom_api::PortalExposeStatus;
use podloom_api::names::portal;

use super::action::{Action, ActionOutcome};
use super::kind::ExposeKind;
use super::world::{Problem, Try, World};
use podloom_engine::answer::Patched;
use podloom_engine::error::Error;
use podloom_engine::kind::{Context, Kind};
use podloom_engine::write::{MetadataPatch, Target};

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
            Patched::Object(expose) => ActionOutcome::Marked(expose),
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
        Ok(written.map_or(ActionOutcome::Gone, ActionOutcome::StatusWritten))
    }

    /// Remembers that something failed, and logs it.
    fn refused(
        &self,
        ctx: &Context,
        world: &World,
        tried: &Try,
        problem: Problem,
    ) -> ActionOutcome {
        let metadata = &world.expose.metadata;
        tracing::warn!(
            namespace = metadata.namespace,
            name = metadata.name,
            reason = problem.blocker().reason,
            error = problem.message(),
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
