//! The kind TunnelClass: the status of each says whether it is valid, and whether it is the default.

use std::sync::Arc;

use jiff::Timestamp;
use kube::core::{ApiResource, ObjectMeta};
use kube::runtime::reflector::Store;
use podloom_api::names::portal;
use podloom_api::{TunnelClassObject, TunnelClassStatus};
use podloom_engine::conditions::conditions;
use podloom_engine::error::Error;
use podloom_engine::kind::{Context, Kind, Remains, ResourceScope, Source, Traits};
use podloom_engine::plan::{Plan, Then};
use podloom_engine::readable::Readable;
use podloom_engine::write::Target;
use serde::Serialize;

use super::class::class_conditions;
use super::metrics::CLASS_CONTROLLER;
use super::settings::TunnelSettings;

/// What the controller of TunnelClasses needs besides the [`Context`].
pub(super) struct ClassKind {
    pub(super) resource: Arc<ApiResource>,
    pub(super) classes: Store<Readable<TunnelClassObject>>,
    pub(super) settings: TunnelSettings,
}

/// A TunnelClass among all of them.
pub(super) struct ClassWorld {
    class: TunnelClassObject,
    /// All of them, itself among them unless the cache is behind.
    all: Vec<Arc<Readable<TunnelClassObject>>>,
}

/// One action for a TunnelClass.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum ClassAction {
    /// Write the status.
    WriteStatus(Box<TunnelClassStatus>),
}

impl Kind for ClassKind {
    type Object = TunnelClassObject;
    type World = ClassWorld;
    type Action = ClassAction;
    /// The TunnelClass as it is now; none if it is gone.
    type Outcome = Option<Box<TunnelClassObject>>;

    const TRAITS: Traits = Traits {
        scope: ResourceScope::Cluster,
        ..Traits::of("TunnelClass", CLASS_CONTROLLER, portal::CLASS_FIELD_MANAGER)
    };

    async fn observe(
        &self,
        _: &Context,
        class: &TunnelClassObject,
        _: Source,
    ) -> Result<ClassWorld, Error> {
        Ok(ClassWorld {
            class: class.clone(),
            all: self.classes.state(),
        })
    }

    fn plan(&self, world: &ClassWorld, now: Timestamp) -> Plan<ClassAction> {
        let class = &world.class;
        if class.metadata.deletion_timestamp.is_some() {
            return Plan::wait(Then::Change);
        }
        let all = world.all.iter().map(|class| &**class);
        let found = class_conditions(class, all, &self.settings);
        let seen = class.status.as_ref();
        let before = seen.and_then(|status| status.conditions.as_ref());
        let generation = class.metadata.generation;
        let wanted = TunnelClassStatus {
            observed_generation: generation,
            conditions: Some(conditions(before, found, generation, now)),
        };
        match seen == Some(&wanted) {
            true => Plan::wait(Then::Change),
            false => Plan::act(ClassAction::WriteStatus(Box::new(wanted))),
        }
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &ClassWorld,
        action: &ClassAction,
    ) -> Result<Self::Outcome, Error> {
        let seen = &world.class.metadata;
        let field_manager = Self::TRAITS.field_manager;
        let target = Target::of(&ctx.client, &self.resource, seen, field_manager);
        let ClassAction::WriteStatus(status) = action;
        target
            .write_status(seen, world.class.status.as_ref(), status)
            .await
    }

    fn learn(&self, world: &mut ClassWorld, outcome: Self::Outcome) -> Remains {
        let Some(class) = outcome else {
            return Remains::Unknown;
        };
        world.class = *class;
        Remains::of(&world.class.metadata)
    }

    fn metadata(world: &ClassWorld) -> &ObjectMeta {
        &world.class.metadata
    }
}

#[cfg(test)]
mod tests;
