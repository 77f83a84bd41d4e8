//! A plugin of a chain: its code, what it says of itself, what it may do here.

mod config;
mod description;
mod expansion;
mod pattern;
mod steps;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use podloom_pod_path::{Access, Grants};
use serde_json::{Map, Value};

pub use self::config::ConfigError;
pub use self::description::{Description, DescriptionError};
use crate::budget::MemoryBudget;
use crate::component::{self, Compiled, ComponentError};
use crate::engine::Engine;
use crate::file::{self, FileError};
use crate::limits::{CHAIN_PATHS_BYTES, CallLimits, show_bytes};
use crate::manifest::{FailurePolicy, PluginEntry};
use crate::matching::Match;
use crate::sandbox::{CallFailure, CallSettings, Sandbox};
use crate::text;
use crate::until::Until;

/// A plugin in its place in a chain.
pub struct Plugin {
    /// Its name in the chain.
    pub name: String,
    /// Its file in the bundle.
    pub file: String,
    /// The digest of that file as shipped, in hexadecimal.
    pub sha256: String,
    /// What it says of itself with this configuration: version, summary, what it needs to read and write.
    pub description: Description,
    /// The paths it may write, and so read.
    pub allow: Vec<String>,
    /// The paths it may read besides: what the manifest says, or else what the plugin says that it reads. The empty path is the
    /// whole pod.
    pub read: Vec<String>,
    /// What becomes of a pod when it fails.
    pub failure_policy: FailurePolicy,
    /// Whether a second run over its own result must write nothing.
    pub idempotent: bool,
    /// What one call may use.
    pub limits: CallLimits,
    /// How long compiling it took; none if an earlier chain had done that.
    pub compiled_in: Option<Duration>,
    pub(crate) matches: Match,
    pub(crate) config: Value,
    pub(crate) code: Arc<PluginCode>,
    pub(crate) settings: Arc<CallSettings>,
    pub(crate) access: Arc<Access>,
}

/// The compiled code of one file; plugins with the same file share it, and so does the next chain.
pub(crate) struct PluginCode {
    pub(crate) sha256: String,
    pub(crate) shipped_bytes: usize,
    pub(crate) compiled: Compiled,
    /// The schema of its configuration, once it has described itself.
    schema: OnceLock<Option<Arc<str>>>,
}

/// Why a plugin cannot be part of a chain. Each reads as the rest of a sentence that begins with the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// The file is not a plugin.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not the one that was pinned.
    #[error("has sha256 {found}, but chain.yaml pins {pinned}")]
    Pin {
        /// The digest of the file that is there.
        found: String,
        /// The digest in the manifest.
        pinned: String,
    },
    /// The code is not a plugin for this host.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// It could not even say what it is.
    #[error("could not describe itself: {0}")]
    Describe(CallFailure),
    /// What it says of itself is not usable.
    #[error("describes itself wrongly: {0}")]
    Description(#[from] DescriptionError),
    /// A path list of the manifest is wrong.
    #[error("has a wrong path in `{field}`: {message}")]
    Grant {
        /// `allow` or `read`.
        field: &'static str,
        /// What is wrong.
        message: String,
    },
    /// The plugins of the chain have more paths than the host holds.
    #[error(
        "has too many paths for this chain: with its own, the paths that plugins need and those in `allow` and `read` take more than {} in all; use fewer plugins, or allow an object in place of each of its fields",
        show_bytes(CHAIN_PATHS_BYTES)
    )]
    ChainPaths,
    /// It needs to write more than it may.
    #[error("needs to write {needed}, but `allow` gives it {given}; add {missing}")]
    Writes {
        /// All it needs.
        needed: String,
        /// All it gets.
        given: String,
        /// What to add.
        missing: String,
    },
    /// It needs to read the whole pod, and the manifest does not say that it may.
    #[error(
        "needs to read the whole pod, which nothing but chain.yaml can allow; add the line `read: [\"\"]` if it may"
    )]
    ReadsAll,
    /// It needs to read more than it may.
    #[error("needs to read {needed}, but `read` and `allow` give it {given}; add {missing}")]
    Reads {
        /// All it needs.
        needed: String,
        /// All it gets.
        given: String,
        /// What to add.
        missing: String,
    },
    /// Its configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It could not make itself ready for pods.
    #[error("could not prepare itself: {0}")]
    Prepare(CallFailure),
}

impl PluginCode {
    /// Unpacks, checks and compiles a file.
    pub(crate) fn of(
        engine: &Arc<Engine>,
        shipped: &[u8],
        until: Until,
    ) -> Result<Self, PluginError> {
        let unpacked = file::unpack(shipped)?;
        let compiled = component::compile(engine, unpacked.wasm, until)?;
        Ok(Self {
            sha256: file::sha256(shipped),
            shipped_bytes: unpacked.shipped_bytes,
            compiled,
            schema: OnceLock::new(),
        })
    }

    /// Keeps one schema for a file, however often it is listed.
    fn share_schema(&self, description: &mut Description) -> Result<(), DescriptionError> {
        let shared = self
            .schema
            .get_or_init(|| description.config_schema.clone());
        if *shared != description.config_schema {
            return Err(DescriptionError::ChangingSchema);
        }
        description.config_schema.clone_from(shared);
        Ok(())
    }
}

