//! Programs that only some tests use. Each is built once, from a Go module of its own.

use std::path::PathBuf;

use crate::go::{BuildError, Module, Package};

/// Returns the path of helm, which tests compare with what our own code reads of its releases. It is built first if it is not in the
/// user's cache directory.
///
/// # Errors
///
/// Fails if Go is missing or too old, or if the build fails.
pub fn helm() -> Result<PathBuf, BuildError> {
    build(
        Package {
            name: "helm",
            path: "helm.sh/helm/v3/cmd/helm",
        },
        concat!(env!("CARGO_MANIFEST_DIR"), "/helm"),
        [
            include_str!("../helm/go.mod"),
            include_str!("../helm/go.sum"),
        ],
        &[],
        "half a minute",
    )
}

/// Returns the path of helm 4. It is built first if it is not in the user's cache directory.
///
/// # Errors
///
/// Fails if Go is missing or too old, or if the build fails.
pub fn helm4() -> Result<PathBuf, BuildError> {
    build(
        Package {
            name: "helm4",
            path: "helm.sh/helm/v4/cmd/helm",
        },
        concat!(env!("CARGO_MANIFEST_DIR"), "/helm4"),
        [
            include_str!("../helm4/go.mod"),
            include_str!("../helm4/go.sum"),
        ],
        &[],
        "half a minute",
    )
}

/// Returns the path of kustomize, which runs functions. It is built first if it is not in the user's cache directory.
///
/// # Errors
///
/// Fails if Go is missing or too old, or if the build fails.
pub fn kustomize() -> Result<PathBuf, BuildError> {
    build(
        Package {
            name: "kustomize",
            path: "sigs.k8s.io/kustomize/kustomize/v5",
        },
        concat!(env!("CARGO_MANIFEST_DIR"), "/kustomize"),
        [
            include_str!("../kustomize/go.mod"),
            include_str!("../kustomize/go.sum"),
        ],
        &[],
        "a quarter of a minute",
    )
}

/// Returns the path of crane, which reads and moves the images and artifacts that we write. It is built first if it is not in the user's
/// cache directory.
///
/// # Errors
///
/// Fails if Go is missing or too old, or if the build fails.
pub fn crane() -> Result<PathBuf, BuildError> {
    build(
        Package {
            name: "crane",
            path: "github.com/google/go-containerregistry/cmd/crane",
        },
        concat!(env!("CARGO_MANIFEST_DIR"), "/crane"),
        [
            include_str!("../crane/go.mod"),
            include_str!("../crane/go.sum"),
        ],
        &[],
        "a minute",
    )
}

const DOORS: Module = Module {
    title: "doors",
    directory: concat!(env!("CARGO_MANIFEST_DIR"), "/doors"),
    go_mod: include_str!("../doors/go.mod"),
    go_sum: include_str!("../doors/go.sum"),
    sources: &[include_str!("../doors/main.go")],
    link: String::new(),
    time: "half a minute",
    instead: |_| String::new(),
};

/// Returns the path of a program that says what Flux and Argo CD make of an object, and what a report says to those who read it. It is
/// built first if it is not in the user's cache directory.
///
/// # Errors
///
/// Fails if Go is missing or too old, or if the build fails.
pub fn doors() -> Result<PathBuf, BuildError> {
    let package = Package {
        name: "doors",
        path: ".",
    };
    Ok(DOORS.build(&[package])?.join(package.name))
}

/// Returns the manifest with the CRDs of openreports/reports-api, of the version that [`doors`] reads.
///
/// # Errors
///
/// Fails if Go is missing, or if the module cannot be downloaded.
pub fn report_crds() -> Result<PathBuf, BuildError> {
    let source = DOORS.source("github.com/openreports/reports-api")?;
    Ok(source.join("config/install.yaml"))
}

fn build(
    package: Package,
    directory: &'static str,
    [go_mod, go_sum]: [&'static str; 2],
    sources: &'static [&'static str],
    time: &'static str,
) -> Result<PathBuf, BuildError> {
    let module = Module {
        title: package.name,
        directory,
        go_mod,
        go_sum,
        sources,
        link: "-s -w".to_owned(),
        time,
        instead: |_| String::new(),
    };
    Ok(module.build(&[package])?.join(package.name))
}
