//! A plugin of a chain: its code, its description, its grants and its configuration.

mod description;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use podloom_mutation::show_bytes;
use podloom_pod_path::{Access, Grants, Operation, UnknownField};
use serde_json::{Map, Value};

pub use self::description::Description;
use crate::component::{Form, Names};
use crate::engine::Engine;
use crate::error::PluginError;
use crate::limits::{CHAIN_PATHS_BYTES, CallLimits, MemoryBudget, PluginSize};
use crate::manifest::{FailurePolicy, PluginEntry};
use crate::matching::Match;
use crate::request::Until;
use crate::sandbox::{CallSettings, LinkedCode, Sandbox};
use crate::text::one_line;
use crate::{component, file, text};

/// How many bytes of a message about a probable mistake are shown.
const WORDS: usize = 500;
/// How many such messages about one plugin are kept. Fewer are shown, and the others counted.
const MOST: usize = 1000;

/// A plugin of a chain.
#[derive(Clone)]
pub struct Plugin {
    /// Its name in the chain.
    pub name: String,
    /// Its file in the bundle.
    pub file: String,
    /// The SHA-256 digest of that file as shipped, in hexadecimal.
    pub sha256: String,
    /// Its description with this configuration: version, summary, and the paths that it needs to read and write.
    pub description: Description,
    /// The paths that it may write, and therefore read.
    pub allow: Vec<String>,
    /// Further paths that it may read: those in the manifest, or by default those in its description. The empty path is the whole
    /// pod.
    pub read: Vec<String>,
    /// What happens to a pod when it fails.
    pub failure_policy: FailurePolicy,
    /// How long an exception from it may last; none if there is none.
    pub longest_exception: Option<Duration>,
    /// Whether a second run on its own result must write nothing.
    pub idempotent: bool,
    /// The memory and time of one call.
    pub limits: CallLimits,
    /// How long compiling it took; none if the code was reused from an earlier chain.
    pub compiled_in: Option<Duration>,
    /// The line of the manifest that lists it.
    pub line: u64,
    /// What is probably a mistake in its entry and in what it asks for.
    pub(crate) warnings: Vec<String>,
    /// Where a program in its configuration denies.
    pub(crate) denials: Vec<String>,
    pub(crate) matches: Match,
    pub(crate) config: Value,
    pub(crate) code: Arc<PluginCode>,
    pub(crate) settings: Arc<CallSettings>,
    pub(crate) access: Arc<Access>,
}

/// The compiled code of one file. Plugins with the same file share it, and the next chain reuses it.
pub(crate) struct PluginCode {
    pub(crate) sha256: String,
    shipped_bytes: usize,
    wasm_bytes: usize,
    /// Whose bounds it was checked against.
    pub(crate) size: PluginSize,
    compile_time: Duration,
    names: Names,
    code: LinkedCode,
    /// The schema of the configuration, once a plugin has described itself.
    schema: OnceLock<Option<Arc<str>>>,
}

impl PluginCode {
    /// Unpacks, checks and compiles a file.
    pub(crate) fn of(
        engine: &Arc<Engine>,
        shipped: &[u8],
        size: PluginSize,
        until: Until,
    ) -> Result<Self, PluginError> {
        let wasm = file::wasm_of(shipped, size)?;
        let (wasm_bytes, started) = (wasm.len(), Instant::now());
        let (names, code) = component::compile(engine, wasm, size, until)?;
        Ok(Self {
            sha256: file::sha256(shipped),
            shipped_bytes: shipped.len(),
            wasm_bytes,
            size,
            compile_time: started.elapsed(),
            names,
            code,
            schema: OnceLock::new(),
        })
    }

