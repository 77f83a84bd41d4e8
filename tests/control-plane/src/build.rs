//! The Go module with the programs of the control plane.

use std::path::PathBuf;

use crate::go::{BuildError, Module, Package};
use crate::program::Program;
use crate::version::{self, GO_MOD};

/// The module with the programs of Kubernetes, which also has the kubelet.
#[must_use]
pub fn module() -> Module {
    Module {
        title: "control plane",
        directory: concat!(env!("CARGO_MANIFEST_DIR"), "/go"),
        go_mod: GO_MOD,
        go_sum: include_str!("../go/go.sum"),
        sources: &[],
        link: link(),
        time: "six minutes",
        instead,
    }
}

/// Builds those of `programs` that are missing, and returns the directory that then holds all of them.
pub(crate) fn ensure(programs: &[Program]) -> Result<PathBuf, BuildError> {
    let packages: Vec<Package> = programs.iter().copied().map(package).collect();
    module().build(&packages)
}

/// Those of `programs` that [`ensure`] would build. Fails at once if Go is missing or too old.
pub(crate) fn missing(programs: &[Program]) -> Result<Vec<Program>, BuildError> {
    let packages: Vec<Package> = programs.iter().copied().map(package).collect();
    let missing = module().missing(&packages)?;
    let is_missing = |program: &Program| missing.contains(&package(*program));
    Ok(programs.iter().copied().filter(is_missing).collect())
}

fn package(program: Program) -> Package {
    Package {
        name: program.name(),
        path: program.package(),
    }
}

/// The versions are linked in; without them the API server reports v0.0.0, and clients misbehave.
fn link() -> String {
    let kubernetes = version::pinned(Program::ApiServer);
    let kwok = version::pinned(Program::Kwok);
    let base = "k8s.io/component-base/version";
    [
        "-s -w".to_owned(),
        format!("-X {base}.gitVersion=v{kubernetes}"),
        format!("-X {base}.gitMajor={}", kubernetes.major),
        format!("-X {base}.gitMinor={}", kubernetes.minor),
        format!("-X k8s.io/client-go/pkg/version.gitVersion=v{kubernetes}"),
        format!("-X sigs.k8s.io/kwok/pkg/consts.Version=v{kwok}"),
    ]
    .join(" ")
}

/// Programs of the pinned minor version need not be built.
fn instead(names: &[&str]) -> String {
    let programs = Program::ALL
        .into_iter()
        .filter(|program| names.contains(&program.name()));
    let installed: Vec<String> = programs
        .map(|program| {
            let version = version::pinned(program);
            format!("{} {}.{}", program.name(), version.major, version.minor)
        })
        .collect();
    if installed.is_empty() {
        return String::new();
    }
    format!(
        ", or set KUBEBUILDER_ASSETS to a directory with {}",
        installed.join(", ")
    )
}
