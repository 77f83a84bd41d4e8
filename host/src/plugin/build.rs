//! `podloom plugin build`: compiles a crate into a plugin, and puts it into a bundle.

mod unavailable;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, anyhow};
use podloom_mutators::{Inspection, MANIFEST, inspect};
use podloom_sbom::{encode, with_section};
use serde_json::Value;

use crate::bundle::{MAX_BYTES, gzip};
use crate::chain::{paths, size};
use crate::cli::BuildArguments;
use crate::error::CommandError;
use crate::explain::sheet;
use crate::output::{WARNING, paint, print_note};
use crate::{load, manifest, output};

/// The target that plugins are compiled for.
const TARGET: &str = "wasm32-unknown-unknown";

/// The bundle's directory in a crate that `podloom plugin new` created.
pub(super) const BUNDLE: &str = "bundle";

/// Twice the size of a plugin of some hundred lines. A larger one usually lacks a compiler setting.
const LARGE_BYTES: usize = 96 << 10;

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
    let (file, found) = build(directory, &bundle, OldSchema::Refuse)?;
    output::print(&describe(&file, &found))?;
    output::print_note(&advice(&bundle, &found));
    Ok(())
}

/// A path in the crate, without a leading "./".
pub(super) fn in_crate(directory: &Path, name: &str) -> PathBuf {
    directory.strip_prefix(".").unwrap_or(directory).join(name)
}

