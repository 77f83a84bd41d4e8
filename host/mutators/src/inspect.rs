//! Inspects a plugin file on its own, for authors and reviewers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::component::Form;
use crate::engine::Engine;
use crate::limits::PluginSize;
use crate::plugin::{Description, PluginCode, PluginError, describe_alone};
use crate::until::Until;

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
        Err(error) if error.is_too_large() => of(PluginSize::Large)?,
        code => code?,
    };
    let description = describe_alone(engine, &code, config)?;
    Ok(Inspection {
        description,
        sha256: code.sha256,
        form: code.compiled.form,
        contract: code.compiled.contract,
        imports: code.compiled.imports,
        exports: code.compiled.exports,
        shipped_bytes: code.shipped_bytes,
        wasm_bytes: code.compiled.wasm_bytes,
        size: code.size,
        compile_time: code.compiled.compile_time,
    })
}
