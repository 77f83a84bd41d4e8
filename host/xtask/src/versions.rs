//! The black-box tests on other releases of Kubernetes than the one that every test run has.

use anyhow::{Context, Result, bail};
use podloom_control_plane::{Programs, RELEASES, Release};

use crate::black_box::{self, Operator, Part};
use crate::{plugins, run};

/// Runs all parts of the black-box tests on each release, and names at the end what failed.
pub(crate) fn run() -> Result<()> {
    let operator = Operator::shipped(&plugins::run()?)?;
    let (mut failed, mut alone) = (Vec::new(), Vec::new());
    for release in RELEASES.into_iter().filter(|release| !release.is_pinned()) {
        programs(release)?;
        for part in Part::ALL {
            let name = format!("{} on Kubernetes {}", part.name(), release.minor);
            eprintln!("\n==> {name}");
            match operator.succeeds(part, Some(release)) {
                Ok(names) => alone.extend(names),
                Err(error) => {
                    eprintln!("{error:#}");
                    failed.push(name);
                }
            }
        }
    }
    if let Some(look) = black_box::passed_alone(&alone) {
        eprintln!("\n==> {look}");
    }
    if !failed.is_empty() {
        bail!("these failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Builds the control plane of a release first: a build would take longer than a test may.
fn programs(release: Release) -> Result<()> {
    let what = format!("the control plane of Kubernetes {}", release.minor);
    run::step(&what, "building it takes minutes the first time", || {
        Programs::build(release)
            .map(drop)
            .context("it was not built")
    })
}