impl Plugin {
    /// Asks the plugin what it is and needs, holds that against the manifest, and checks its configuration.
    pub(crate) fn set_up(
        engine: &Engine,
        entry: &PluginEntry,
        code: Arc<PluginCode>,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Self, PluginError> {
        let granted = entry.read.iter().chain([&entry.allow]);
        if !granted
            .into_iter()
            .all(|paths| budget.take_for_paths(paths))
        {
            return Err(PluginError::ChainPaths);
        }
        let config = Value::Object(entry.config.clone().unwrap_or_default());
        let limits = entry.limits.per_call();
        let name = entry.name.value.0.clone();
        let settings = Arc::new(CallSettings::new(
            name.clone(),
            config.to_string(),
            limits,
            Arc::clone(budget),
        ));
        let sandbox = Sandbox {
            engine,
            code: &code.compiled.code,
            settings: &settings,
        };
        let description = describe(sandbox, &code)?;
        let needed = [&description.reads, &description.writes];
        if !needed.into_iter().all(|paths| budget.take_for_paths(paths)) {
            return Err(PluginError::ChainPaths);
        }
        let read = readable(entry, &description)?;
        let access = grant(&description, &entry.allow, &read)?;
        config::check(sandbox, &config, description.config_schema.as_deref())?;
        sandbox.prepare().map_err(PluginError::Prepare)?;
        Ok(Self {
            name,
            file: entry.file.0.clone(),
            sha256: code.sha256.clone(),
            description,
            allow: entry.allow.clone(),
            read,
            failure_policy: entry.failure_policy,
            idempotent: entry.idempotent,
            limits,
            compiled_in: None,
            matches: entry.matches.clone(),
            config,
            code,
            settings,
            access: Arc::new(access),
        })
    }

    /// The size of its file as shipped.
    pub fn shipped_bytes(&self) -> usize {
        self.code.shipped_bytes
    }

    /// Which pods it sees, as the manifest's `match` says it; an empty object means every pod.
    pub fn matches(&self) -> Value {
        serde_json::to_value(&self.matches).unwrap_or_default()
    }

    pub(crate) fn sandbox<'a>(&'a self, engine: &'a Engine) -> Sandbox<'a> {
        Sandbox {
            engine,
            code: &self.code.compiled.code,
            settings: &self.settings,
        }
    }
}

/// Sets up a plugin outside of any chain: to see what it says with a configuration.
pub(crate) fn describe_alone(
    engine: &Engine,
    code: &PluginCode,
    config: Option<&Map<String, Value>>,
) -> Result<Description, PluginError> {
    let value = Value::Object(config.cloned().unwrap_or_default());
    let settings = Arc::new(CallSettings::new(
        "inspected".to_owned(),
        value.to_string(),
        CallLimits::default(),
        Arc::default(),
    ));
    let sandbox = Sandbox {
        engine,
        code: &code.compiled.code,
        settings: &settings,
    };
    let description = describe(sandbox, code)?;
    if config.is_some() {
        config::check(sandbox, &value, description.config_schema.as_deref())?;
        sandbox.prepare().map_err(PluginError::Prepare)?;
    }
    Ok(description)
}

fn describe(sandbox: Sandbox<'_>, code: &PluginCode) -> Result<Description, PluginError> {
    let said = sandbox.describe().map_err(PluginError::Describe)?;
    let mut description = Description::check(said)?;
    code.share_schema(&mut description)?;
    Ok(description)
}

/// The plugin gets what the manifest gives, not what it needs: the manifest is what people review.
fn grant(
    description: &Description,
    allow: &[String],
    read: &[String],
) -> Result<Access, PluginError> {
    let wrong = |field| {
        move |error: podloom_pod_path::GrantError| PluginError::Grant {
            field,
            message: text::one_line(&error.to_string(), 500),
        }
    };
    for (field, paths) in [("allow", allow), ("read", read)] {
        if let Some(path) = paths.iter().find(|path| !text::is_plain(path)) {
            let message = format!(
                "{} has characters that nobody sees",
                text::one_line(path, 200)
            );
            return Err(PluginError::Grant { field, message });
        }
    }
    let writes = Grants::parse_writes(allow).map_err(wrong("allow"))?;
    let reads = Grants::parse(read).map_err(wrong("read"))?;
    if let Err(missing) = writes.covers(&description.needed_writes) {
        let (needed, given) = (shown(&description.needed_writes), shown(&writes));
        return Err(PluginError::Writes {
            needed,
            given,
            missing: paths(&missing),
        });
    }
    let readable: Vec<&str> = read.iter().chain(allow).map(String::as_str).collect();
    let all_reads = Grants::parse(&readable).map_err(wrong("read"))?;
    if let Err(missing) = all_reads.covers(&description.needed_reads) {
        let (needed, given) = (shown(&description.needed_reads), shown(&all_reads));
        return Err(PluginError::Reads {
            needed,
            given,
            missing: paths(&missing),
        });
    }
    Ok(Access::new(reads, writes))
}

/// What it may read besides what it may write: without a word in the manifest, what it says that it reads. Only the manifest
/// opens the whole pod.
fn readable(entry: &PluginEntry, description: &Description) -> Result<Vec<String>, PluginError> {
    match &entry.read {
        Some(read) => Ok(read.clone()),
        None if description.reads.iter().any(String::is_empty) => Err(PluginError::ReadsAll),
        None => Ok(description.reads.clone()),
    }
}

fn shown(grants: &Grants) -> String {
    text::one_line(&grants.to_string(), 2000)
}

fn paths(paths: &[String]) -> String {
    let shown = paths
        .iter()
        .map(|path| podloom_pod_path::shown(path).to_owned());
    text::list(&shown.collect::<Vec<String>>())
}
