//! Makes chains: from a bundle, and of the plugins of another chain.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use podloom_mutation::CallFailure;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Chain;
use crate::bundle::Bundle;
use crate::engine::Engine;
use crate::error::PluginError;
use crate::file::{hex, sha256};
use crate::manifest::{Lines, MANIFEST, PluginEntry};
use crate::plugin::{Plugin, PluginCode, grant};
use crate::request::Until;

/// Why a chain could not be loaded from a bundle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MANIFEST}:{line}: plugin {plugin} ({file}) {problem}")]
pub struct ChainError {
    /// The plugin.
    pub plugin: String,
    /// Its file.
    pub file: String,
    /// The line of the manifest that lists it.
    pub line: u64,
    /// What is wrong. It is part of the message, not its source.
    pub problem: PluginError,
}

/// What a plugin may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginGrants {
    /// The paths that it may write, and therefore read.
    pub allow: Vec<String>,
    /// Further paths that it may read.
    pub read: Vec<String>,
}

impl Chain {
    /// Checks and compiles each plugin of a bundle. Does not try the chain on pods; see [`Self::prove`].
    ///
    /// # Errors
    /// If a plugin cannot run as the manifest configures it.
    pub fn load(engine: &Arc<Engine>, bundle: &Bundle) -> Result<Self, ChainError> {
        Self::load_until(engine, None, bundle, Until::DONE)
    }

    /// As [`Self::load`], but reuses the compiled code of an earlier chain of the same engine.
    ///
    /// # Errors
    /// If a plugin cannot run as the manifest configures it.
    pub fn load_after(earlier: &Self, bundle: &Bundle) -> Result<Self, ChainError> {
        Self::load_until(&earlier.engine, Some(earlier), bundle, Until::DONE)
    }

    /// As [`Self::load_after`] if there is an earlier chain, else as [`Self::load`], with a deadline.
    pub(crate) fn load_until(
        engine: &Arc<Engine>,
        earlier: Option<&Self>,
        bundle: &Bundle,
        until: Until,
    ) -> Result<Self, ChainError> {
        let earlier = earlier.into_iter().flat_map(|chain| &chain.plugins);
        let known = earlier.map(|plugin| (plugin.sha256.clone(), Arc::clone(&plugin.code)));
        let mut known: BTreeMap<String, Arc<PluginCode>> = known.collect();
        let mut plugins = Vec::with_capacity(bundle.manifest.plugins.len());
        let budget = Arc::default();
        for (index, entry) in bundle.manifest.plugins.iter().enumerate() {
            let loaded = if until.is_over() {
                Err(format!("could not describe itself: {}", CallFailure::NoTimeLeft).into())
            } else {
                let code = load_code(engine, bundle, entry, &mut known, until);
                code.and_then(|(code, compiled_in)| {
                    let mut plugin = Plugin::set_up(engine, entry, code, &budget)?;
                    plugin.compiled_in = compiled_in;
                    Ok(plugin)
                })
            };
            let plugin = loaded.map_err(|problem| ChainError {
                plugin: entry.name.value.0.clone(),
                file: entry.file.0.clone(),
                line: entry.line(),
                problem: located(problem, bundle, index),
            })?;
            plugins.push(plugin);
        }
        Ok(Self::of(engine, plugins))
    }

    fn of(engine: &Arc<Engine>, plugins: Vec<Plugin>) -> Self {
        Self {
            engine: Arc::clone(engine),
            digest: digest(&plugins),
            plugins,
        }
    }

    /// A chain of these of its plugins, by their numbers from 0, in this order. The compiled code is shared.
    pub fn select(&self, numbers: &[usize]) -> Self {
        let chosen = numbers.iter().filter_map(|it| self.plugins.get(*it));
        Self::of(&self.engine, chosen.cloned().collect())
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
        Ok(Self::of(&self.engine, plugins))
    }
}

/// Adds the lines of the manifest to what is wrong with a configuration.
fn located(problem: PluginError, bundle: &Bundle, index: usize) -> PluginError {
    if !matches!(problem, PluginError::Config(_)) {
        return problem;
    }
    // It was parsed before, so it is UTF-8.
    let lines = Lines::of(&String::from_utf8_lossy(bundle.manifest()));
    problem.located(|path| lines.line(&format!("/plugins/{index}/config{path}")))
}

/// Returns the compiled code of an entry, and how long compiling took unless an earlier chain had done it.
fn load_code(
    engine: &Arc<Engine>,
    bundle: &Bundle,
    entry: &PluginEntry,
    known: &mut BTreeMap<String, Arc<PluginCode>>,
    until: Until,
) -> Result<(Arc<PluginCode>, Option<Duration>), PluginError> {
    let shipped = bundle.files.get(&entry.file);
    let shipped = shipped.map(|bytes| &**bytes).unwrap_or_default();
    let found = sha256(shipped);
    if let Some(pinned) = entry.sha256.as_ref().filter(|pinned| pinned.0 != found) {
        let pinned = &pinned.0;
        return Err(format!(
            "has sha256 {found}, but chain.yaml pins {pinned}; restore the file, or change `sha256`"
        )
        .into());
    }
    let size = entry.limits.size;
    // What was checked as a large plugin may be too large for another entry.
    let reused = known.get(&found).filter(|code| code.size <= size);
    let (code, compiled_in) = match reused {
        Some(code) => (Arc::clone(code), None),
        None => {
            let started = Instant::now();
            let code = Arc::new(PluginCode::of(engine, shipped, size, until)?);
            (code, Some(started.elapsed()))
        }
    };
    known.insert(found, Arc::clone(&code));
    Ok((code, compiled_in))
}

/// Chains with equal digests turn equal pods into equal pods. Hashes JSON with sorted keys, so layout and comments of the manifest do
/// not matter. Includes names, since they are in the stamp. Leaves out file names, since only the content matters.
fn digest(plugins: &[Plugin]) -> String {
    let plugins = plugins.iter().map(|plugin| {
        let mut fields = json!({
            "name": plugin.name,
            "sha256": plugin.sha256,
            "allow": plugin.allow,
            "read": plugin.read,
            "config": plugin.config,
            "match": plugin.matches,
            "failurePolicy": plugin.failure_policy.as_str(),
            "memory": plugin.limits.memory,
            "timeoutMillis": u64::try_from(plugin.limits.timeout.as_millis()).unwrap_or(u64::MAX),
        });
        if let Some(longest) = plugin.longest_exception {
            fields["longestException"] = longest.as_secs().into();
        }
        fields
    });
    hex(&Sha256::digest(Value::Array(plugins.collect()).to_string()))
}
