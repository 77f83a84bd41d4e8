//! What plugins use of their grants, and chains with other grants.

use std::sync::Arc;

use podloom_mutation::{MutatedPod, PodRequest, RejectedPod};
use serde_json::Value;

use super::{Chain, Values};
use crate::plugin::{PluginError, grant};
use crate::request::RunMode;

/// What a plugin may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginGrants {
    /// The paths that it may write, and therefore read.
    pub allow: Vec<String>,
    /// Further paths that it may read.
    pub read: Vec<String>,
}

impl Chain {
    /// As [`Self::mutate`], and records in each [`PluginRun`](podloom_mutation::PluginRun) what the plugin read and wrote. Slower.
    ///
    /// # Errors
    /// If a plugin denies the pod, or fails under the policy Fail.
    pub fn mutate_recorded(
        &self,
        pod: Value,
        request: impl Into<Arc<PodRequest>>,
    ) -> Result<MutatedPod, RejectedPod> {
        let mut pass = self.admit(RunMode::Serve, pod, request.into(), Values::Shown)?;
        pass.passing.records = true;
        self.finish(pass)
    }

    /// What each plugin is granted, in the order of the chain.
    pub fn grants(&self) -> Vec<PluginGrants> {
        let plugins = self.plugins.iter();
        let grants = plugins.map(|plugin| PluginGrants {
            allow: plugin.allow.clone(),
            read: plugin.read.clone(),
        });
        grants.collect()
    }

    /// The same plugins with these grants, in the order of the chain. Shares their code.
    ///
    /// # Errors
    /// A path cannot be granted, or a plugin needs more than it gets.
    pub fn with_grants(&self, grants: &[PluginGrants]) -> Result<Self, PluginError> {
        let mut plugins = self.plugins.clone();
        for (plugin, PluginGrants { allow, read }) in plugins.iter_mut().zip(grants) {
            let (access, _) = grant(&plugin.description, allow, read)?;
            plugin.access = Arc::new(access);
            plugin.allow.clone_from(allow);
            plugin.read.clone_from(read);
        }
        Ok(self.with(plugins))
    }
}
