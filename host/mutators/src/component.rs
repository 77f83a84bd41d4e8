//! Checks, compiles and links the Wasm of a plugin, so that it can be instantiated.
//!
//! No code of the plugin runs here, and precompiled code is never loaded: only [`wasmtime::component::Component::new`] and
//! [`wasmtime::Module::new`] are used, on Wasm bytes.
//! A core module is always encoded as a component, since that validates it against its metadata. Where the result is the same,
//! the module itself is compiled and called, since that is much cheaper.

mod bounds;

use std::sync::Arc;

use rayon::ThreadPoolBuilder;
use wasmparser::{CanonicalFunction, CanonicalOption, Encoding, Parser, Payload};
use wit_component::ComponentEncoder;

use crate::contract::{self, PACKAGE, SERVED};
use crate::engine::{Engine, compile_in_turn};
use crate::error::PluginError;
use crate::limits::PluginSize;
use crate::request::Until;
use crate::sandbox::{Component, LinkedCode, Module};
use crate::text::one_line;

const PLUGIN: &str = "plugin";
const PREPARATION: &str = "preparation";
/// The custom section that describes a core module's world to the component encoder.
const METADATA: &str = "component-type";
/// Prefix in core modules that use the standard names of the Component Model's 32-bit build target.
const STANDARD_PREFIX: &str = "cm32p2|";
const NAMES: usize = 1000;
/// Prefix of the interfaces to an operating system.
const WASI: &str = "wasi:";

/// What a plugin file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A core module, which the host encodes as a component.
    CoreModule,
    /// A component.
    Component,
}

/// Checks the bounds, the names and the version of a file, then encodes, compiles and links it.
pub(crate) fn compile(
    engine: &Arc<Engine>,
    wasm: Vec<u8>,
    size: PluginSize,
    until: Until,
) -> Result<(Names, LinkedCode), PluginError> {
    let inspect = move || {
        bounds::check(&wasm, size)?;
        Ok((read(&wasm, size)?, wasm))
    };
    let compiler = Arc::clone(engine);
    let compile = move |(names, wasm): (Names, Vec<u8>)| {
        let code = encode_and_compile(&compiler, &wasm, &names);
        drop_contexts(&compiler);
        Ok((names, code?))
    };
    let priority = engine.compile_priority();
    compile_in_turn(&engine.turn, priority, inspect, compile, until)
}

fn encode_and_compile(
    engine: &Engine,
    wasm: &[u8],
    names: &Names,
) -> Result<LinkedCode, PluginError> {
    if names.form == Form::Component {
        return component(engine, wasm, names);
    }
    let encoded = encode(wasm)?;
    match module(engine, wasm, &encoded, names)? {
        Some(module) => Ok(LinkedCode::Module(module)),
        None => component(engine, &encoded, names),
    }
}

/// A module with one function, whose body leaves a number behind: only the compiler finds that it is invalid.
/// Its sections are a type without parameters and results, one function of it, and the code `i32.const 0 end`.
const INVALID: &[u8] =
    b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x0a\x06\x01\x04\0\x41\0\x0b";

/// Frees the memory that the compiler keeps for the next plugin: for each function that it compiled at the same time as much as
/// the largest one needed. This is 9 MiB for the standard plugins on two cores, and 20 MiB for each core for a hostile one.
///
/// Wasmtime has no call for that. But it takes such a context from a stack to compile a function, and does not put it back if
/// the function is invalid. On one thread it does so before it compiles the caller of that function, which takes a context and
/// puts it back.
fn drop_contexts(engine: &Engine) {
    let most = rayon::current_num_threads();
    let drop_all = || {
        for _ in 0..most {
            let refused = wasmtime::Module::new(&engine.wasm, INVALID).err();
            let text = refused.map(|error| error.to_string()).unwrap_or_default();
            debug_assert!(text.starts_with("failed to compile"), "{text}");
        }
    };
    match ThreadPoolBuilder::new().num_threads(1).build() {
        Ok(pool) => pool.install(drop_all),
        Err(error) => tracing::debug!(%error, "the compiler keeps its memory"),
    }
}

