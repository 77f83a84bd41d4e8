//! `cargo xtask plugins`: builds the standard plugins into a bundle that a chain loads, and each example of the SDK into one of
//! its own.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, TargetKind};
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};
use wasmparser::{Parser, Payload};

use crate::run;

/// The target that plugins are compiled for.
const TARGET: &str = "wasm32-unknown-unknown";

/// The contract; a chain that imports anything else does not load.
const CONTRACT: &str = "podloom:mutator/";

/// The largest plugin as shipped, in bytes, so that twelve fit one ConfigMap.
pub(crate) const MAX_BYTES: u32 = 81_920;

/// The same for a plugin with an interpreter, so that it fits one ConfigMap with the others.
const MAX_BYTES_OF_SCRIPT: u32 = 393_216;

/// Where the standard plugins are, each in a directory of its own.
const STANDARD: &str = "plugins";

/// The chain that they make.
const CHAIN: &str = "plugins/chain.yaml";

/// Where the examples of the SDK are.
const EXAMPLES: &str = "plugin-sdk/examples";

/// A plugin that was built.
struct Built {
    name: String,
    raw: usize,
    shipped: Vec<u8>,
}

impl Built {
    fn file(&self) -> String {
        format!("{}.wasm.gz", self.name)
    }

    fn max_bytes(&self) -> usize {
        let most = match self.name.as_str() {
            "script" => MAX_BYTES_OF_SCRIPT,
            _ => MAX_BYTES,
        };
        most as usize
    }
}

/// Builds, checks and packs all plugins; returns the directory of the bundle.
///
/// Fails if a plugin exceeds the limit, but leaves the bundle.
pub(crate) fn run() -> Result<PathBuf> {
    let (bundle, built) = bundle()?;
    let heavy: Vec<&str> = built
        .iter()
        .filter(|plugin| plugin.shipped.len() > plugin.max_bytes())
        .map(|plugin| plugin.name.as_str())
        .collect();
    if !heavy.is_empty() {
        bail!(
            "these plugins are larger than their limit: {}",
            heavy.join(", ")
        );
    }
    Ok(bundle)
}

/// The same without the limit: measurements show how large plugins are.
pub(crate) fn run_unlimited() -> Result<PathBuf> {
    bundle().map(|(bundle, _)| bundle)
}

fn bundle() -> Result<(PathBuf, Vec<Built>)> {
    let built = make(STANDARD)?;
    let bundle = run::target("plugins")?;
    write(&bundle, &built, &run::root().join(CHAIN))?;
    remove_others(&bundle, &built)?;
    print_sizes(&bundle, &built);
    Ok((bundle, built))
}

/// Builds the examples of the SDK, each as a bundle in target/plugin-examples, with the chain that lies beside its code.
///
/// Returns that directory.
pub(crate) fn examples() -> Result<PathBuf> {
    let built = make(EXAMPLES)?;
    let bundles = run::target("plugin-examples")?;
    for plugin in built {
        let bundle = bundles.join(&plugin.name);
        let manifest = Path::new(EXAMPLES)
            .join(&plugin.name)
            .join("bundle/chain.yaml");
        let built = [plugin];
        write(&bundle, &built, &run::root().join(manifest))?;
        remove_others(&bundle, &built)?;
        print_sizes(&bundle, &built);
    }
    Ok(bundles)
}

/// Compiles, checks and packs all plugins of one directory.
fn make(home: &str) -> Result<Vec<Built>> {
    ensure_target()?;
    let workspace = run::workspace()?;
    let plugins = find(&workspace, home)?;
    run::step(
        home,
        "compiling to WebAssembly and packing; the first time takes about a minute",
        || {
            build(&plugins)?;
            let target = workspace.target_directory.as_std_path();
            let packed = plugins.iter().map(|plugin| pack(plugin, target));
            packed.collect::<Result<Vec<_>>>()
        },
    )
}

/// A plugin's package and the file that cargo builds from it.
struct Plugin {
    /// Its directory.
    name: String,
    package: String,
    library: String,
}

/// Every package in a directory of `home` that makes a dynamic library is a plugin.
fn find(workspace: &Metadata, home: &str) -> Result<Vec<Plugin>> {
    let home = workspace.workspace_root.join(home);
    let mut plugins = Vec::new();
    for package in workspace.workspace_packages() {
        let Some(directory) = package
            .manifest_path
            .parent()
            .filter(|directory| directory.parent() == Some(&home))
        else {
            continue;
        };
        let library = package
            .targets
            .iter()
            .find(|target| target.kind.contains(&TargetKind::CDyLib))
            .with_context(|| format!("{directory} is no plugin, since it builds no cdylib: add crate-type = [\"cdylib\", \"rlib\"] to its [lib]"))?;
        plugins.push(Plugin {
            name: directory.file_name().unwrap_or_default().to_owned(),
            package: package.name.to_string(),
            library: library.name.replace('-', "_"),
        });
    }
    if plugins.is_empty() {
        bail!("no plugins in {home}");
    }
    plugins.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(plugins)
}

fn build(plugins: &[Plugin]) -> Result<()> {
    run::succeed(&mut for_target("build", &["--profile", "plugin"], plugins))
}

