//! Reads the names that a plugin imports and exports, before it is encoded or compiled.

use wasmparser::{Encoding, Parser, Payload};

use super::{ComponentError, ForeignImport, Form};
use crate::contract::{self, PACKAGE};
use crate::limits::PluginSize;
use crate::text::one_line;

const PLUGIN: &str = "plugin";
const PREPARATION: &str = "preparation";
/// The custom section that describes a core module's world to the component encoder.
pub(super) const METADATA: &str = "component-type";
/// Prefix in core modules that use the standard names of the Component Model's 32-bit build target.
const STANDARD_PREFIX: &str = "cm32p2|";
const NAMES: usize = 1000;
/// Prefix of the interfaces to an operating system.
const WASI: &str = "wasi:";

/// What the names of a plugin's imports and exports show.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) form: Form,
    /// The version of the contract in the name of the exported interface.
    pub(super) contract: String,
    /// The name of the exported interface.
    pub(super) plugin: String,
    /// The name of the optional interface, whether or not it is exported.
    pub(super) preparation: String,
    /// The imported interfaces, each once.
    pub(super) imports: Vec<String>,
    /// The exported interfaces of the contract, each once.
    pub(super) exports: Vec<String>,
    /// Whether some of these are of WASI.
    pub(super) uses_wasi: bool,
}

/// The names at the top level of a file.
#[derive(Default)]
struct TopLevelNames {
    component: bool,
    metadata: bool,
    imports: Vec<String>,
    exports: Vec<String>,
}

/// Reads the names and checks them: only imports of the contract, the exported plugin interface, a supported version.
///
/// The interpreter in a large plugin may import WASI, whether or not it needs that. What it calls of it traps.
pub(super) fn read(wasm: &[u8], size: PluginSize) -> Result<Names, ComponentError> {
    let found = find(wasm)?;
    // The version is checked first, since a plugin for another version may import what this one lacks.
    let of_contract = || {
        found
            .exports
            .iter()
            .chain(&found.imports)
            .filter_map(|name| contract::interface(name))
    };
    if let Some((_, version)) = of_contract().find(|(_, version)| !contract::is_served(version)) {
        return Err(ComponentError::Version {
            found: version.to_owned(),
        });
    }
    let foreign: Vec<ForeignImport> = found
        .imports
        .iter()
        .filter(|name| contract::interface(name).is_none())
        .filter(|name| !(size == PluginSize::Large && found.component && name.starts_with(WASI)))
        .map(|name| ForeignImport {
            name: name.clone(),
            remedy: remedy(name),
        })
        .collect();
    if !foreign.is_empty() {
        return Err(ComponentError::ForeignImports(foreign));
    }
    let plugin = found
        .exports
        .iter()
        .find_map(|name| contract::interface(name).filter(|(interface, _)| *interface == PLUGIN));
    let Some((_, version)) = plugin else {
        return Err(ComponentError::NoPlugin);
    };
    if !found.component && !found.metadata {
        return Err(ComponentError::NoMetadata);
    }
    Ok(Names {
        form: if found.component {
            Form::Component
        } else {
            Form::CoreModule
        },
        contract: version.to_owned(),
        plugin: format!("{PACKAGE}/{PLUGIN}@{version}"),
        preparation: format!("{PACKAGE}/{PREPARATION}@{version}"),
        uses_wasi: found.imports.iter().any(|name| name.starts_with(WASI)),
        imports: found.imports,
        exports: found.exports,
    })
}

fn find(wasm: &[u8]) -> Result<TopLevelNames, ComponentError> {
    let mut found = TopLevelNames::default();
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.map_err(damaged)? {
            Payload::Version { encoding, .. } if depth == 0 => {
                found.component = encoding == Encoding::Component
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                depth += 1;
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            // Imports of nested modules and components are linked inside the component.
            _ if depth > 0 => {}
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    found.import(import.map_err(damaged)?.module);
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    found.import(import.map_err(damaged)?.name.name);
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    found.export(export.map_err(damaged)?.name);
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    found.export(export.map_err(damaged)?.name.name);
                }
            }
            Payload::CustomSection(section) if section.name().starts_with(METADATA) => {
                found.metadata = true
            }
            _ => {}
        }
    }
    Ok(found)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that map_err needs"
)]
pub(super) fn damaged(error: wasmparser::BinaryReaderError) -> ComponentError {
    ComponentError::Parse(one_line(&error.to_string(), 200))
}

impl TopLevelNames {
    fn import(&mut self, name: &str) {
        add(
            &mut self.imports,
            name.strip_prefix(STANDARD_PREFIX).unwrap_or(name),
        );
    }

    /// Core modules export `interface@version#function`, or with standard names `interface@version|function`.
    fn export(&mut self, name: &str) {
        let name = name.strip_prefix(STANDARD_PREFIX).unwrap_or(name);
        let interface = name.split(['#', '|']).next().unwrap_or(name);
        if interface.starts_with(PACKAGE) {
            add(&mut self.exports, interface);
        }
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
