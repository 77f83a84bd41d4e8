//! A plugin that does nothing: what is left is the sandbox.

use tempfile::TempDir;
use wit_component::StringEncoding;
use wit_parser::Resolve;

use crate::bundle;

/// Makes a bundle of the plugin alone.
pub(crate) fn bundle() -> TempDir {
    let mut module = wat::parse_str(include_str!("bare.wat")).expect("the fixture is WAT");
    let mut contract = Resolve::default();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/0.1");
    let (package, _) = contract.push_path(path).expect("the contract is WIT");
    let world = contract
        .select_world(&[package], Some("mutator"))
        .expect("the contract has the world");
    wit_component::embed_component_metadata(&mut module, &contract, world, StringEncoding::UTF8)
        .expect("the fixture takes the contract's metadata");
    bundle::of("bare", &module)
}
