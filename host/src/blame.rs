//! `podloom blame`: who wrote each line of a pod.
//!
//! `authors` finds who wrote the lines of the pod, `proof` what depends on which plugin, and `source` reads where the pod came from.

mod authors;
mod proof;
mod report;
mod source;

use std::mem;

use podloom_pod_path::{Access, Transaction};
use serde_json::Value;

use self::authors::Authors;
use self::proof::{Proof, tree};
use crate::cli::BlameArguments;
use crate::error::CommandError;
use crate::feed::{FoundPod, block_on};
use crate::output;

/// Reads the pod, and prints it with who wrote each line.
pub(crate) fn run(arguments: &BlameArguments) -> Result<(), CommandError> {
    let (pod, origin) = block_on(source::read(arguments))?;
    let authors = Authors::of(&pod);
    let proof = prove(arguments, origin, &pod, &authors)?;
    output::print(&report::render(&pod, &authors, &proof, arguments.output)?)
}

/// Runs the chain on the pod's template, and again without each plugin, if the arguments ask for that and it shows anything.
fn prove(
    arguments: &BlameArguments,
    origin: Result<FoundPod, String>,
    pod: &Value,
    authors: &Authors<'_>,
) -> Result<Proof, CommandError> {
    let Some(directory) = &arguments.plugins else {
        return Ok(Proof::NotAsked);
    };
    let Some((chain, plugins)) = authors.stamp.as_ref().and_then(|it| it.chain()) else {
        return Ok(Proof::Impossible(
            "the pod has no stamp that says which plugins wrote it".to_owned(),
        ));
    };
    match origin {
        Ok(mut origin) => {
            let template = mem::take(&mut origin.subject.pod);
            origin.subject.pod = submitted(template, pod, authors);
            proof::run(directory, chain, plugins, &origin)
        }
        Err(why) => Ok(Proof::Impossible(why)),
    }
}

/// The pod of a template, with the defaults that the API server gave the pod before it passed the chain. Pods get more of them than
/// templates, such as enableServiceLinks. They are what the maker of the pod owns: whatever was written after that has other owners, or
/// none.
fn submitted(template: Value, pod: &Value, authors: &Authors<'_>) -> Value {
    let known = tree(&template);
    let access = Access::unrestricted().into();
    let mut given = Transaction::begin(template, access, [].into());
    for (path, value) in tree(pod) {
        let is_default = path.starts_with("/spec/") && !known.contains_key(&path);
        if let Some(value) = value.filter(|_| is_default && authors.is_as_made(&path)) {
            // What cannot be there in a pod of the template, such as an element that it does not have, is left out.
            let _ignored = given.set(&path, value.to_string());
        }
    }
    given.commit().0
}

#[cfg(test)]
mod tests;
