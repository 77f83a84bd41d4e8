//! What a program is made of: its software bill of materials (SBOM).
//!
//! The list of crates is kept inside the program, in the section [`SECTION`] that cargo-auditable has made the habit for Rust: so
//! Trivy, Syft, Grype, OSV-Scanner and cargo-audit find it in an image or a file without our help. [`cyclonedx`] prints it as a
//! document for everybody else.
//!
//! [`collect`] asks cargo for the crates when something is built, [`encode`] makes the content of the section, and [`decode`] reads
//! one that somebody else may have made.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use auditable_serde::{DependencyKind, Package, Source};
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};

pub use auditable_serde::VersionInfo;

/// Why the crates are not known.
#[derive(Debug, thiserror::Error)]
pub enum SbomError {
    /// Cargo could not be started.
    #[error("could not start cargo tree")]
    Start(#[source] io::Error),
    /// Cargo failed.
    #[error("cargo tree failed: {0}")]
    Failed(String),
    /// Cargo printed a line that we do not understand.
    #[error("cargo tree printed something unknown: {0:?} is no line of a dependency tree")]
    Tree(String),
    /// The section is not compressed as it should be.
    #[error("the section {SECTION} is not compressed with zlib")]
    Compression(#[source] io::Error),
    /// It would take too much memory.
    #[error("the section {SECTION} is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// It is no list of crates, or one with circles or two roots.
    #[error("the section {SECTION} holds no list of crates")]
    Content(#[source] serde_json::Error),
}

/// Returns the crates whose code is in a package that is built for a target with its default features, and which crate uses which.
/// Procedural macros and build scripts are left out: they run on the machine that builds.
///
/// `cargo tree` knows the features of this package alone; `cargo metadata` would unite those of all packages of a workspace. Nothing is
/// downloaded: call this for what was built or is being built.
///
/// # Errors
///
/// If cargo does not start or fails, for example because the package does not exist.
pub fn collect(
    directory: &Path,
    package: Option<&str>,
    target: &str,
) -> Result<VersionInfo, SbomError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command
        .args(["tree", "--quiet", "--offline", "--color", "never"])
        .args(["--charset", "utf8", "--prefix", "depth", "--format", "{p}"])
        .args(["--edges", "normal,no-proc-macro", "--target", target])
        .current_dir(directory)
        .stdin(Stdio::null());
    if let Some(package) = package {
        command.args(["--package", package]);
    }
    let output = command.output().map_err(SbomError::Start)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(SbomError::Failed(said.trim().to_owned()));
    }
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// Reads what `cargo tree --prefix depth --format {p}` prints. The first line is the root. The crates below a crate are printed where it comes first.
fn parse(text: &str) -> Result<VersionInfo, SbomError> {
    let mut packages: Vec<Package> = Vec::new();
    let mut known = BTreeMap::new();
    // The crates from the root down to the last line.
    let mut above: Vec<usize> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (depth, package) = crate_of(line).ok_or_else(|| SbomError::Tree(line.to_owned()))?;
        let key = (
            package.name.clone(),
            package.version.clone(),
            package.source.clone(),
        );
        let index = *known.entry(key).or_insert_with(|| {
            packages.push(package);
            packages.len() - 1
        });
        above.truncate(depth);
        match above.last().and_then(|parent| packages.get_mut(*parent)) {
            Some(parent) if !parent.dependencies.contains(&index) => {
                parent.dependencies.push(index);
            }
            Some(_) => {}
            None => {
                if let Some(root) = packages.get_mut(index) {
                    root.root = true;
                }
            }
        }
        above.push(index);
    }
    Ok(VersionInfo {
        packages,
        format: 1,
    })
}

/// A line like `2serde v1.0.228`, `0podloom v0.1.0 (/src/host)` or `3itoa v1.0.15 (*)`.
fn crate_of(line: &str) -> Option<(usize, Package)> {
    let digits = line.find(|c: char| !c.is_ascii_digit())?;
    let (depth, rest) = line.split_at_checked(digits)?;
    let (name, rest) = rest.split_once(" v")?;
    let (version, from) = rest.split_once(' ').unwrap_or((rest, ""));
    let package = Package {
        name: name.to_owned(),
        version: version.parse().ok()?,
        source: source(from.strip_suffix("(*)").unwrap_or(from).trim()),
        kind: DependencyKind::Runtime,
        dependencies: Vec::new(),
        root: false,
    };
    Some((depth.parse().ok()?, package))
}

/// Cargo prints nothing for crates.io. A path is left out: it names the machine that builds.
fn source(from: &str) -> Source {
    match from {
        "" => Source::CratesIo,
        _ if from.starts_with("(registry ") => Source::Registry,
        _ if from.contains("://") => Source::Git,
        _ => Source::Local,
    }
}

/// The name of the section. Its content is JSON, compressed with zlib, as
/// <https://github.com/rust-secure-code/cargo-auditable> describes it in `PARSING.md`.
pub const SECTION: &str = ".dep-v0";

/// How long the JSON may be. A thousand crates take 100 KB.
const MAX_BYTES: u64 = 4 << 20;

/// Makes the content of the section.
///
/// # Errors
///
/// Never: writing to memory does not fail. The type stays honest without a panic.
pub fn encode(crates: &VersionInfo) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(crates)?;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&json)?;
    encoder.finish()
}

