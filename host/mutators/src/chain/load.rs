//! Loads a chain from a bundle.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use podloom_mutation::CallFailure;

use super::{Chain, ChainError, digest};
use crate::bundle::Bundle;
use crate::engine::Engine;
use crate::manifest::{Lines, PluginEntry};
use crate::plugin::{Plugin, PluginCode, PluginError};
use crate::until::Until;

impl Chain {
    /// Checks and compiles each plugin of a bundle. Does not try the chain on pods; see [`Self::prove`].
    ///
    /// # Errors
    /// If a plugin cannot run as the manifest configures it.
    pub fn load(engine: &Arc<Engine>, bundle: &Bundle) -> Result<Self, ChainError> {
        Self::load_with(engine, bundle, BTreeMap::new(), Until::DONE)
    }

    /// As [`Self::load`], but reuses the compiled code of an earlier chain of the same engine.
    ///
    /// # Errors
    /// If a plugin cannot run as the manifest configures it.
    pub fn load_after(earlier: &Self, bundle: &Bundle) -> Result<Self, ChainError> {
        Self::load_with(&earlier.engine, bundle, earlier.codes(), Until::DONE)
    }

    /// As [`Self::load_after`] if there is an earlier chain, else as [`Self::load`], with a deadline.
    pub(crate) fn load_until(
        engine: &Arc<Engine>,
        earlier: Option<&Self>,
        bundle: &Bundle,
        until: Until,
    ) -> Result<Self, ChainError> {
        let known = earlier.map(Self::codes).unwrap_or_default();
        Self::load_with(engine, bundle, known, until)
    }

    /// The compiled code, by the digest of the file.
    fn codes(&self) -> BTreeMap<String, Arc<PluginCode>> {
        let codes = self
            .plugins
            .iter()
            .map(|plugin| (plugin.sha256.clone(), Arc::clone(&plugin.code)));
        codes.collect()
    }

    fn load_with(
        engine: &Arc<Engine>,
        bundle: &Bundle,
        mut known: BTreeMap<String, Arc<PluginCode>>,
        until: Until,
    ) -> Result<Self, ChainError> {
        let mut plugins = Vec::with_capacity(bundle.manifest.plugins.len());
        let budget = Arc::default();
        for (index, entry) in bundle.manifest.plugins.iter().enumerate() {
            let loaded = if until.is_over() {
                Err(PluginError::Describe(CallFailure::NoTimeLeft))
            } else {
                load_code(engine, bundle, entry, &mut known, until).and_then(
                    |(code, compiled_in)| {
                        let plugin = Plugin::set_up(engine, entry, code, &budget)?;
                        Ok(Plugin {
                            compiled_in,
                            ..plugin
                        })
                    },
                )
            };
            let plugin = loaded.map_err(|problem| ChainError {
                plugin: entry.name.value.0.clone(),
                file: entry.file.0.clone(),
                line: entry.line(),
                problem: Box::new(located(problem, bundle, index)),
            })?;
            plugins.push(plugin);
        }
        let digest = digest::of(&plugins);
        Ok(Self {
            engine: Arc::clone(engine),
            plugins,
            digest,
        })
    }
}

/// Adds the lines of the manifest to what is wrong with a configuration.
fn located(problem: PluginError, bundle: &Bundle, index: usize) -> PluginError {
    let PluginError::Config(error) = problem else {
        return problem;
    };
    // It was parsed before, so it is UTF-8.
    let lines = Lines::of(&String::from_utf8_lossy(bundle.manifest()));
    PluginError::Config(error.located(|path| lines.line(&format!("/plugins/{index}/config{path}"))))
}

/// Returns the compiled code of an entry, and how long compiling took unless an earlier chain had done it.
fn load_code(
    engine: &Arc<Engine>,
    bundle: &Bundle,
    entry: &PluginEntry,
    known: &mut BTreeMap<String, Arc<PluginCode>>,
    until: Until,
) -> Result<(Arc<PluginCode>, Option<Duration>), PluginError> {
    let shipped = bundle
        .files
        .get(&entry.file)
        .map(|bytes| &**bytes)
        .unwrap_or_default();
    let found = crate::file::sha256(shipped);
    if let Some(pinned) = entry.sha256.as_ref().filter(|pinned| pinned.0 != found) {
        return Err(PluginError::Pin {
            found,
            pinned: pinned.0.clone(),
        });
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
