//! The names a plugin imports and exports, read before anything of it is encoded or compiled.

use wasmparser::{Encoding, Parser, Payload};

use super::{ComponentError, ForeignImport, Form};
use crate::contract::{self, PACKAGE};
use crate::text::one_line;

const PLUGIN: &str = "plugin";
const PREPARATION: &str = "preparation";
/// The section in which a toolchain describes a core module's world to the component encoder.
pub(super) const METADATA: &str = "component-type";
/// In core modules that use the standard names of the component model's 32-bit build target.
const STANDARD_PREFIX: &str = "cm32p2|";
const NAMES: usize = 1000;

/// What a plugin's names say.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) form: Form,
    /// The version of the exported interface.
    pub(super) contract: String,
    /// The exported interface, as a component names it.
    pub(super) plugin: String,
    /// As it would be named, the interface that not every plugin exports.
    pub(super) preparation: String,
    /// What it imports; interfaces, each once.
    pub(super) imports: Vec<String>,
}

/// Everything at the top level of a file.
#[derive(Default)]
struct TopLevelNames {
    component: bool,
    metadata: bool,
    imports: Vec<String>,
    exports: Vec<String>,
}

/// Reads the names and judges them: imports of the contract alone, the plugin interface exported, a version that is served.
pub(super) fn read(wasm: &[u8]) -> Result<Names, ComponentError> {
    let found = find(wasm)?;
    // The version comes first: a plugin of another generation may well import what this one does not know.
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
        imports: found.imports,
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
            // What nested modules and components import is linked inside the component.
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
    reason = "the signature that map_err wants"
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

/// A name of the contract in an export list may be an interface's, so lists stay short whatever the file holds.
fn add(names: &mut Vec<String>, name: &str) {
    if names.len() < NAMES && !names.iter().any(|known| known == name) {
        names.push(one_line(name, 200));
    }
}

fn remedy(import: &str) -> &'static str {
    if import.starts_with("wasi") {
        "plugins have no files, clock, randomness or environment: build for wasm32-unknown-unknown, without crates that need them"
    } else if import.starts_with("__wbindgen") || import == "wbg" {
        "this comes from wasm-bindgen, which needs JavaScript: turn off the features `js` or `wasmbind` of the crate that brings it"
    } else if import == "env" {
        "a symbol was left for someone else to define: link the library that has it, and let the plugin have its own memory"
    } else if import.starts_with("[export]") {
        "the contract's plugin interface defines no resources: export it as the contract has it"
    } else {
        "plugins may import podloom:mutator alone"
    }
}