    /// Calls `describe`, and keeps one copy of the schema for all plugins with this file.
    fn describe(&self, sandbox: Sandbox<'_>) -> Result<Description, PluginError> {
        let said = sandbox.describe();
        let said = said.map_err(|failure| format!("could not describe itself: {failure}"))?;
        let invalid = |problem| format!("has an invalid description: {problem}");
        let mut description = Description::check(said).map_err(invalid)?;
        let schema = &mut description.config_schema;
        let shared = self.schema.get_or_init(|| schema.clone());
        if shared != schema {
            return Err("has an invalid description: its configuration schema differs between configurations; return the same schema for all".into());
        }
        schema.clone_from(shared);
        Ok(description)
    }
}

impl Plugin {
    /// Gets the plugin's description, compares its needs with the manifest's grants, validates its configuration and prepares it.
    pub(crate) fn set_up(
        engine: &Engine,
        entry: &PluginEntry,
        code: Arc<PluginCode>,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Self, PluginError> {
        let mut granted = entry.read.iter().chain([&entry.allow]);
        if !granted.all(|paths| budget.take_for_paths(paths)) {
            return Err(too_many_paths());
        }
        let config = Value::Object(entry.config.clone().unwrap_or_default());
        let limits = entry.limits.per_call();
        let name = entry.name.value.0.clone();
        let settings = Arc::new(CallSettings::new(
            name.clone(),
            config.to_string(),
            limits,
            Arc::clone(budget),
            engine.lines.clone(),
        ));
        let sandbox = Sandbox {
            engine,
            code: &code.code,
            settings: &settings,
        };
        let description = code.describe(sandbox)?;
        let needed = [&description.reads, &description.writes];
        if !needed.into_iter().all(|paths| budget.take_for_paths(paths)) {
            return Err(too_many_paths());
        }
        let read = readable(entry, &description)?;
        let (access, unknown) = grant(&description, &entry.allow, &read)?;
        if entry.matches.takes_claims() {
            check_claims(access.writes())?;
        }
        let mut warnings = mistakes(entry, &description, &unknown);
        let said =
            description::check_config(sandbox, &config, description.config_schema.as_deref())?;
        warnings.extend(said.warnings);
        prepare(sandbox)?;
        Ok(Self {
            name,
            file: entry.file.0.clone(),
            sha256: code.sha256.clone(),
            description,
            allow: entry.allow.clone(),
            read,
            failure_policy: entry.failure_policy,
            longest_exception: entry.longest_exception.map(|it| it.0),
            idempotent: entry.idempotent,
            limits,
            compiled_in: None,
            line: entry.line(),
            warnings,
            denials: said.denials,
            matches: entry.matches.clone(),
            config,
            code,
            settings,
            access: Arc::new(access),
        })
    }

    /// Whether an exception from it holds that lasts so long.
    ///
    /// # Errors
    ///
    /// Why not, for those who wrote the exception.
    pub fn excepts(&self, lasts: Duration) -> Result<(), String> {
        let hours = |of: Duration| of.as_secs().div_ceil(3600);
        let name = &self.name;
        match self.longest_exception {
            None => Err(format!("the chain allows none for plugin {name}")),
            Some(longest) if lasts > longest => Err(format!(
                "it lasts {} h from its creation on, and the chain allows {} h for plugin {name}",
                hours(lasts),
                hours(longest)
            )),
            Some(_) => Ok(()),
        }
    }

    /// The size of its file as shipped.
    pub fn shipped_bytes(&self) -> usize {
        self.code.shipped_bytes
    }

    /// The manifest's `match`; an empty object matches every pod.
    pub fn matches(&self) -> Value {
        serde_json::to_value(&self.matches).unwrap_or_default()
    }

    /// Its configuration; an empty object if the manifest has none.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// Whether it needs labels or annotations of namespaces: its `match` does, or a call has asked for one, if only while the chain was
    /// proved. A plugin that asks for the first time later counts from then on.
    pub fn needs_namespaces(&self) -> bool {
        self.matches.selects_namespaces() || self.settings.has_asked_for_namespace()
    }

    /// Which pods it runs on.
    pub fn selection(&self) -> &Match {
        &self.matches
    }

    pub(crate) fn sandbox<'a>(&'a self, engine: &'a Engine) -> Sandbox<'a> {
        Sandbox {
            engine,
            code: &self.code.code,
            settings: &self.settings,
        }
    }
}

/// Grants the plugin what the manifest lists, not what it needs, since people review the manifest. Also returns the unknown fields
/// in what is granted.
pub(crate) fn grant(
    description: &Description,
    allow: &[String],
    read: &[String],
) -> Result<(Access, Vec<UnknownField>), PluginError> {
    let invalid = |field: &str, problem: String| {
        PluginError::Unfit(format!("has an invalid path in `{field}`: {problem}"))
    };
    let wrong = |field| {
        move |error: podloom_pod_path::GrantError| invalid(field, one_line(&error.to_string(), 500))
    };
    for (field, paths) in [("allow", allow), ("read", read)] {
        if let Some(path) = paths.iter().find(|path| !text::is_plain(path)) {
            let path = one_line(path, 200);
            let problem = format!("{path} contains invisible characters; remove them");
            return Err(invalid(field, problem));
        }
    }
    let writes = Grants::parse_writes(allow).map_err(wrong("allow"))?;
    let reads = Grants::parse(read).map_err(wrong("read"))?;
    let readable: Vec<&str> = read.iter().chain(allow).map(String::as_str).collect();
    let all_reads = Grants::parse(&readable).map_err(wrong("read"))?;
    check_needs(
        "write",
        &description.needed_writes,
        &writes,
        "`allow` grants",
    )?;
    let both = "`read` and `allow` grant";
    check_needs("read", &description.needed_reads, &all_reads, both)?;
    let needed = [&description.needed_reads, &description.needed_writes];
    let needed: Vec<&str> = needed.into_iter().flat_map(Grants::paths).collect();
    // What the plugin needs is reported as such, so not a second time as what it is granted.
    let is_needed = |unknown: &UnknownField| {
        let below = |path: &&str| {
            let rest = path.strip_prefix(unknown.path.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        needed.iter().any(below)
    };
    let mut unknown = writes.unknown_fields();
    unknown.extend(reads.unknown_fields());
    unknown.retain(|unknown| !is_needed(unknown));
    Ok((Access::new(reads, writes), unknown))
}

/// The paths that it may read besides those that it may write: by default those in its description. Only the manifest can grant
/// the whole pod.
fn readable(entry: &PluginEntry, description: &Description) -> Result<Vec<String>, PluginError> {
    match &entry.read {
        Some(read) => Ok(read.clone()),
        None if description.reads.iter().any(String::is_empty) => Err("needs to read the whole pod, which only chain.yaml can grant; to allow it, add the line `read: [\"\"]`".into()),
        None => Ok(description.reads.clone()),
    }
}

/// Refuses a plugin that needs more than it is granted.
fn check_needs(
    verb: &str,
    needed: &Grants,
    granted: &Grants,
    who: &str,
) -> Result<(), PluginError> {
    let Err(missing) = granted.covers(needed) else {
        return Ok(());
    };
    let missing = missing.iter().map(|path| podloom_pod_path::shown(path));
    let missing = text::list(&missing.collect::<Vec<_>>());
    // As in `grants only /spec`, or `grants nothing`.
    let granted = match shown(granted) {
        granted if granted == "nothing" => granted,
        granted => format!("only {granted}"),
    };
    let needed = shown(needed);
    Err(format!("needs to {verb} {needed}, but {who} {granted}; add {missing}").into())
}

/// Refuses a plugin that runs when a session gets its pod, and may write what nobody can change in a pod that runs.
fn check_claims(writes: &Grants) -> Result<(), PluginError> {
    let places = Operation::Claim.places(&[]).unwrap_or_default();
    let places = Grants::parse_writes(&places).map_err(|error| error.to_string())?;
    let Err(fixed) = places.covers(writes) else {
        return Ok(());
    };
    let fixed: Vec<_> = fixed.iter().map(|it| podloom_pod_path::shown(it)).collect();
    let fixed = text::list(&fixed);
    Err(format!("runs at CLAIM, when the pod may run already, but `allow` grants {fixed}; then only {} can change, so list it a second time, under another name, for what it does at CREATE", shown(&places)).into())
}

fn too_many_paths() -> PluginError {
    format!(
        "has too many paths: those in `allow` and `read` and those that plugins need may take {} for all plugins of a chain; grant whole objects instead of their fields, or use fewer plugins",
        show_bytes(CHAIN_PATHS_BYTES)
    )
    .into()
}

fn prepare(sandbox: Sandbox<'_>) -> Result<(), PluginError> {
    let prepared = sandbox.prepare();
    prepared.map_err(|failure| format!("could not prepare itself: {failure}").into())
}

fn shown(grants: &Grants) -> String {
    one_line(&grants.to_string(), 2000)
}

/// What is probably a mistake in a plugin's entry and in what it asks for, though it can run; `granted` are the unknown fields in what
/// the manifest grants.
fn mistakes(
    entry: &PluginEntry,
    description: &Description,
    granted: &[UnknownField],
) -> Vec<String> {
    let mut messages = entry.matches.warnings();
    let unknown = [
        ("chain.yaml grants", granted),
        (
            "it needs to write",
            &description.needed_writes.unknown_fields(),
        ),
        (
            "it needs to read",
            &description.needed_reads.unknown_fields(),
        ),
    ];
    for (who, fields) in unknown {
        messages.extend(fields.iter().map(|unknown| message(who, unknown)));
    }
    messages.truncate(MOST);
    messages
}

/// A message about an unknown field.
pub(crate) fn message(who: &str, unknown: &UnknownField) -> String {
    one_line(&format!("{who} {unknown}"), WORDS)
}

/// Everything that can be found out about a plugin file.
#[derive(Debug)]
pub struct Inspection {
    /// The plugin's description of itself with the given configuration.
    pub description: Description,
    /// The digest of the file as shipped, in hexadecimal.
    pub sha256: String,
    /// Whether it ships a core module or a component.
    pub form: Form,
    /// The version of the contract that it was built for.
    pub contract: String,
    /// The interfaces it imports.
    pub imports: Vec<String>,
    /// The interfaces of the contract that it exports.
    pub exports: Vec<String>,
    /// Its size as shipped.
    pub shipped_bytes: usize,
    /// Its size as Wasm, which differs from the above if it ships gzipped.
    pub wasm_bytes: usize,
    /// The size that its entry in a chain must allow.
    pub size: PluginSize,
    /// How long encoding and compiling took.
    pub compile_time: Duration,
}

/// Compiles a plugin and gets its description. If a configuration is given, it is validated too.
///
/// # Errors
/// If the file is not a plugin, its description is invalid, or it rejects the configuration.
pub fn inspect(
    engine: &Arc<Engine>,
    shipped: &[u8],
    config: Option<&Map<String, Value>>,
) -> Result<Inspection, PluginError> {
    let of = |size| PluginCode::of(engine, shipped, size, Until::DONE);
    let code = match of(PluginSize::Standard) {
        Err(PluginError::TooLarge(_)) => of(PluginSize::Large)?,
        code => code?,
    };
    let value = Value::Object(config.cloned().unwrap_or_default());
    let settings = Arc::new(CallSettings::new(
        "inspected".to_owned(),
        value.to_string(),
        CallLimits::default(),
        Arc::default(),
        None,
    ));
    let sandbox = Sandbox {
        engine,
        code: &code.code,
        settings: &settings,
    };
    let description = code.describe(sandbox)?;
    if config.is_some() {
        description::check_config(sandbox, &value, description.config_schema.as_deref())?;
        prepare(sandbox)?;
    }
    Ok(Inspection {
        description,
        sha256: code.sha256,
        form: code.names.form,
        contract: code.names.contract,
        imports: code.names.imports,
        exports: code.names.exports,
        shipped_bytes: code.shipped_bytes,
        wasm_bytes: code.wasm_bytes,
        size: code.size,
        compile_time: code.compile_time,
    })
}
