//! What the record of a release says: its objects, and its hooks.

use std::collections::BTreeSet;

use jiff::Timestamp;
use podloom_api::HelmStep;
use podloom_helm::{ChartObject, ChartObjects, Hook, HookEvent, Record, Release, Status};
use tokio::sync::OwnedSemaphorePermit;

use crate::checked::is_object_name;

/// How many versions of API groups a manifest may name: each is asked of the API server.
const API_VERSIONS_MAX: usize = 200;
/// How many hooks may run in one step.
const HOOKS_MAX: usize = 200;
/// How long the kind of a hook's object may be.
const KIND_MAX: usize = 63;

/// What the record of a release says.
pub(crate) struct Chart {
    /// Its objects.
    pub(super) objects: ChartObjects,
    /// The resourceVersion of the record.
    pub(super) version: String,
    /// Its part of the memory that all charts may take together.
    _turn: Option<OwnedSemaphorePermit>,
    pre_delete: Vec<PlannedHook>,
    post_delete: Vec<PlannedHook>,
    release: Release,
}

/// A hook.
pub(super) struct PlannedHook {
    pub(super) hook: Hook,
    /// Which object it creates, or why there is none. The object itself is read again when it is created: hundreds of hooks could not
    /// be kept.
    pub(super) object: Result<ChartObject, String>,
}

impl Chart {
    /// Reads the payload of a record. This may take a second.
    ///
    /// # Errors
    ///
    /// A sentence for people, if anything of it cannot be read: then nothing is to be deleted.
    pub(super) fn read(
        payload: &[u8],
        record: Record<'_>,
        version: String,
    ) -> Result<Self, String> {
        let release = Release::decode(payload, record).map_err(|error| error.to_string())?;
        let objects = release.objects().map_err(|error| error.to_string())?;
        let deleted = objects.deleted.iter().map(|object| &object.api_version);
        if deleted.collect::<BTreeSet<_>>().len() > API_VERSIONS_MAX {
            return Err(format!(
                "the manifest of the release names more than {API_VERSIONS_MAX} API versions"
            ));
        }
        let planned = |event| {
            let hooks = release.hooks(event);
            match hooks.len() > HOOKS_MAX {
                true => Err(format!(
                    "the release has more than {HOOKS_MAX} hooks for one event"
                )),
                false => Ok(planned(&hooks, &release.namespace)),
            }
        };
        Ok(Self {
            pre_delete: planned(HookEvent::PreDelete)?,
            post_delete: planned(HookEvent::PostDelete)?,
            objects,
            version,
            _turn: None,
            release,
        })
    }

    /// Returns it with its part of the memory that all charts may take together, which is free again when this is dropped.
    pub(super) fn with_turn(self, turn: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            _turn: turn,
            ..self
        }
    }

    /// Returns the hooks of a step, in their order.
    pub(super) fn hooks(&self, step: HelmStep) -> &[PlannedHook] {
        match step {
            HelmStep::PreDeleteHooks => &self.pre_delete,
            HelmStep::PostDeleteHooks => &self.post_delete,
            HelmStep::Manifest | HelmStep::Records => &[],
        }
    }

    /// Returns the status of the release.
    pub(super) fn status(&self) -> Status {
        self.release.status
    }

    /// Returns the payload that says that the release is being uninstalled.
    pub(super) fn uninstalling(&self, now: Timestamp) -> std::io::Result<Vec<u8>> {
        self.release.uninstalling(&now.to_string())
    }

    /// Returns the objects that stay since the chart says so, as `kind/name`.
    pub(super) fn kept(&self) -> Vec<String> {
        let kept = self.objects.kept.iter();
        kept.map(|it| format!("{}/{}", it.kind, it.name)).collect()
    }
}

fn planned(hooks: &[&Hook], namespace: &str) -> Vec<PlannedHook> {
    let plan = |hook: &&Hook| PlannedHook {
        hook: (*hook).clone(),
        object: object(hook, namespace),
    };
    hooks.iter().map(plan).collect()
}

fn object(hook: &Hook, namespace: &str) -> Result<ChartObject, String> {
    let object = hook
        .identity(namespace)
        .map_err(|error| error.to_string())?;
    let ChartObject {
        kind,
        name,
        namespace: own,
        ..
    } = &object;
    if own != namespace {
        return Err("its object is in another namespace".to_owned());
    }
    match kind.len() > KIND_MAX || !is_object_name(name) {
        true => Err("no object can have its kind and name".to_owned()),
        false => Ok(object),
    }
}
