//! `podloom plugin build`: compiles a crate into a plugin, and puts it into a bundle.

mod cargo;
mod schema;
mod target;
mod unavailable;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use podloom_mutators::{Inspection, MANIFEST, inspect};
use podloom_sbom::{encode, with_section};
use serde_json::Value;

use crate::bundle::{MAX_BYTES, gzip};
use crate::chain::{paths, size};
use crate::cli::BuildArguments;
use crate::error::CommandError;
use crate::manifest::{self, Depth};
use crate::output::{QUIET, TITLE, WARNING, paint};
use crate::{load, output};

/// The target that plugins are compiled for.
const TARGET: &str = "wasm32-unknown-unknown";

/// The bundle's directory in a crate that `podloom plugin new` created.
pub(super) const BUNDLE: &str = "bundle";

/// Twice the size of a plugin of some hundred lines. A larger one usually lacks a compiler setting.
const LARGE_BYTES: usize = 96 << 10;

/// A plugin that was built and put into a bundle.
pub(super) struct Built {
    /// Its file in the bundle.
    pub(super) file: PathBuf,
    pub(super) found: Inspection,
}

/// What happens to a file with an old schema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OldSchema {
    /// It is an error.
    Refuse,
    /// It is rewritten.
    Write,
}

/// Builds the plugin and puts it into its bundle.
pub(crate) fn run(arguments: &BuildArguments) -> Result<(), CommandError> {
    let directory = &arguments.directory;
    let bundle = arguments
        .output
        .clone()
        .unwrap_or_else(|| in_crate(directory, BUNDLE));
    let Built { file, found } = build(directory, &bundle, OldSchema::Refuse)?;
    output::print(&describe(&file, &found))?;
    output::print_note(&advice(&bundle, &found));
    Ok(())
}

/// A path in the crate, without a leading "./".
pub(super) fn in_crate(directory: &Path, name: &str) -> PathBuf {
    directory.strip_prefix(".").unwrap_or(directory).join(name)
}

/// Builds the plugin, checks that its schema fits the type of its configuration, and puts it into the bundle.
pub(super) fn build(
    directory: &Path,
    bundle: &Path,
    old: OldSchema,
) -> Result<Built, CommandError> {
    cargo::check(directory)?;
    target::ensure(directory)?;
    unavailable::warn(directory);
    if old == OldSchema::Write {
        // First, since the plugin has the schema in it.
        schema::write(directory)?;
    }
    let module = cargo::build(directory)?;
    let module = with_crates(directory, module)?;
    let shipped = gzip(&module).context("could not compress the plugin")?;
    // Inspects the compressed file, so that one that is too large to load is an error now.
    let found = inspect(&load::engine()?, &shipped, None).map_err(|error| {
        CommandError::invalid(format!("{}: the built module {error}", directory.display()))
    })?;
    if found.description.config_schema.is_some() {
        schema::check(directory)?;
    }
    let name = file_name(&found);
    replace(bundle, &name, &shipped)?;
    Ok(Built {
        file: bundle.join(name),
        found,
    })
}

/// Adds the list of the plugin's crates. Without it the plugin works as well.
fn with_crates(directory: &Path, module: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    match podloom_sbom::collect(directory, None, TARGET) {
        Ok(crates) => Ok(with_section(module, &encode(&crates)?)),
        Err(error) => {
            let error = anyhow::Error::from(error);
            output::print_note(&format!(
                "{} the plugin does not list its crates, so podloom sbom cannot: {error:#}\n",
                paint(WARNING, "note:")
            ));
            Ok(module)
        }
    }
}

fn file_name(found: &Inspection) -> String {
    format!("{}.wasm.gz", found.description.name)
}

/// Replaces the file in one step: a reader of the bundle sees the old file or the new one, never a part.
fn replace(bundle: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let target = bundle.join(name);
    let next = bundle.join(format!(".{name}.next"));
    fs::create_dir_all(bundle).with_context(|| bundle.display().to_string())?;
    fs::write(&next, bytes).with_context(|| next.display().to_string())?;
    fs::rename(&next, &target).with_context(|| target.display().to_string())
}

fn describe(file: &Path, found: &Inspection) -> String {
    let about = &found.description;
    let title = format!("{} {}", about.name, about.version);
    let mut text = format!(
        "{}  {}\n",
        paint(TITLE, &title),
        paint(QUIET, &about.summary)
    );
    let mut row = |name: &str, value: &str| {
        let _infallible = writeln!(text, "   {name:<14} {value}");
    };
    let share = (found.shipped_bytes * 100).div_ceil(MAX_BYTES);
    row("file", &file.display().to_string());
    row("sha256", &found.sha256);
    row("Wasm", &size(found.wasm_bytes));
    row(
        "as shipped",
        &format!(
            "{}, {share} % of what a ConfigMap holds",
            size(found.shipped_bytes)
        ),
    );
    row("contract", &found.contract);
    row("imports", &paths(&found.imports));
    text
}

/// Notes on what the author should still do.
pub(super) fn advice(bundle: &Path, found: &Inspection) -> String {
    let name = file_name(found);
    let mut advice = String::new();
    let mut add = |words: &str| {
        let _infallible = writeln!(advice, "{} {words}", paint(WARNING, "note:"));
    };
    if found.shipped_bytes > MAX_BYTES {
        add(
            "the plugin is too large for a ConfigMap; mount it from an image volume or a PersistentVolumeClaim",
        );
    }
    if found.shipped_bytes > LARGE_BYTES {
        add(
            "the plugin is large. Check that Cargo.toml has under [profile.release]: opt-level = 2, lto = true, \
             codegen-units = 1, panic = \"abort\", strip = true; and avoid #[serde(flatten)], untagged enums, floats and \
             Debug output, which add much code",
        );
    }
    let manifest = bundle.join(MANIFEST);
    match listed(&manifest) {
        Some(files) if files.contains(&name) => {}
        listed => {
            let problem = if listed.is_some() {
                "does not list"
            } else {
                "does not exist yet and must list"
            };
            let plugin = &found.description.name;
            add(&format!(
                "{} {problem} {name}; add these lines (`podloom plugin inspect` shows what to allow):\n\
                 {}- name: {plugin}\n  file: {name}\n  allow: [...]",
                manifest.display(),
                if listed.is_some() {
                    ""
                } else {
                    "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n"
                },
            ));
        }
    }
    advice
}

/// The plugin files that a manifest lists; none if there is no manifest. Errors in it are left to `podloom chain check`.
fn listed(manifest: &Path) -> Option<Vec<String>> {
    if !manifest.is_file() {
        return None;
    }
    let documents = manifest::read_values(&manifest.display().to_string(), Depth::Flat);
    let files = documents.unwrap_or_default().into_iter().flat_map(|chain| {
        let plugins = chain.get("plugins").and_then(Value::as_array);
        let files = plugins
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.get("file"));
        files
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    Some(files.collect())
}
