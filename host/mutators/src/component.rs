//! Checks, compiles and links the Wasm of a plugin, so that it can be instantiated.
//!
//! No code of the plugin runs here, and precompiled code is never loaded: only [`wasmtime::component::Component::new`] and
//! [`wasmtime::Module::new`] are used, on Wasm bytes.
//! A core module is always encoded as a component, since that validates it against its metadata. Where the result is the same,
//! the module itself is compiled and called, since that is much cheaper.

mod bounds;
mod names;

use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmparser::{CanonicalFunction, CanonicalOption, Parser, Payload};
use wit_component::ComponentEncoder;

pub use self::bounds::TooMuch;
use self::names::Names;
use crate::contract::{PACKAGE, SERVED};
use crate::engine::{CompileThreadError, Engine};
use crate::limits::PluginSize;
use crate::sandbox::{Component, LinkError, LinkedCode, Module};
use crate::text::one_line;
use crate::until::Until;

/// What a plugin file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A core module, which the host encodes as a component.
    CoreModule,
    /// A component.
    Component,
}

/// Why Wasm is not a plugin that this host can run. Each message continues a sentence that begins with the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComponentError {
    /// It is not valid Wasm, or uses unsupported features.
    #[error("is damaged or uses a WebAssembly feature that this host does not support: {0}")]
    Parse(String),
    /// Components nested more deeply than any toolchain nests them.
    #[error("nests components too deeply")]
    Nested,
    /// Components that call each other, for which the compiler would generate adapters.
    #[error(
        "is composed of several components, but a plugin must be a single one; link the code into one core module, and build the plugin from that"
    )]
    Adapter,
    /// Imports that are not in the contract.
    #[error("{}", foreign(.0))]
    ForeignImports(Vec<ForeignImport>),
    /// Valid Wasm without the plugin interface.
    #[error("exports no {PACKAGE}/plugin; build it with podloom-plugin-sdk and its mutator! macro")]
    NoPlugin,
    /// Built for another version of the contract.
    #[error(
        "is built for version {found} of the contract {PACKAGE}, but this host supports {SERVED}; rebuild it with podloom-plugin-sdk {SERVED}"
    )]
    Version {
        /// The version in the names that the plugin imports and exports.
        found: String,
    },
    /// A core module without the custom section that describes its world.
    #[error(
        "is a core module without component metadata; keep the custom sections named component-type when you strip it"
    )]
    NoMetadata,
    /// A core module that does not match its metadata.
    #[error("cannot be encoded as a component: {0}")]
    Encode(String),
    /// More of something than real plugins have, which would keep the compiler busy for minutes.
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
    /// The time for building its chain was over before it was compiled.
    #[error("was not compiled in time: building the chain took too long")]
    NoTimeLeft,
    /// The compiler failed.
    #[error("does not compile: {0}")]
    Compile(String),
    /// Its imports or exports have other types than those of the contract.
    #[error("does not match the contract: {0}")]
    Link(String),
}

/// An import that the host does not provide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignImport {
    /// The name in the plugin.
    pub name: String,
    /// What the author can do about it.
    pub remedy: &'static str,
}

/// A plugin's code, ready to be instantiated for a call.
pub(crate) struct Compiled {
    pub(crate) form: Form,
    /// The version of the contract that it was built for.
    pub(crate) contract: String,
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
    pub(crate) wasm_bytes: usize,
    pub(crate) compile_time: Duration,
    pub(crate) code: LinkedCode,
}

/// Checks the bounds, the names and the version of a file, then encodes, compiles and links it.
pub(crate) fn compile(
    engine: &Arc<Engine>,
    wasm: Vec<u8>,
    size: PluginSize,
    until: Until,
) -> Result<Compiled, ComponentError> {
    let started = Instant::now();
    let wasm_bytes = wasm.len();
    let inspect = move || {
        bounds::check(&wasm, size)?;
        Ok::<_, ComponentError>((names::read(&wasm, size)?, wasm))
    };
    let compile = |engine: &Engine, (names, wasm): (Names, Vec<u8>)| {
        let code = encode_and_compile(engine, &wasm, &names)?;
        Ok((names, code))
    };
    let compiled = engine.compile(inspect, compile, until);
    let (names, code) = compiled.map_err(|error| match error {
        CompileThreadError::TooLong => ComponentError::NoTimeLeft,
        error => ComponentError::Compile(error.to_string()),
    })??;
    Ok(Compiled {
        form: names.form,
        contract: names.contract,
        imports: names.imports,
        exports: names.exports,
        wasm_bytes,
        compile_time: started.elapsed(),
        code,
    })
}

fn encode_and_compile(
    engine: &Engine,
    wasm: &[u8],
    names: &Names,
) -> Result<LinkedCode, ComponentError> {
    if names.form == Form::Component {
        return component(engine, wasm, names);
    }
    let encoded = encode(wasm)?;
    match module(engine, wasm, &encoded, names)? {
        Some(module) => Ok(LinkedCode::Module(module)),
        None => component(engine, &encoded, names),
    }
}

fn component(engine: &Engine, wasm: &[u8], names: &Names) -> Result<LinkedCode, ComponentError> {
    let component = wasmtime::component::Component::new(&engine.wasm, wasm)
        .map_err(|error| ComponentError::Compile(show(&error)))?;
    match Component::link(&component, &names.plugin, names.uses_wasi) {
        Ok(component) => Ok(LinkedCode::Component(component)),
        Err(LinkError::NoPlugin) => Err(ComponentError::NoPlugin),
        Err(LinkError::Unfit(reason)) => Err(ComponentError::Link(one_line(&reason, 500))),
    }
}

fn module(
    engine: &Engine,
    wasm: &[u8],
    encoded: &[u8],
    names: &Names,
) -> Result<Option<Module>, ComponentError> {
    if !is_plain(encoded)? {
        return Ok(None);
    }
    let module = wasmtime::Module::new(&engine.wasm, wasm)
        .map_err(|error| ComponentError::Compile(show(&error)))?;
    Ok(Module::link(&module, &names.plugin, &names.preparation))
}

/// Whether all functions of an encoded module use only the plain options: strings as UTF-8 in the module's own memory.
fn is_plain(component: &[u8]) -> Result<bool, ComponentError> {
    for payload in Parser::new(0).parse_all(component) {
        let Payload::ComponentCanonicalSection(functions) = payload.map_err(names::damaged)? else {
            continue;
        };
        for function in functions {
            let options = match function.map_err(names::damaged)? {
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

fn encode(module: &[u8]) -> Result<Vec<u8>, ComponentError> {
    ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(ComponentEncoder::encode)
        .map_err(|error| ComponentError::Encode(one_line(&format!("{error:#}"), 500)))
}

fn show(error: &wasmtime::Error) -> String {
    one_line(&format!("{error:#}"), 500)
}

fn foreign(imports: &[ForeignImport]) -> String {
    const SHOWN: usize = 5;
    let mut text = String::from("imports what the host does not provide: ");
    let shown: Vec<&str> = imports
        .iter()
        .take(SHOWN)
        .map(|import| import.name.as_str())
        .collect();
    text.push_str(&shown.join(", "));
    if imports.len() > SHOWN {
        text.push_str(&format!(" and {} more", imports.len() - SHOWN));
    }
    let mut remedies: Vec<&str> = imports.iter().map(|import| import.remedy).collect();
    remedies.sort_unstable();
    remedies.dedup();
    for remedy in remedies {
        text.push_str("; ");
        text.push_str(remedy);
    }
    text
}
