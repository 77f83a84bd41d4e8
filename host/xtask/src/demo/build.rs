//! Builds what the demo needs: the plugins and the operator with Rust, and beside them the control plane's programs with Go.

use std::path::PathBuf;
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Result, anyhow};
use podloom_control_plane::Programs;

use super::screen;
use crate::{plugins, release, run};

/// Everything that is built and found.
pub(crate) struct Built {
    pub(crate) bundle: PathBuf,
    pub(crate) binary: PathBuf,
    pub(crate) examples: PathBuf,
}

/// Whether the demo starts a control plane of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plane {
    /// With programs that may have to be built.
    Own,
    /// No scene needs one, or the user has named a cluster.
    NotNeeded,
}

/// Builds all, the Go programs beside the Rust builds.
pub(crate) fn run(plane: Plane) -> Result<Built> {
    // Looks for Go now: without it, nobody should wait for the Rust builds first.
    let missing = match plane {
        Plane::Own => Programs::missing()?,
        Plane::NotNeeded => Vec::new(),
    };
    if !missing.is_empty() {
        screen::line("The first time, all of this takes many minutes; later it takes seconds.");
    }
    let (built, ()) = thread::scope(|scope| {
        let programs = (!missing.is_empty()).then(|| scope.spawn(find_programs));
        let rust = rust();
        if rust.is_err()
            && programs
                .as_ref()
                .is_some_and(|thread| !thread.is_finished())
        {
            screen::line(
                "The control plane is still being built, for your next try. Ctrl-C stops that.",
            );
        }
        both(rust, programs.map_or(Ok(()), end))
    })?;
    Ok(built)
}

fn rust() -> Result<Built> {
    Ok(Built {
        bundle: plugins::run()?,
        binary: release::local("podloom")?,
        examples: run::root().join("deploy/examples"),
    })
}

/// Finds them in what `ControlPlane::start` will look through, so only what was built for it counts.
fn find_programs() -> Result<()> {
    Programs::find().map(drop).map_err(|error| {
        let error = anyhow!(error);
        eprintln!("control plane: FAILED: {error:#}");
        error
    })
}

fn end(thread: ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    let panicked = |_| Err(anyhow!("the build of the control plane panicked"));
    thread.join().unwrap_or_else(panicked)
}

/// The results of two builds, or the errors of both.
fn both<A, B>(left: Result<A>, right: Result<B>) -> Result<(A, B)> {
    match (left, right) {
        (Ok(left), Ok(right)) => Ok((left, right)),
        (Err(left), Err(right)) => Err(anyhow!("{left:#}\nerror: {right:#}")),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests;
