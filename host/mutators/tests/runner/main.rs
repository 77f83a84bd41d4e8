//! The mutators through their public face: hostile plugins, chains, bundles. Needs no Wasm target.

mod broken;
mod chains;
mod files;
mod guests;
mod hostile;
mod logs;
mod namespaces;
mod prepared;
mod reload;
mod support;
mod volume;
mod warnings;
mod wasi;
