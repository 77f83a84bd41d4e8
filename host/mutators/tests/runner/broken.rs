//! Bundles that must not serve.

use crate::reload::{bundle, labelling, manifest};
use crate::support::plugin;
use crate::volume::Files;

/// What is changed in a good bundle.
pub(crate) enum Change {
    /// Files that are not there.
    Gone(&'static [&'static str]),
    /// What the manifest says of the plugin besides its name and file.
    Entry(&'static str),
    /// The whole list of plugins.
    List(&'static str),
    /// The plugin is this fixture.
    Plugin(&'static str),
    /// The plugin is this fixture, and the manifest says this of it.
    Both(&'static str, &'static str),
    /// The plugin's file holds this.
    Bytes(&'static [u8]),
    /// The plugin's file ends in the middle.
    Half,
}

impl Change {
    /// The bundle with this change.
    pub(crate) fn made(&self) -> Files {
        let mut files = bundle("two");
        let mut put = |name: &str, content| files.insert(name.to_owned(), content);
        let entry =
            |more: &str| manifest(&format!("[{{ name: label, file: label.wasm, {more} }}]"));
        match *self {
            Self::Gone(names) => names.iter().for_each(|&name| {
                files.remove(name);
            }),
            Self::Entry(more) => drop(put("chain.yaml", entry(more))),
            Self::List(plugins) => drop(put("chain.yaml", manifest(plugins))),
            Self::Plugin(fixture) => drop(put("label.wasm", plugin(fixture))),
            Self::Both(fixture, more) => {
                put("label.wasm", plugin(fixture));
                put("chain.yaml", entry(more));
            }
            Self::Bytes(bytes) => drop(put("label.wasm", bytes.to_owned())),
            Self::Half => {
                let mut bytes = labelling("two");
                bytes.truncate(bytes.len() / 2);
                put("label.wasm", bytes);
            }
        }
        files
    }
}

const PIN: &str = "sha256: 0000000000000000000000000000000000000000000000000000000000000000";

/// Each way in which a bundle can be wrong: the change, the kind of the error, and words of it.
pub(crate) const BROKEN: [(Change, &str, &str); 17] = [
    (
        Change::Gone(&["chain.yaml", "label.wasm"]),
        "invalid_bundle",
        "holds no chain.yaml",
    ),
    (
        Change::Gone(&["chain.yaml"]),
        "invalid_bundle",
        "holds no chain.yaml",
    ),
    (
        Change::Gone(&["label.wasm"]),
        "invalid_bundle",
        "names the file label.wasm",
    ),
    (Change::List("[{"), "invalid_bundle", "chain.yaml:"),
    (Change::Entry("alow: []"), "invalid_bundle", "alow"),
    (Change::Entry(PIN), "invalid_plugin", "pins"),
    (Change::Half, "invalid_plugin", "plugin label (label.wasm)"),
    (
        Change::Bytes(b"#!/bin/sh"),
        "invalid_plugin",
        "plugin label (label.wasm)",
    ),
    (Change::Plugin("imports-wasi"), "invalid_plugin", "wasi"),
    (Change::Plugin("version-0.2"), "invalid_plugin", "0.2"),
    (Change::Plugin("needy"), "invalid_plugin", "needs to write"),
    (
        Change::Both("configured", "config: { size: 0 }"),
        "invalid_plugin",
        "size",
    ),
    (
        Change::Plugin("endless-describe"),
        "invalid_plugin",
        "could not describe itself",
    ),
    (Change::Plugin("trap"), "unproven", "fails"),
    (Change::Plugin("endless-loop"), "unproven", "fails"),
    (
        Change::Both("adds-up", "allow: ['/spec/containers/*']"),
        "unproven",
        "is not idempotent",
    ),
    (Change::Entry("allow: []"), "unproven", "fails"),
];