/// Builds the plugin, checks that its schema fits the type of its configuration, and puts it into the bundle. Returns its file there.
pub(super) fn build(
    directory: &Path,
    bundle: &Path,
    old: OldSchema,
) -> Result<(PathBuf, Inspection), CommandError> {
    check_crate(directory)?;
    ensure_target(directory)?;
    unavailable::warn(directory);
    if old == OldSchema::Write {
        // First, since the plugin has the schema in it.
        write_schema(directory)?;
    }
    let module = compile(directory)?;
    let module = with_crates(directory, module)?;
    let shipped = gzip(&module).context("could not compress the plugin")?;
    // Inspects the compressed file, so that one that is too large to load is an error now.
    let found = inspect(&load::engine()?, &shipped, None).map_err(|error| {
        CommandError::invalid(format!("{}: the built module {error}", directory.display()))
    })?;
    if found.description.config_schema.is_some() {
        check_schema(directory)?;
    }
    let name = file_name(&found);
    replace(bundle, &name, &shipped)?;
    Ok((bundle.join(name), found))
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
    let share = (found.shipped_bytes * 100).div_ceil(MAX_BYTES);
    let shipped = size(found.shipped_bytes);
    let rows = [
        ("file", file.display().to_string()),
        ("sha256", found.sha256.clone()),
        ("Wasm", size(found.wasm_bytes)),
        (
            "as shipped",
            format!("{shipped}, {share} % of what a ConfigMap holds"),
        ),
        ("contract", found.contract.clone()),
        ("imports", paths(&found.imports)),
    ];
    sheet(
        &format!("{} {}", about.name, about.version),
        &about.summary,
        &rows,
    )
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
            let (problem, head) = match listed {
                Some(_) => ("does not list", ""),
                None => (
                    "does not exist yet and must list",
                    "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n",
                ),
            };
            let plugin = &found.description.name;
            add(&format!(
                "{} {problem} {name}; add these lines (`podloom plugin inspect` shows what to allow):\n\
                 {head}- name: {plugin}\n  file: {name}\n  allow: [...]",
                manifest.display()
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
    let documents = manifest::read_values(&manifest.display().to_string());
    let documents = documents.unwrap_or_default();
    let plugins = documents
        .iter()
        .filter_map(|chain| chain.get("plugins")?.as_array());
    let files = plugins
        .flatten()
        .filter_map(|entry| entry.get("file")?.as_str());
    Some(files.map(str::to_owned).collect())
}

// Runs cargo.

/// These variables would replace the flags in .cargo/config.toml. One of those sets a small stack, which keeps calls fast.
const RUSTFLAGS: [&str; 2] = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"];

/// Checks that the directory contains a crate.
fn check_crate(directory: &Path) -> Result<(), CommandError> {
    let manifest = directory.join("Cargo.toml");
    if manifest.is_file() {
        return Ok(());
    }
    Err(CommandError::invalid(format!(
        "{}: no such file; name the directory of a plugin's crate, or create one with `podloom plugin new`",
        manifest.display()
    )))
}

/// Builds the crate in release mode, and returns the WebAssembly module.
fn compile(directory: &Path) -> Result<Vec<u8>, CommandError> {
    for name in RUSTFLAGS {
        if std::env::var_os(name).is_some_and(|flags| !flags.is_empty()) {
            print_note(&format!(
                "ignoring the environment variable {name}: set the flags of a plugin in its .cargo/config.toml\n"
            ));
        }
    }
    let arguments = ["build", "--release", "--lib", "--target", TARGET];
    let (output, messages) = cargo(directory, &arguments, &RUSTFLAGS)?;
    if !output.status.success() {
        return Err(CommandError::invalid(format!(
            "{}: cargo build failed ({}); see the messages above",
            directory.display(),
            output.status
        )));
    }
    let files = messages
        .iter()
        .filter_map(|message| message.get("filenames")?.as_array());
    let files = files.flatten().filter_map(Value::as_str).map(Path::new);
    let mut modules = files.filter(|file| file.extension().is_some_and(|it| it == "wasm"));
    let file = modules.next().ok_or_else(|| {
        CommandError::invalid(format!(
            "{}: cargo built no WebAssembly module; add these lines:\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]",
            directory.join("Cargo.toml").display()
        ))
    })?;
    Ok(fs::read(file).with_context(|| file.display().to_string())?)
}

/// Runs cargo without these variables. Returns its messages about the crate too: it prints diagnostics on standard error, and JSON about
/// the files that it built on standard output.
fn cargo(
    directory: &Path,
    arguments: &[&str],
    ignored: &[&str],
) -> anyhow::Result<(Output, Vec<Value>)> {
    let manifest = directory.join("Cargo.toml");
    let manifest = manifest
        .canonicalize()
        .with_context(|| manifest.display().to_string())?;
    let mut cargo = Command::new("cargo");
    cargo
        .args(arguments)
        .args([
            "--message-format",
            "json-render-diagnostics",
            "--manifest-path",
        ])
        .arg(&manifest)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    for name in ignored {
        cargo.env_remove(name);
    }
    let output = cargo
        .output()
        .context("could not start cargo; install Rust, see https://rustup.rs")?;
    let is_ours = |message: &Value| {
        let path = message.get("manifest_path").and_then(Value::as_str);
        path.is_some_and(|path| {
            Path::new(path)
                .canonicalize()
                .is_ok_and(|it| it == manifest)
        })
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let messages = messages.filter(is_ours).collect();
    Ok((output, messages))
}

// Finds out whether the file with the schema of a configuration is old, and rewrites it.
//
// The schema is made from the type of the configuration, which only the crate itself can do: the macro `mutator!` adds a test to
// it that compares the two. It is run here.

/// The test that `mutator!` adds.
const TEST: &str = "config_schema_is_fresh";
/// Tells that test what to do with an old file: `check` or `write`.
const MODE: &str = "PODLOOM_CONFIG_SCHEMA";

/// Refuses an old schema: the operator would check configurations against it.
fn check_schema(directory: &Path) -> Result<(), CommandError> {
    if old_schema(directory)?.is_none() {
        return Ok(());
    }
    let own = match directory.strip_prefix(".").unwrap_or(directory) {
        own if own.as_os_str().is_empty() => String::new(),
        own => format!(" {}", own.display()),
    };
    Err(CommandError::invalid(format!(
        "{}: the schema of the configuration is old: the type of the configuration has changed since the file was written; \
         write it with `podloom plugin test{own} --update`, which also rewrites the expected results of the cases, and commit it",
        directory.display()
    )))
}

/// Rewrites an old schema.
fn write_schema(directory: &Path) -> Result<(), CommandError> {
    let Some(tests) = old_schema(directory)? else {
        return Ok(());
    };
    if !run_test(directory, &tests, "write")? {
        return Err(CommandError::invalid(format!(
            "{}: could not write the schema of the configuration; `cargo test {TEST}` shows why",
            directory.display()
        )));
    }
    print_note("the schema of the configuration was old and has been rewritten; commit it\n");
    Ok(())
}

/// The program of the test, if the schema is old.
fn old_schema(directory: &Path) -> Result<Option<PathBuf>, CommandError> {
    Ok(match native_tests(directory)? {
        Some(tests) if !run_test(directory, &tests, "check")? => Some(tests),
        _ => None,
    })
}

/// Compiles the crate's native unit tests, and returns the program that runs them; none, with a note, if they do not compile: that must
/// not keep an author from building.
fn native_tests(directory: &Path) -> Result<Option<PathBuf>, CommandError> {
    let (output, messages) = cargo(directory, &["test", "--no-run", "--lib"], &[])?;
    let mut programs = messages
        .iter()
        .filter_map(|it| it.get("executable")?.as_str());
    let program = programs.next().map(PathBuf::from);
    let tests = program.filter(|_| output.status.success());
    if tests.is_none() {
        print_note(&format!(
            "{} the native tests do not compile, so it was not checked whether the schema of the configuration is old\n",
            paint(WARNING, "warning:")
        ));
    }
    Ok(tests)
}

/// Runs the test; a crate without one passes.
fn run_test(directory: &Path, tests: &Path, mode: &str) -> anyhow::Result<bool> {
    let output = Command::new(tests)
        .arg(TEST)
        .env(MODE, mode)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .with_context(|| tests.display().to_string())?;
    Ok(output.status.success())
}

// Installs Rust's WebAssembly target if it is missing.

/// Installs the target if it is missing. It runs in the crate's directory, which may select a toolchain of its own.
fn ensure_target(directory: &Path) -> anyhow::Result<()> {
    if is_installed(directory)? {
        return Ok(());
    }
    print_note(&format!("installing Rust's target {TARGET} with rustup\n"));
    let added = Command::new("rustup")
        .args(["target", "add", TARGET])
        .current_dir(directory)
        .stdin(Stdio::null())
        .status();
    if added.is_ok_and(|status| status.success()) && is_installed(directory)? {
        return Ok(());
    }
    Err(anyhow!(
        "Rust's target {TARGET} is missing, and `rustup target add {TARGET}` did not install it: \
         install Rust with rustup (https://rustup.rs), or install your system's package for the target"
    ))
}

fn is_installed(directory: &Path) -> anyhow::Result<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("could not start rustc; install Rust, see https://rustup.rs")?;
    let libraries = String::from_utf8_lossy(&output.stdout);
    Ok(output.status.success() && Path::new(libraries.trim()).is_dir())
}
