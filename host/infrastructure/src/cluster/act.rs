//! Carries out one action of a plan, and returns its outcome. Nothing else writes, or asks IM.

mod ask;
mod probe;
mod search;
mod secret;

use std::time::Duration;

use jiff::Timestamp;
use podloom_api::names::infrastructure::FINALIZER;
use podloom_api::{ClusterObject, ClusterStatus};

use super::action::{Action, Outcome, Record};
use super::kind::ClusterKind;
use super::world::{Prepared, World};
use crate::in_use::confirm;
use crate::secrets::TargetError;
use podloom_engine::answer::Patched;
use podloom_engine::error::Error;
use podloom_engine::kind::{Context, Kind};
use podloom_engine::write::{MetadataPatch, Target};

impl ClusterKind {
    /// Carries out one action.
    pub(super) async fn carry_out(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<Outcome, Error> {
        match action {
            Action::SetMetadata(patch) => self.set_metadata(ctx, world, patch).await,
            Action::Guard => self.guard(ctx, world).await,
            Action::Prepare => self.prepare(ctx, world).await,
            Action::Record(record) => self.record(ctx, world, record).await,
            Action::Ask(ask) => self.ask(ctx, world, ask).await.map(Outcome::Asked),
            Action::ReadSecret => self.read_secret(ctx, world).await.map(Outcome::Secret),
            Action::Store => self.store(ctx, world).await,
            Action::Probe => self.probe(ctx, world).await,
            Action::WriteStatus(status) => {
                let written = self.write_status(ctx, world, status).await?;
                Ok(written.map_or(Outcome::Gone, Outcome::StatusWritten))
            }
        }
    }

    async fn set_metadata(
        &self,
        ctx: &Context,
        world: &World,
        patch: &MetadataPatch,
    ) -> Result<Outcome, Error> {
        let target = self.cluster(ctx, world);
        let patched = target.set_finalizer(world.metadata(), patch, FINALIZER);
        Ok(match patched.await? {
            Patched::Object(cluster) => Outcome::Marked(cluster),
            Patched::Rejected(sentence) => Outcome::MetadataRejected(sentence),
            Patched::Gone => Outcome::Gone,
        })
    }

    async fn guard(&self, ctx: &Context, world: &World) -> Result<Outcome, Error> {
        let Some(backend) = world.resolved() else {
            return Ok(Outcome::Guard(crate::in_use::Guard::Deleted));
        };
        let guard = confirm(&ctx.client, &self.resources, backend).await?;
        Ok(Outcome::Guard(guard))
    }

    /// Reads the Secrets that a request needs.
    async fn prepare(&self, ctx: &Context, world: &World) -> Result<Outcome, Error> {
        let Some(backend) = world.resolved() else {
            return Ok(Outcome::Prepared(Prepared(None)));
        };
        match self.secrets.target(backend).await {
            Ok(target) => Ok(Outcome::Prepared(Prepared(Some(target)))),
            Err(TargetError::Missing(missing)) => Ok(Outcome::Missing(missing, ctx.clock.now())),
            Err(TargetError::Request(error)) => Err(error),
        }
    }

    /// Writes what is about to be sent, into exactly the version of the Cluster that the plan saw. If there is a newer one, the pass
    /// ends, and nothing is sent.
    async fn record(
        &self,
        ctx: &Context,
        world: &World,
        record: &Record,
    ) -> Result<Outcome, Error> {
        let written = self.write_status(ctx, world, &record.status).await?;
        Ok(match written {
            Some(cluster) => Outcome::Recorded(record.change, cluster),
            None => Outcome::Gone,
        })
    }

    async fn write_status(
        &self,
        ctx: &Context,
        world: &World,
        status: &ClusterStatus,
    ) -> Result<Option<Box<ClusterObject>>, Error> {
        let target = self.cluster(ctx, world);
        target
            .write_status(world.metadata(), world.status(), status)
            .await
    }

    /// The Cluster.
    fn cluster<'a>(&'a self, ctx: &'a Context, world: &'a World) -> Target<'a> {
        Target::of(
            &ctx.client,
            &self.resources.clusters,
            world.metadata(),
            Self::TRAITS.field_manager,
        )
    }
}

/// How old a record may be when its request is sent. An older one may be another process's business by now: it waits for the settle
/// time before it repeats a request, and this and the timeout of the request are shorter than that.
const FRESH: Duration = Duration::from_secs(10);

/// Whether a record is too old for its request.
fn is_too_late(world: &World, now: Timestamp) -> bool {
    let Some(recorded) = world.durable.last_call_at() else {
        return true;
    };
    let age = Duration::try_from(now.duration_since(recorded)).unwrap_or_default();
    age > FRESH
}
