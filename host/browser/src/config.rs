//! The kind BrowserConfig: the status of each says whether it serves all that it defines, and has the hash of its configuration.

mod plan;

use std::sync::Arc;

use jiff::Timestamp;
use kube::core::{ApiResource, ObjectMeta};
use kube::runtime::reflector::Store;
use podloom_api::{BrowserConfigObject, names};

use self::plan::{Action, World, plan, work};
use podloom_engine::answer::Patched;
use podloom_engine::error::Error;
use podloom_engine::kind::{Context, Kind, Remains, Source, Traits};
use podloom_engine::plan::Plan;
use podloom_engine::readable::{Answered, Readable};
use podloom_engine::write::Target;

/// How much work a plan may be without a thread of its own: it takes a few milliseconds. More would delay probes and the Lease.
const LIGHT: usize = 128 << 10;

/// What the controller of BrowserConfigs needs besides the [`Context`].
pub(super) struct BrowserConfigKind {
    pub(super) resource: Arc<ApiResource>,
    pub(super) configs: Store<Readable<BrowserConfigObject>>,
}

impl Kind for BrowserConfigKind {
    type Object = BrowserConfigObject;
    type World = World;
    type Action = Action;
    /// The BrowserConfig as it is now; none if it is gone.
    type Outcome = Option<Box<BrowserConfigObject>>;

    const TRAITS: Traits = Traits {
        finalizer: Some(names::finalizer::BROWSER_CONFIG),
        ..Traits::of(
            "BrowserConfig",
            "browser-config",
            names::field_manager::BROWSER_CONFIG,
        )
    };

    async fn observe(
        &self,
        _: &Context,
        config: &BrowserConfigObject,
        _: Source,
    ) -> Result<World, Error> {
        let namespace = config.metadata.namespace.as_deref();
        let all = self.configs.state_filter(|other| {
            let other = other.0.as_ref();
            other.is_ok_and(|other| other.metadata.namespace.as_deref() == namespace)
        });
        Ok(World {
            config: config.clone(),
            all,
        })
    }

    fn plan(&self, world: &World, now: Timestamp) -> Plan<Action> {
        plan(world, now)
    }

    fn is_heavy(&self, world: &World) -> bool {
        work(world) > LIGHT
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<Self::Outcome, Error> {
        let seen = &world.config.metadata;
        let field_manager = Self::TRAITS.field_manager;
        let target = Target::of(&ctx.client, &self.resource, seen, field_manager);
        match action {
            Action::Release(patch) => match target.set_metadata(seen, patch).await? {
                Patched::Object(answered) => {
                    let Answered(config): Answered<BrowserConfigObject> = *answered;
                    Ok(Some(Box::new(config)))
                }
                // It is being deleted, so a rejection is an error, and is none of these.
                Patched::Gone | Patched::Rejected(_) => Ok(None),
            },
            Action::WriteStatus(status) => {
                let before = world.config.status.as_ref();
                target.write_status(seen, before, status).await
            }
        }
    }

    fn learn(&self, world: &mut World, outcome: Self::Outcome) -> Remains {
        let Some(config) = outcome else {
            return Remains::Unknown;
        };
        world.config = *config;
        Remains::of(&world.config.metadata)
    }

    fn metadata(world: &World) -> &ObjectMeta {
        &world.config.metadata
    }
}
