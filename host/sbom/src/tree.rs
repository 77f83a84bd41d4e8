//! Reads what `cargo tree --prefix depth --format {p}` prints.

use std::collections::BTreeMap;

use auditable_serde::{DependencyKind, Package, Source, VersionInfo};

/// A line of `cargo tree` that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{line:?} is no line of a dependency tree")]
pub struct TreeError {
    line: String,
}

/// The first line is the root. The crates below a crate are printed where it comes first.
pub(crate) fn parse(text: &str) -> Result<VersionInfo, TreeError> {
    let mut packages: Vec<Package> = Vec::new();
    let mut known = BTreeMap::new();
    // The crates from the root down to the last line.
    let mut above: Vec<usize> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (depth, package) = read(line).ok_or_else(|| TreeError {
            line: line.to_owned(),
        })?;
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
fn read(line: &str) -> Option<(usize, Package)> {
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

#[cfg(test)]
mod tests;
