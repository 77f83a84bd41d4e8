//! From Wasm to a component that is compiled, linked and ready to be instantiated.
//!
//! Nothing of a file runs here, and precompiled code has no way in: [`wasmtime::component::Component::new`] on Wasm bytes is
//! the only entrance.

mod names;

use std::time::{Duration, Instant};

use wasmtime::component::{Component, ComponentExportIndex, InstancePre};
use wit_component::ComponentEncoder;

use self::names::Names;
use crate::engine::Engine;
use crate::sandbox::Guest;
use crate::text::one_line;

/// The contract versions that this host serves, for people.
pub const SERVED: &str = "0.1";
const SERVED_MAJOR_MINOR: (u64, u64) = (0, 1);

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
    /// Imports that are not of the contract.
    #[error("{}", foreign(.0))]
    ForeignImports(Vec<ForeignImport>),
    /// Well-formed, but not of our world.
    #[error(
        "exports no {}/plugin: it was not built with podloom-plugin-sdk, or its mutator! macro is missing",
        names::PACKAGE
    )]
    NoPlugin,
    /// Built for another generation of the contract.
    #[error(
        "is built for version {found} of the contract {}, and this host serves {SERVED}",
        names::PACKAGE
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
    pub(crate) instance: InstancePre<Guest>,
    pub(crate) exports: Exports,
}

/// Where in the component the functions of the contract are, so that calls look up no names.
pub(crate) struct Exports {
    pub(crate) describe: ComponentExportIndex,
    pub(crate) validate_config: ComponentExportIndex,
    pub(crate) mutate: ComponentExportIndex,
}

/// Checks names and version, then encodes, compiles and links.
pub(crate) fn compile(engine: &Engine, wasm: &[u8]) -> Result<Compiled, ComponentError> {
    let started = Instant::now();
    let panicked =
        |error: crate::engine::CompileThreadError| ComponentError::Compile(error.to_string());
    let (names, component) = engine
        .compile(|| encode_and_compile(engine, wasm))
        .map_err(panicked)??;
    let instance = engine
        .linker
        .instantiate_pre(&component)
        .map_err(|error| ComponentError::Link(show(&error)))?;
    let exports = exports(&component, &names.plugin)?;
    Ok(Compiled {
        form: names.form,
        contract: names.contract,
        imports: names.imports,
        wasm_bytes: wasm.len(),
        compile_time: started.elapsed(),
        instance,
        exports,
    })
}

fn encode_and_compile(engine: &Engine, wasm: &[u8]) -> Result<(Names, Component), ComponentError> {
    let names = names::read(wasm)?;
    let component = match names.form {
        Form::Component => Component::new(&engine.wasm, wasm),
        Form::CoreModule => Component::new(&engine.wasm, encode(wasm)?),
    };
    Ok((
        names,
        component.map_err(|error| ComponentError::Compile(show(&error)))?,
    ))
}

fn encode(module: &[u8]) -> Result<Vec<u8>, ComponentError> {
    ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(ComponentEncoder::encode)
        .map_err(|error| ComponentError::Encode(one_line(&format!("{error:#}"), 500)))
}

fn exports(component: &Component, plugin: &str) -> Result<Exports, ComponentError> {
    let interface = component
        .get_export_index(None, plugin)
        .ok_or(ComponentError::NoPlugin)?;
    let function = |name: &str| {
        component
            .get_export_index(Some(&interface), name)
            .ok_or_else(|| {
                ComponentError::Link(format!("it exports no function {name} in {plugin}"))
            })
    };
    Ok(Exports {
        describe: function("describe")?,
        validate_config: function("validate-config")?,
        mutate: function("mutate")?,
    })
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
