//! What the record of a release says: its objects, and its hooks.

use std::collections::BTreeSet;

use jiff::Timestamp;
use podloom_api::HelmStep;
use podloom_helm::{
    ChartObject, ChartObjects, Hook, HookEvent, HookObject, Kept, KeptBecause, Record, Release,
    Status,
};

use crate::cleaner::checked::is_object_name;

/// How many versions of API groups a manifest may name: each is asked of the API server.
const API_VERSIONS_MAX: usize = 200;
/// How long the kind of a hook's object may be.
const KIND_MAX: usize = 63;

/// What the record of a release says.
pub(in crate::cleaner) struct Chart {
    /// Its objects.
    pub(super) objects: ChartObjects,
    /// The resourceVersion of the record.
    pub(super) version: String,
    pre_delete: Vec<PlannedHook>,
    post_delete: Vec<PlannedHook>,
    release: Release,
}

/// A hook.
pub(super) struct PlannedHook {
    pub(super) hook: Hook,
    /// Its object, or why there is none.
    pub(super) object: Result<HookObject, String>,
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
        Ok(Self {
            pre_delete: planned(&release, HookEvent::PreDelete),
            post_delete: planned(&release, HookEvent::PostDelete),
            objects,
            version,
            release,
        })
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

    /// Returns the objects that stay since the chart says so, as `kind/name`. A hook is no object of the release.
    pub(super) fn kept(&self) -> Vec<String> {
        let kept = self.objects.kept.iter();
        let kept = kept.filter(|it| it.because != KeptBecause::Hook);
        kept.map(|Kept { object, .. }| format!("{}/{}", object.kind, object.name))
            .collect()
    }
}

fn planned(release: &Release, event: HookEvent) -> Vec<PlannedHook> {
    let hooks = release.hooks(event).into_iter();
    let plan = |hook: &Hook| PlannedHook {
        hook: hook.clone(),
        object: object(hook, &release.namespace),
    };
    hooks.map(plan).collect()
}

fn object(hook: &Hook, namespace: &str) -> Result<HookObject, String> {
    let object = hook.object(namespace).map_err(|error| error.to_string())?;
    let ChartObject {
        kind,
        name,
        namespace: own,
        ..
    } = &object.object;
    if own != namespace {
        return Err("its object is in another namespace".to_owned());
    }
    match kind.len() > KIND_MAX || !is_object_name(name) {
        true => Err("no object can have its kind and name".to_owned()),
        false => Ok(object),
    }
}
