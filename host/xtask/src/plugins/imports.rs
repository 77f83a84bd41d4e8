//! Checks what a plugin imports from its host.

use anyhow::{Context, Result, bail};
use wasmparser::{Parser, Payload};

/// The contract; a chain that imports anything else does not load.
const CONTRACT: &str = "podloom:mutator/";

/// Fails on imports that the host does not serve, and names them.
pub(super) fn check(plugin: &str, module: &[u8]) -> Result<()> {
    let mut foreign = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        let Payload::ImportSection(imports) =
            payload.with_context(|| format!("{plugin} is not Wasm"))?
        else {
            continue;
        };
        for import in imports.into_imports() {
            let import = import?;
            // Resources of the contract come with a prefix: `[export]podloom:mutator/plugin@0.1.0`.
            let module = import.module.trim_start_matches("[export]");
            if !module.starts_with(CONTRACT) {
                foreign.push(format!("{}.{}", import.module, import.name));
            }
        }
    }
    if foreign.is_empty() {
        return Ok(());
    }
    bail!(
        "{plugin} imports functions that the host does not serve: {}; one of its dependencies needs an operating system (clock, files, randomness)",
        foreign.join(", ")
    )
}
