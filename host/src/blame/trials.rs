//! Runs a chain on a template, and again without each plugin.

use std::path::Path;
use std::sync::Arc;

use podloom_mutation::{PodRequest, RejectedPod};
use podloom_mutators::{Chain, MutationEntry};

use super::proof::{Proof, Tree, Trees};
use super::source::Origin;
use crate::error::CommandError;
use crate::load;

/// How much of a digest is shown.
const DIGEST: usize = 12;

/// Runs the chain of a directory, if it is the one that the pod passed.
pub(super) fn run(
    directory: &Path,
    digest: &str,
    plugins: &[MutationEntry],
    origin: &Origin,
) -> Result<Proof, CommandError> {
    let bundle = load::bundle(directory)?;
    let chain = load::compile(&load::engine()?, directory, &bundle)?;
    if chain.digest() != digest {
        return Ok(Proof::Impossible(format!(
            "the pod passed the chain {}, and {} has the chain {}",
            short(digest),
            directory.display(),
            short(chain.digest())
        )));
    }
    let request = Arc::new(origin.subject.request.clone());
    let all = match pass(&chain, origin, &request) {
        Ok(tree) => tree,
        Err(rejected) => {
            return Ok(Proof::Impossible(format!(
                "the chain rejects the template of {}: {rejected}",
                origin.title
            )));
        }
    };
    let mut trees = Trees {
        all,
        without: Vec::new(),
    };
    let mut untried = Vec::new();
    // Each name is there once, so there are no more trials than plugins in the chain, whatever somebody wrote into the stamp.
    for plugin in plugins {
        let name = &plugin.name;
        if !chain.plugins().iter().any(|it| it.name == *name) {
            untried.push((name.clone(), "the chain has no such plugin".to_owned()));
            trees.without.push(None);
            continue;
        }
        let left = Chain::load_after(&chain, &bundle.without(name))
            .map_err(|error| CommandError::invalid(format!("{}: {error}", directory.display())))?;
        let passed = pass(&left, origin, &request);
        if let Err(rejected) = &passed {
            let why = format!("without it, the chain rejects the template: {rejected}");
            untried.push((name.clone(), why));
        }
        trees.without.push(passed.ok());
    }
    Ok(Proof::Done {
        template: origin.title.clone(),
        trees,
        untried,
    })
}

/// What a chain makes of the template.
fn pass(chain: &Chain, origin: &Origin, request: &Arc<PodRequest>) -> Result<Tree, RejectedPod> {
    let passed = chain.mutate(origin.subject.pod.clone(), Arc::clone(request))?;
    Ok(Tree::of(&passed.pod))
}

/// The start of a digest.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..DIGEST).unwrap_or(digest)
}