fn component(engine: &Engine, wasm: &[u8], names: &Names) -> Result<LinkedCode, PluginError> {
    let component = wasmtime::component::Component::new(&engine.wasm, wasm)
        .map_err(|error| format!("does not compile: {}", show(&error)))?;
    let linked = Component::link(&component, &names.plugin, names.uses_wasi);
    let linked =
        linked.map_err(|error| format!("does not match the contract: {}", show(&error)))?;
    Ok(LinkedCode::Component(linked))
}

fn module(
    engine: &Engine,
    wasm: &[u8],
    encoded: &[u8],
    names: &Names,
) -> Result<Option<Module>, PluginError> {
    if !is_plain(encoded)? {
        return Ok(None);
    }
    let module = wasmtime::Module::new(&engine.wasm, wasm)
        .map_err(|error| format!("does not compile: {}", show(&error)))?;
    Ok(Module::link(&module, &names.plugin, &names.preparation))
}

/// Whether all functions of an encoded module use only the plain options: strings as UTF-8 in the module's own memory.
fn is_plain(component: &[u8]) -> Result<bool, PluginError> {
    for payload in Parser::new(0).parse_all(component) {
        let Payload::ComponentCanonicalSection(functions) = payload.map_err(damaged)? else {
            continue;
        };
        for function in functions {
            let options = match function.map_err(damaged)? {
                CanonicalFunction::Lift { options, .. }
                | CanonicalFunction::Lower { options, .. } => options,
                CanonicalFunction::ResourceDrop { .. } => continue,
                _ => return Ok(false),
            };
            if !options.iter().all(|option| {
                matches!(
                    option,
                    CanonicalOption::UTF8
                        | CanonicalOption::Memory(_)
                        | CanonicalOption::Realloc(_)
                        | CanonicalOption::PostReturn(_)
                )
            }) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn encode(module: &[u8]) -> Result<Vec<u8>, PluginError> {
    let encoded = ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(ComponentEncoder::encode);
    encoded.map_err(|error| {
        let error = one_line(&format!("{error:#}"), 500);
        format!("cannot be encoded as a component: {error}").into()
    })
}

fn show(error: &wasmtime::Error) -> String {
    one_line(&format!("{error:#}"), 500)
}

fn foreign(imports: &[&str]) -> String {
    const SHOWN: usize = 5;
    let mut text = String::from("imports what the host does not provide: ");
    text.push_str(&imports.get(..SHOWN).unwrap_or(imports).join(", "));
    if imports.len() > SHOWN {
        text.push_str(&format!(" and {} more", imports.len() - SHOWN));
    }
    let mut remedies: Vec<&str> = imports.iter().map(|import| remedy(import)).collect();
    remedies.sort_unstable();
    remedies.dedup();
    text + "; " + &remedies.join("; ")
}

/// What the names of a plugin's imports and exports show.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) form: Form,
    /// The version of the contract in the name of the exported interface.
    pub(crate) contract: String,
    /// The name of the exported interface.
    plugin: String,
    /// The name of the optional interface, whether or not it is exported.
    preparation: String,
    /// The imported interfaces, each once.
    pub(crate) imports: Vec<String>,
    /// The exported interfaces of the contract, each once.
    pub(crate) exports: Vec<String>,
    /// Whether some of the imports are of WASI.
    uses_wasi: bool,
}

/// Reads the names and checks them: only imports of the contract, the exported plugin interface, a supported version.
///
/// The interpreter in a large plugin may import WASI, whether or not it needs that. What it calls of it traps.
fn read(wasm: &[u8], size: PluginSize) -> Result<Names, PluginError> {
    let (mut form, mut has_metadata, mut depth) = (Form::CoreModule, false, 0_usize);
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.map_err(damaged)? {
            Payload::Version { encoding, .. } if depth == 0 && encoding == Encoding::Component => {
                form = Form::Component;
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            // Imports of nested modules and components are linked inside the component.
            _ if depth > 0 => {}
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    add(&mut imports, standard(import.map_err(damaged)?.module));
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    add(&mut imports, standard(import.map_err(damaged)?.name.name));
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    add_export(&mut exports, export.map_err(damaged)?.name);
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    add_export(&mut exports, export.map_err(damaged)?.name.name);
                }
            }
            Payload::CustomSection(section) if section.name().starts_with(METADATA) => {
                has_metadata = true;
            }
            _ => {}
        }
    }
    let version = check_names(&imports, &exports, form, size)?;
    if form == Form::CoreModule && !has_metadata {
        return Err("is a core module without component metadata; keep the custom sections named component-type when you strip it".into());
    }
    Ok(Names {
        form,
        plugin: format!("{PACKAGE}/{PLUGIN}@{version}"),
        preparation: format!("{PACKAGE}/{PREPARATION}@{version}"),
        uses_wasi: imports.iter().any(|name| name.starts_with(WASI)),
        contract: version,
        imports,
        exports,
    })
}