/// Reads the content of the section, which may come from anybody.
///
/// # Errors
///
/// If it is not what [`encode`] or cargo-auditable write, or is too long.
pub fn decode(section: &[u8]) -> Result<VersionInfo, SbomError> {
    let mut json = String::new();
    let read = ZlibDecoder::new(section)
        .take(MAX_BYTES + 1)
        .read_to_string(&mut json);
    let length = read.map_err(SbomError::Compression)?;
    if length as u64 > MAX_BYTES {
        return Err(SbomError::TooLong);
    }
    json.parse().map_err(SbomError::Content)
}

/// Appends the section to a WebAssembly module or component, as a custom section.
#[must_use]
pub fn with_section(mut wasm: Vec<u8>, content: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    leb128(&mut body, SECTION.len());
    body.extend_from_slice(SECTION.as_bytes());
    body.extend_from_slice(content);
    // Section 0 is a custom one.
    wasm.push(0);
    leb128(&mut wasm, body.len());
    wasm.append(&mut body);
    wasm
}

/// Writes a length as WebAssembly does.
fn leb128(to: &mut Vec<u8>, mut value: usize) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            to.push(low & 0x7f);
            return;
        }
        to.push(low | 0x80);
    }
}

/// A [CycloneDX](https://cyclonedx.org/docs/1.5/json/) document, which most tools for bills of materials read, about a program: the program itself, its crates, and which uses which.
///
/// The same crates give the same bytes: there is neither a time nor a serial number in it.
#[must_use]
pub fn cyclonedx(crates: &VersionInfo) -> Value {
    let of = |is_root: bool| {
        let packages = crates.packages.iter();
        packages.filter(move |package| package.root == is_root)
    };
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": of(true).next().map(|root| component(root, "application")),
        },
        "components": of(false).map(|package| component(package, "library")).collect::<Vec<_>>(),
        "dependencies": crates.packages.iter().map(|package| uses(crates, package)).collect::<Vec<_>>(),
    })
}

fn component(package: &Package, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version.to_string(),
    });
    if let (Source::CratesIo, Some(fields)) = (&package.source, component.as_object_mut()) {
        fields.insert("purl".to_owned(), purl(package).into());
    }
    component
}

/// The name that the rest of the document calls a crate by.
fn reference(package: &Package) -> String {
    match package.source {
        Source::CratesIo => purl(package),
        _ => format!("{}@{}", package.name, package.version),
    }
}

/// The URL of a crate of crates.io for scanners, which look up its vulnerabilities by it. No other source has one.
fn purl(package: &Package) -> String {
    let version = package.version.to_string().replace('+', "%2B");
    format!("pkg:cargo/{}@{version}", package.name)
}

fn uses(crates: &VersionInfo, package: &Package) -> Value {
    let used = package.dependencies.iter();
    let used: Vec<String> = used
        .filter_map(|index| crates.packages.get(*index))
        .map(reference)
        .collect();
    json!({ "ref": reference(package), "dependsOn": used })
}

#[cfg(test)]
mod tests;
