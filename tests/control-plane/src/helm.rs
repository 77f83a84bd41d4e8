//! The real helm, for tests of what helm has installed. Nothing else builds it.

use std::path::PathBuf;

use crate::go::{BuildError, Module, Package};

const HELM: Package = Package {
    name: "helm",
    path: "helm.sh/helm/v3/cmd/helm",
};

/// Returns the path of helm, and builds it first if it is not in the user's cache directory.
///
/// # Errors
///
/// Fails if Go is missing or too old, or if the build fails.
pub fn helm() -> Result<PathBuf, BuildError> {
    let directory = module().build(&[HELM])?;
    Ok(directory.join(HELM.name))
}

fn module() -> Module {
    Module {
        title: "helm",
        directory: concat!(env!("CARGO_MANIFEST_DIR"), "/helm"),
        go_mod: include_str!("../helm/go.mod"),
        go_sum: include_str!("../helm/go.sum"),
        sources: &[],
        link: "-s -w".to_owned(),
        time: "three minutes",
        instead: |_| String::new(),
    }
}
