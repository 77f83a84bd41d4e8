//! The Go modules with the programs of the control plane.

use std::path::PathBuf;

use crate::go::{BuildError, Module, Package};
use crate::program::Program;
use crate::release::{PINNED, Release};

/// The module with the programs of the pinned Kubernetes, which also has the kubelet.
#[must_use]
pub fn module() -> Module {
    module_of(PINNED)
}

fn module_of(release: Release) -> Module {
    Module {
        title: "control plane",
        directory: release.directory,
        go_mod: release.go_mod,
        go_sum: release.go_sum,
        sources: &[],
        link: link(release),
        time: "six minutes",
        instead,
    }
}

/// Builds those of `programs` that are missing, and returns the path of each.
pub(crate) fn ensure(
    release: Release,
    programs: &[Program],
) -> Result<Vec<(Program, PathBuf)>, BuildError> {
    let mut built = Vec::new();
    for (source, programs) in by_source(release, programs) {
        let directory = module_of(source).build(&packages(&programs))?;
        let path = |program: Program| (program, directory.join(program.name()));
        built.extend(programs.into_iter().map(path));
    }
    Ok(built)
}

/// Those of `programs` that [`ensure`] would build. Fails at once if Go is missing or too old.
pub(crate) fn missing(release: Release, programs: &[Program]) -> Result<Vec<Program>, BuildError> {
    let mut all = Vec::new();
    for (source, programs) in by_source(release, programs) {
        let missing = module_of(source).missing(&packages(&programs))?;
        let is_missing = |program: &Program| missing.contains(&package(*program));
        all.extend(programs.into_iter().filter(is_missing));
    }
    Ok(all)
}

/// The programs of each module.
fn by_source(release: Release, programs: &[Program]) -> Vec<(Release, Vec<Program>)> {
    let (its_own, others): (Vec<Program>, Vec<Program>) = programs
        .iter()
        .partition(|program| release.source(**program) == release);
    let sources = [(release, its_own), (PINNED, others)];
    let needed = |(_, programs): &(Release, Vec<Program>)| !programs.is_empty();
    sources.into_iter().filter(needed).collect()
}

fn packages(programs: &[Program]) -> Vec<Package> {
    programs.iter().copied().map(package).collect()
}

fn package(program: Program) -> Package {
    Package {
        name: program.name(),
        path: program.package(),
    }
}

/// The versions are linked in; without them the API server reports v0.0.0, and clients misbehave.
fn link(release: Release) -> String {
    let kubernetes = release.version(Program::ApiServer);
    let kwok = release.version(Program::Kwok);
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

/// Installed programs of the chosen minor version need not be built.
fn instead(names: &[&str]) -> String {
    // A build begins only after the release was chosen.
    let release = Release::chosen().unwrap_or(PINNED);
    let programs = Program::ALL
        .into_iter()
        .filter(|program| names.contains(&program.name()));
    let installed: Vec<String> = programs
        .map(|program| {
            let version = release.version(program);
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
