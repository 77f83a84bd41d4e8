//! crane, which reads and moves images, for tests of the images and artifacts that we write. Nothing else builds it.

use std::path::PathBuf;

use crate::go::{BuildError, Module, Package};

const CRANE: Package = Package {
    name: "crane",
    path: "github.com/google/go-containerregistry/cmd/crane",
};

/// Returns the path of crane, and builds it first if it is not in the user's cache directory.
///
/// # Errors
///
/// Fails if Go is missing or too old, or if the build fails.
pub fn crane() -> Result<PathBuf, BuildError> {
    let module = Module {
        title: "crane",
        directory: concat!(env!("CARGO_MANIFEST_DIR"), "/crane"),
        go_mod: include_str!("../crane/go.mod"),
        go_sum: include_str!("../crane/go.sum"),
        sources: &[],
        link: "-s -w".to_owned(),
        time: "a minute",
        instead: |_| String::new(),
    };
    let directory = module.build(&[CRANE])?;
    Ok(directory.join(CRANE.name))
}
