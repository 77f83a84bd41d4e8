//! Asks the API server of a cluster whether it answers.

use podloom_api::names::infrastructure::key;
use podloom_engine::error::Error;
use podloom_engine::kind::Context;

use super::super::action::Outcome;
use super::super::kind::ClusterKind;
use super::super::world::World;
use crate::kubeconfig::{Kubeconfig, Probed};

impl ClusterKind {
    /// Probes with the kubeconfig as the Secret has it now.
    pub(super) async fn probe(&self, ctx: &Context, world: &World) -> Result<Outcome, Error> {
        let probed = self.answers(ctx, world).await?;
        Ok(Outcome::Probed(probed, ctx.clock.now()))
    }

    async fn answers(&self, ctx: &Context, world: &World) -> Result<Probed, Error> {
        let reference = world.cluster.spec.kubeconfig_secret_ref.as_ref();
        let name = reference.map_or_else(|| world.secret_name(), |it| it.name.clone());
        let key = reference.map_or(key::KUBECONFIG, |it| it.key_or(key::KUBECONFIG));
        let Some(value) = self.kubeconfig_in(ctx, world, (&name, key)).await? else {
            let message = format!("Secret {name} with the key {key} does not exist");
            return Ok(Probed::Fails(message));
        };
        let kubeconfig = Kubeconfig::parse(&String::from_utf8_lossy(&value));
        Ok(match kubeconfig {
            Ok(kubeconfig) => self.prober.probe(&kubeconfig, world.namespace()).await,
            Err(problem) => Probed::Fails(format!("Secret {name}, key {key}: {problem}")),
        })
    }
}