/// Returns the version of the contract.
fn check_names(
    imports: &[String],
    exports: &[String],
    form: Form,
    size: PluginSize,
) -> Result<String, PluginError> {
    // The version is checked first, since a plugin for another version may import what this one lacks.
    let names = exports.iter().chain(imports);
    let mut of_contract = names.filter_map(|name| contract::interface(name));
    if let Some((_, version)) = of_contract.find(|(_, version)| !contract::is_served(version)) {
        return Err(format!(
            "is built for version {version} of the contract {PACKAGE}, but this host supports {SERVED}; rebuild it with podloom-plugin-sdk {SERVED}"
        )
        .into());
    }
    let may_use_wasi = size == PluginSize::Large && form == Form::Component;
    let names = imports.iter().map(String::as_str);
    let foreign: Vec<&str> = names
        .filter(|name| contract::interface(name).is_none())
        .filter(|name| !(may_use_wasi && name.starts_with(WASI)))
        .collect();
    if !foreign.is_empty() {
        return Err(self::foreign(&foreign).into());
    }
    let mut exported = exports.iter().filter_map(|name| contract::interface(name));
    let plugin = exported.find(|(interface, _)| *interface == PLUGIN);
    let (_, version) = plugin.ok_or_else(|| {
        format!(
            "exports no {PACKAGE}/plugin; build it with podloom-plugin-sdk and its mutator! macro"
        )
    })?;
    Ok(version.to_owned())
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that map_err needs"
)]
fn damaged(error: wasmparser::BinaryReaderError) -> PluginError {
    let error = one_line(&error.to_string(), 200);
    format!("is damaged or uses a WebAssembly feature that this host does not support: {error}")
        .into()
}

fn standard(name: &str) -> &str {
    name.strip_prefix(STANDARD_PREFIX).unwrap_or(name)
}

/// Core modules export `interface@version#function`, or with standard names `interface@version|function`.
fn add_export(exports: &mut Vec<String>, name: &str) {
    let name = standard(name);
    let interface = name.split(['#', '|']).next().unwrap_or(name);
    if interface.starts_with(PACKAGE) {
        add(exports, interface);
    }
}

/// Adds a name once, up to a limit, so that the lists stay short whatever the file contains.
fn add(names: &mut Vec<String>, name: &str) {
    if names.len() < NAMES && !names.iter().any(|known| known == name) {
        names.push(one_line(name, 200));
    }
}

fn remedy(import: &str) -> &'static str {
    if import.starts_with(WASI) {
        "plugins have no files, clock, randomness or environment: build for wasm32-unknown-unknown, without crates that need these; for a language that brings its interpreter, allow the imports with `limits: { size: Large }` in chain.yaml: a call of them traps"
    } else if import.starts_with("wasi") {
        "plugins have no files, clock, randomness or environment: build for wasm32-unknown-unknown, without crates that need these"
    } else if import.starts_with("__wbindgen") || import == "wbg" {
        "this comes from wasm-bindgen, which needs JavaScript: turn off the feature `js` or `wasmbind` of the crate that uses it"
    } else if import == "env" {
        "a symbol or the memory is undefined: link the library that defines the symbol, and do not import the memory"
    } else if import.starts_with("[export]") {
        "the plugin interface of the contract defines no resources: export it exactly as in the contract"
    } else {
        "plugins can only import podloom:mutator"
    }
}
