//! What is looked at once more before it is believed: the end of a session, and metadata that was set.

use std::sync::Arc;
use std::time::Duration;

use kube::{Resource, ResourceExt};
use podloom_api::{BrowserStatus, Phase, names};

use super::BrowserController;
use crate::act::Action;
use crate::browser::judge::{due, later};
use crate::browser::plan::missing_metadata;
use crate::browser::world::World;
use crate::drive::Context;
use crate::error::ReconcileError;
use crate::events::Notice;
use crate::live::{read_all, read_pod};

/// How long a pod that is late gets after it was found to be, a quarter of its time at most: kubelets tell every ten seconds.
const LATE: Duration = Duration::from_secs(15);

/// What this pass has looked at on the API server, or learned from its answers.
pub(super) struct Looked {
    pub(super) at_browser: bool,
    pub(super) at_end: bool,
}

/// What a look came to.
pub(super) enum Look {
    /// The action can be done.
    Enough,
    /// What was seen may change the plan.
    Again,
    /// The Browser is gone.
    Gone,
}

impl BrowserController {
    /// Looks at the API server before an action that an old cache must not lead to.
    pub(super) async fn look(
        &self,
        ctx: &Context,
        world: &mut World,
        action: &Action<BrowserStatus>,
        looked: &mut Looked,
    ) -> Result<Look, ReconcileError> {
        // Of a session that is over, a cache may still show that it never began.
        if !looked.at_browser && matches!(action, Action::CreatePod(_)) {
            looked.at_browser = true;
            let Some(live) = self.read(ctx, &world.browser.metadata).await? else {
                return Ok(Look::Gone);
            };
            world.browser = Arc::new(live);
            return Ok(Look::Again);
        }
        if !looked.at_end && ends(world, action) {
            looked.at_end = true;
            self.confirm(ctx, world).await?;
            return Ok(Look::Again);
        }
        Ok(Look::Enough)
    }

    /// Reads from the API server what is about to end a session, where that may be otherwise by now: what a cache shows may be old.
    ///
    /// What has ended stays so, thus only a pod that never ran, and the lack of a pod, are looked at again. There may be a pod though
    /// nobody knows of one: the answer to its creation was lost. A pod that is only late is looked at twice.
    async fn confirm(&self, ctx: &Context, world: &mut World) -> Result<(), ReconcileError> {
        let namespace = world.browser.namespace().unwrap_or_default();
        let is_marked = world.has_finalizer() || world.learned.metadata_refused.is_none();
        match world.own_pod() {
            Some(pod) if pod.is_pending() => {
                world.learned.created = pod.metadata.uid.clone();
                let pod = read_pod(&ctx.client, &namespace, world.name()).await?;
                world.pod = pod.map(Arc::new);
                if world.pod.is_none() {
                    world.learned.disruption = self.memory.disruption(&world.browser.metadata);
                }
                self.look_again_if_late(ctx, world);
            }
            None if world.lacks_pod() && is_marked => {
                let pod = read_pod(&ctx.client, &namespace, world.name()).await?;
                world.pod = pod.map(Arc::new);
                if world.pod.is_some() {
                    return Ok(());
                }
                let cached = world.configs.iter().map(|config| config.meta());
                let resource = &self.config_resource;
                let live = read_all(&ctx.client, resource, &namespace, cached).await?;
                if let Some(live) = live {
                    world.configs = live.into_iter().map(Arc::new).collect();
                    // It was about a pod of the old configuration.
                    world.learned.refusal = None;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Gives a pod that is late a moment more. After an outage of the API server it may run, and its kubelet not have said so yet.
    fn look_again_if_late(&self, ctx: &Context, world: &mut World) {
        let now = ctx.clock.now();
        let is_late = world.own_pod().is_some_and(|pod| {
            pod.is_pending()
                && pod.metadata.deletion_timestamp.is_none()
                && due(pod, &ctx.timeouts, now) <= now
        });
        if !is_late {
            return;
        }
        let wait = LATE.min(ctx.timeouts.pod_creation / 4);
        let known = self.memory.late_for(&world.browser.metadata);
        let rest = wait.saturating_sub(known);
        if !rest.is_zero() {
            world.learned.late_until = Some(later(now, rest));
        }
    }

    /// Looks what became of metadata that was set: a mutating policy may have removed it. Labels that are refused hold no session
    /// up, so the Browser's status does not show them.
    pub(super) fn look_at_metadata(&self, ctx: &Context, world: &mut World) {
        if world.learned.metadata_refused.is_none()
            && !world.is_deleted()
            && missing_metadata(world).is_some()
        {
            let sentence = "a policy removes what we set".to_owned();
            world.learned.metadata_refused = Some(sentence);
        }
        let refused = world.learned.metadata_refused.as_ref();
        let Some(sentence) = refused.filter(|_| world.has_finalizer()) else {
            return;
        };
        let metadata = &world.browser.metadata;
        self.memory.labels_refused(metadata, sentence);
        tracing::warn!(
            namespace = metadata.namespace,
            name = metadata.name,
            error = sentence,
            "could not set labels"
        );
        let note = format!("cannot set labels: {sentence}");
        let notice = Notice::warning(names::reason::METADATA_REFUSED, note);
        ctx.events
            .tell(world.browser.object_ref(&self.resource), notice);
    }
}

/// Whether the action publishes that a session is over that went on until now.
fn ends(world: &World, action: &Action<BrowserStatus>) -> bool {
    let Action::WriteStatus(status) = action else {
        return false;
    };
    matches!(status.phase, Some(Phase::Failed | Phase::Succeeded)) && !world.is_over()
}
