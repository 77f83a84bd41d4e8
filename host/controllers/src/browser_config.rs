//! BrowserConfigs: each is told whether it serves all that it defines, and which configuration it amounts to.

mod plan;

use std::sync::Arc;

use kube::core::ApiResource;
use kube::runtime::reflector::Store;
use podloom_api::{BrowserConfigObject, BrowserConfigStatus, names};

use self::plan::{World, plan, work};
use crate::act::{Action, Actor, Fact};
use crate::aside::aside;
use crate::drive::{Context, Next, Reconcile};
use crate::error::ReconcileError;
use crate::readable::Readable;

/// How much work a plan may be to be made at once, in a few milliseconds; more would keep probes and the Lease waiting.
const LIGHT: usize = 128 << 10;

/// What the controller of BrowserConfigs needs besides the context of all.
pub(crate) struct BrowserConfigController {
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) configs: Store<Readable<BrowserConfigObject>>,
}

impl Reconcile for BrowserConfigController {
    type Object = BrowserConfigObject;

    const FINALIZER: &'static str = names::finalizer::BROWSER_CONFIG;
    const FIELD_MANAGER: &'static str = names::field_manager::BROWSER_CONFIG;

    async fn reconcile(
        &self,
        ctx: &Context,
        config: &BrowserConfigObject,
    ) -> Result<Next, ReconcileError> {
        let namespace = config.metadata.namespace.as_deref();
        let all = self.configs.state_filter(|other| {
            other
                .0
                .as_ref()
                .is_ok_and(|other| other.metadata.namespace.as_deref() == namespace)
        });
        let now = ctx.clock.now();
        let planned = if work(&World { config, all: &all }) > LIGHT {
            let config = config.clone();
            aside(move || {
                let (config, all) = (&config, &*all);
                plan(&World { config, all }, now)
            })
            .await
        } else {
            plan(&World { config, all: &all }, now)
        };
        if let Some(action) = planned {
            self.act(ctx, config, action).await?;
        }
        Ok(Next::Resync)
    }
}

impl BrowserConfigController {
    async fn act(
        &self,
        ctx: &Context,
        config: &BrowserConfigObject,
        action: Action<BrowserConfigStatus>,
    ) -> Result<Fact<BrowserConfigObject>, ReconcileError> {
        let actor = Actor {
            client: &ctx.client,
            mutator: &ctx.mutator,
            resource: &self.resource,
            metadata: &config.metadata,
            field_manager: Self::FIELD_MANAGER,
        };
        match action {
            Action::SetMetadata(patch) => actor.set_metadata(&patch).await,
            Action::WriteStatus(status) => {
                actor.write_status(config.status.as_ref(), &*status).await
            }
            // Its plan has no other.
            Action::CreatePod(_) | Action::DeletePod { .. } | Action::Delete => Ok(Fact::Gone),
        }
    }
}

type Configs = [Arc<Readable<BrowserConfigObject>>];
