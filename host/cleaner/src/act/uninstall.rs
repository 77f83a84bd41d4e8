//! Uninstalls the Helm release of a deletion.

use podloom_engine::kind::Context;

use super::Hands;
use crate::action::ActionOutcome;
use crate::helm::{self, HelmAction, HelmOutcome, Tools};
use crate::world::World;

impl Hands {
    /// Executes one action for the Helm release.
    pub(super) async fn uninstall(
        &self,
        ctx: &Context,
        world: &World,
        action: &HelmAction,
    ) -> ActionOutcome {
        let now = ctx.clock.now();
        if let HelmAction::GiveUp(_) = action {
            self.eyes.memory.attempted(world.uid(), now);
        }
        let reader = &self.eyes.reader;
        let tools = Tools {
            objects: &reader.objects,
            discovery: &reader.discovery,
            excluded: &reader.settings.excluded_namespaces,
            blocking: &ctx.blocking,
            charts: &self.charts,
            now,
        };
        let release = world.progress().and_then(|progress| progress.helm.as_ref());
        let Some(release) = release else {
            // No plan asks for it.
            let trouble = "there is no release to uninstall".to_owned();
            return ActionOutcome::Helm(HelmOutcome::Trouble(trouble));
        };
        ActionOutcome::Helm(helm::act(tools, &world.helm(release), action).await)
    }
}
