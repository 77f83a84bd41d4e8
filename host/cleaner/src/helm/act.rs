//! What is done to uninstall a release. Nothing else writes.

mod hooks;
mod records;
mod sweep;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use podloom_helm::ChartObject;
use podloom_syntax::names::{dns_label, dns_subdomain};
use tokio::sync::Semaphore;

use super::{Chart, HelmAction, HelmOutcome, HelmWorld};
use crate::checked::KindReference;
use crate::discovery::{Discovery, KindError};
use crate::failure::{FailureKind, RequestError};
use crate::objects::Objects;
use crate::served::ServedKind;
use podloom_engine::blocking::BlockingThreads;

/// After this time, an action begins nothing more in a pass: what has begun may take a while.
const BEGIN_WITHIN: Duration = Duration::from_secs(15);

/// How much all charts that are being read may have together once they are unpacked, in MiB: one of the largest, or many small ones.
/// Each takes several times as much memory while it is read.
pub(crate) const CHARTS: u16 = 32;

/// What actions need.
#[derive(Clone, Copy)]
pub(crate) struct Tools<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) discovery: &'a Discovery,
    /// Namespaces in which nothing is deleted.
    pub(crate) excluded: &'a BTreeSet<String>,
    pub(crate) blocking: &'a BlockingThreads,
    /// How many [`CHARTS`] of memory are left.
    pub(crate) charts: &'a Arc<Semaphore>,
    pub(crate) now: Timestamp,
}

/// Executes one action.
pub(crate) async fn act(
    tools: Tools<'_>,
    world: &HelmWorld<'_>,
    action: &HelmAction,
) -> HelmOutcome {
    match action {
        HelmAction::List => records::list(tools, world).await,
        HelmAction::Read => records::read(tools, world).await,
        HelmAction::Mark => records::mark(tools, world).await,
        HelmAction::Purge => records::purge(tools, world).await,
        HelmAction::LookAtHook => hooks::look(tools, world).await,
        HelmAction::CreateHook => hooks::create(tools, world).await,
        HelmAction::DeleteHook(uid) => hooks::delete(tools, world, uid).await,
        HelmAction::TidyHooks => hooks::tidy(tools, world).await,
        HelmAction::DeleteObjects(from) => sweep::delete(tools, world, *from).await,
        HelmAction::GiveUp(progress) => HelmOutcome::GaveUp(progress.clone()),
    }
}

impl Tools<'_> {
    /// Finds the kind of an object of a chart. Whoever writes charts writes its group and version, and both are parts of a URL.
    async fn kind(&self, object: &ChartObject) -> Result<Arc<ServedKind>, KindError> {
        let (group, version) = object
            .api_version
            .split_once('/')
            .unwrap_or(("", &object.api_version));
        let is_core = group.is_empty() && !object.api_version.contains('/');
        if dns_label(version).is_err() || !(is_core || dns_subdomain(group).is_ok()) {
            let text = "there is no such API version";
            return Err(KindError::Unknown(text.to_owned()));
        }
        let reference = KindReference {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: object.kind.clone(),
        };
        self.discovery.find(&reference).await
    }

    /// What the discovery knows of a kind is old, if it was found but is not served.
    async fn forget(&self, kind: &ServedKind, error: &RequestError) {
        if error.kind == FailureKind::NotServed {
            let resource = &kind.resource;
            let reference = KindReference {
                group: resource.group.clone(),
                version: resource.version.clone(),
                kind: resource.kind.clone(),
            };
            self.discovery.forget(&reference).await;
        }
    }
}

/// What this pass has read of the release. No step acts on a chart before that.
fn chart<'a>(world: &'a HelmWorld<'_>) -> Result<&'a Arc<Chart>, HelmOutcome> {
    let chart = world.learned.chart.as_ref();
    chart.ok_or_else(|| HelmOutcome::Trouble("the release was not read".to_owned()))
}

/// The outcome of a request about the records that failed.
fn trouble(error: &RequestError) -> HelmOutcome {
    HelmOutcome::Trouble(told(error))
}

/// What may be said of an error. What is called wrong is quoted, and it may be a secret.
fn told(error: &RequestError) -> String {
    match error.kind {
        FailureKind::Refused => {
            "the API server calls it invalid, or an admission webhook refuses it".to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