/// Lints the code that exists only in Wasm: the lints of the workspace see plugins as compiled for their native tests.
pub(crate) fn lint() -> Result<()> {
    ensure_target()?;
    let workspace = run::workspace()?;
    let mut plugins = find(&workspace, STANDARD)?;
    plugins.extend(find(&workspace, EXAMPLES)?);
    // In the profile of the plugins, since its procedural macros are compiled for them anyway.
    let sdk = ["--profile", "plugin", "--package", "podloom-plugin-sdk"];
    run::succeed(for_target("clippy", &sdk, &plugins).args(["--", "-D", "warnings"]))
}

fn for_target(command: &str, arguments: &[&str], plugins: &[Plugin]) -> Command {
    let mut cargo = run::cargo([command, "--quiet", "--target", TARGET, "--lib"]);
    cargo.args(arguments);
    for plugin in plugins {
        cargo.args(["--package", &plugin.package]);
    }
    // These would replace the flags in .cargo/config.toml, and with them the small stack that makes calls quick. Incremental
    // builds make plugins 2 % larger.
    // Rhai's hash table would have other seeds in each build, and the plugin another digest.
    cargo
        .env("CONST_RANDOM_SEED", "podloom")
        .env("CARGO_INCREMENTAL", "0")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo
}

fn pack(plugin: &Plugin, target: &Path) -> Result<Built> {
    let path = target
        .join(TARGET)
        .join("plugin")
        .join(format!("{}.wasm", plugin.library));
    let module = fs::read(&path).with_context(|| path.display().to_string())?;
    check_imports(&plugin.name, &module)?;
    let crates = podloom_sbom::collect(run::root(), Some(&plugin.package), TARGET)?;
    let module = podloom_sbom::with_section(module, &podloom_sbom::encode(&crates)?);
    Ok(Built {
        name: plugin.name.clone(),
        raw: module.len(),
        shipped: compressed(&module, &path.with_extension("wasm.gz"))?,
    })
}

/// Compresses a module. That takes seconds, so the result is kept in a file, and taken from there if it holds this module.
fn compressed(module: &[u8], kept: &Path) -> Result<Vec<u8>> {
    if let Ok(shipped) = fs::read(kept) {
        let mut unpacked = Vec::new();
        let read = GzDecoder::new(&*shipped).read_to_end(&mut unpacked);
        if read.is_ok() && unpacked == module {
            return Ok(shipped);
        }
    }
    // The file holds neither name nor time, so the same module gives the same bytes.
    let mut shipped = Vec::new();
    zopfli::compress(
        zopfli::Options::default(),
        zopfli::Format::Gzip,
        module,
        &mut shipped,
    )?;
    replace(kept, &shipped)?;
    Ok(shipped)
}

/// Writes the bundle file by file.
fn write(bundle: &Path, built: &[Built], manifest: &Path) -> Result<()> {
    fs::create_dir_all(bundle).with_context(|| bundle.display().to_string())?;
    for plugin in built {
        replace(&bundle.join(plugin.file()), &plugin.shipped)?;
    }
    let text = fs::read(manifest).with_context(|| manifest.display().to_string())?;
    replace(&bundle.join("chain.yaml"), &text)
}

/// Removes files that no longer belong to a bundle.
fn remove_others(bundle: &Path, built: &[Built]) -> Result<()> {
    for entry in fs::read_dir(bundle)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_known = name == "chain.yaml" || built.iter().any(|plugin| name == *plugin.file());
        if !is_known && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// A reader sees the old file or the new one, never a part.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let next = path.with_extension("next");
    fs::write(&next, bytes).with_context(|| next.display().to_string())?;
    fs::rename(&next, path).with_context(|| path.display().to_string())
}

fn print_sizes(bundle: &Path, built: &[Built]) {
    eprintln!(
        "{:<12} {:>9} {:>9} {:>6}  sha256 of the .wasm.gz",
        "plugin", "wasm", "shipped", "limit"
    );
    for plugin in built {
        let digest: String = Sha256::digest(&plugin.shipped)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        eprintln!(
            "{:<12} {:>9} {:>9} {:>5}%  {digest}",
            plugin.name,
            plugin.raw,
            plugin.shipped.len(),
            (plugin.shipped.len() * 100).div_ceil(plugin.max_bytes()),
        );
    }
    eprintln!("bundle: {}", bundle.display());
}

/// Fails on imports that the host does not serve, and names them.
fn check_imports(plugin: &str, module: &[u8]) -> Result<()> {
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

/// Uses the installed target, else installs it.
fn ensure_target() -> Result<()> {
    if installed()? {
        return Ok(());
    }
    eprintln!("installing Rust's target {TARGET}");
    let mut rustup = Command::new("rustup");
    rustup
        .args(["target", "add", TARGET])
        .current_dir(run::root());
    if run::succeed(&mut rustup).is_ok() && installed()? {
        return Ok(());
    }
    bail!(
        "Rust's target {TARGET} is missing, and `rustup target add {TARGET}` did not install it.\n\
         Where rustup cannot download, install Debian's rustc-web, cargo-web and rust-web-src, and build the plugins with them:\n  \
         RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 /usr/bin/cargo build --profile plugin --target {TARGET} -Zbuild-std=std,panic_abort\n\
         with the linker set to the rustup toolchain's rust-lld"
    )
}

fn installed() -> Result<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = run::output(
        Command::new(rustc)
            .args(["--print", "sysroot"])
            .current_dir(run::root()),
    )?;
    Ok(Path::new(sysroot.trim())
        .join("lib/rustlib")
        .join(TARGET)
        .join("lib")
        .is_dir())
}
