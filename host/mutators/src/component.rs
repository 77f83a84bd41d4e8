//! From Wasm to a component that is compiled, linked and ready to be instantiated.
//!
//! Nothing of a file runs here, and precompiled code has no way in: [`wasmtime::component::Component::new`] and
//! [`wasmtime::Module::new`] on Wasm bytes are the only entrances.
//! A core module is always made a component, which is then validated: that is what tells whether it does what its metadata says.
//! It is compiled and called as the module that it is wherever that comes to the same, for that is much cheaper.

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
use crate::sandbox::{Component, LinkError, LinkedCode, Module};
use crate::text::one_line;
use crate::until::Until;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A core module, of which the host makes a component.
    CoreModule,
    /// A finished component.
    Component,
}

/// Why Wasm is not a plugin that this host can run. Each reads as the rest of a sentence that begins with the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComponentError {
    /// Not readable as Wasm to its end.
    #[error("is damaged or uses a feature of WebAssembly that this host does not know: {0}")]
    Parse(String),
    /// Components within components, as no toolchain makes them.
    #[error("nests components too deeply")]
    Nested,
    /// Components that call each other, between which the compiler would make code of its own.
    #[error(
        "is composed of several components, and this host takes a single one: link their code into one core module, and make the plugin of that"
    )]
    Adapter,
    /// Imports that are not of the contract.
    #[error("{}", foreign(.0))]
    ForeignImports(Vec<ForeignImport>),
    /// Well-formed, but not of our world.
    #[error(
        "exports no {PACKAGE}/plugin: it was not built with podloom-plugin-sdk, or its mutator! macro is missing"
    )]
    NoPlugin,
    /// Built for another generation of the contract.
    #[error(
        "is built for version {found} of the contract {PACKAGE}, and this host serves {SERVED}"
    )]
    Version {
        /// What the plugin's names say.
        found: String,
    },
    /// A core module without the description of its world.
    #[error(
        "is a core module without component metadata: keep the custom sections named component-type when stripping it"
    )]
    NoMetadata,
    /// A core module that does not do what its metadata says.
    #[error("cannot be made a component: {0}")]
    Encode(String),
    /// More of something than any honest plugin has, which would keep the compiler busy for minutes.
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
    /// The time for building its chain was over before it was compiled.
    #[error("was not compiled in time: building the chain takes too long")]
    NoTimeLeft,
    /// The compiler refused it.
    #[error("does not compile: {0}")]
    Compile(String),
    /// Its imports or exports are not those of the contract.
    #[error("does not fit the contract: {0}")]
    Link(String),
}

/// An import that no host function stands behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignImport {
    /// The name in the plugin.
    pub name: String,
    /// What its author can do about it.
    pub remedy: &'static str,
}

/// A plugin's code, ready to be instantiated for a call.
pub(crate) struct Compiled {
    pub(crate) form: Form,
    /// The version of the contract it was built for.
    pub(crate) contract: String,
    pub(crate) imports: Vec<String>,
    pub(crate) wasm_bytes: usize,
    pub(crate) compile_time: Duration,
    pub(crate) code: LinkedCode,
}

/// Looks at what a file would cost the compiler, checks names and version, then encodes, compiles and links.
pub(crate) fn compile(
    engine: &Arc<Engine>,
    wasm: Vec<u8>,
    until: Until,
) -> Result<Compiled, ComponentError> {
    let started = Instant::now();
    let wasm_bytes = wasm.len();
    let look = move || {
        bounds::check(&wasm)?;
        Ok::<_, ComponentError>((names::read(&wasm)?, wasm))
    };
    let compile = |engine: &Engine, (names, wasm): (Names, Vec<u8>)| {
        let code = encode_and_compile(engine, &wasm, &names)?;
        Ok((names, code))
    };
    let compiled = engine.compile(look, compile, until);
    let (names, code) = compiled.map_err(|error| match error {
        CompileThreadError::TooLong => ComponentError::NoTimeLeft,
        error => ComponentError::Compile(error.to_string()),
    })??;
    Ok(Compiled {
        form: names.form,
        contract: names.contract,
        imports: names.imports,
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
    match Component::link(&component, &names.plugin) {
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

/// Whether the component that was made of a module passes strings as UTF-8 in the module's memory, and nothing else is special
/// about its functions.
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
    let mut text = String::from("imports what no plugin is given: ");
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
