//! `podloom blame`: who wrote each line of a pod.
//!
//! `authors` finds who wrote the lines of the pod, `proof` what depends on which plugin, and `source` reads where the pod came from.

mod authors;
mod proof;
mod report;
mod source;

use std::collections::BTreeSet;
use std::mem;

use podloom_mutators::MutationEntry;
use podloom_pod_path::{Access, Transaction};
use serde_json::Value;

use self::authors::Authors;
use self::proof::{Proof, Tree};
use self::report::Report;
use self::source::Origin;
use crate::cli::{BlameArguments, BlameFormat};
use crate::error::CommandError;
use crate::feed::block_on;
use crate::managed_fields::ManagedFields;
use crate::{output, stamp};

/// How many elements of lists are looked at to find out who wrote the lines: some seconds.
const WORK: u64 = 100_000_000;

/// Reads the pod, and prints it with who wrote each line.
pub(crate) fn run(arguments: &BlameArguments) -> Result<(), CommandError> {
    let (pod, origin) = block_on(source::read(arguments))?;
    let stamp = Stamp::of(&pod);
    let fields = ManagedFields::of(&pod, WORK);
    let authors = Authors {
        plugins: stamp.plugins(),
        fields: &fields,
    };
    let proof = prove(arguments, origin, &stamp, &pod, &authors)?;
    let text = blame(&pod, &stamp, &authors, &proof, arguments.output)?;
    output::print(&text)
}

/// The pod with who wrote each line, as text.
fn blame(
    pod: &Value,
    stamp: &Stamp,
    authors: &Authors<'_>,
    proof: &Proof,
    format: BlameFormat,
) -> anyhow::Result<String> {
    let report = Report {
        pod,
        lines: &authors.blame(authors::of(pod)?, proof.trees()),
        stamp,
        fields: authors.fields,
        proof,
    };
    report::render(&report, format)
}

/// Runs the chain on the pod's template, and again without each plugin, if the arguments ask for that and it shows anything.
fn prove(
    arguments: &BlameArguments,
    origin: Result<Origin, String>,
    stamp: &Stamp,
    pod: &Value,
    authors: &Authors<'_>,
) -> Result<Proof, CommandError> {
    let Some(directory) = &arguments.plugins else {
        return Ok(Proof::NotAsked);
    };
    let Stamp::Read { chain, plugins } = stamp else {
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
    let known = Tree::of(&template);
    let access = Access::unrestricted().into();
    let mut given = Transaction::begin(template, access, [].into());
    for (path, value) in Tree::of(pod).values() {
        let is_default = path.starts_with("/spec/") && !known.has(path);
        if is_default && authors.is_as_made(path) {
            // What cannot be there in a pod of the template, such as an element that it does not have, is left out.
            let _ignored = given.set(path, value.to_string());
        }
    }
    given.commit().0
}

/// What a pod's stamp says.
enum Stamp {
    /// It has none, so it passed no chain.
    None,
    /// It has one that podloom did not write.
    Unreadable,
    Read {
        /// The chain's digest.
        chain: String,
        /// In the order of the chain.
        plugins: Vec<MutationEntry>,
    },
}

impl Stamp {
    fn of(pod: &Value) -> Self {
        let Some(stamp) = stamp::Stamp::of(pod) else {
            return Self::None;
        };
        match (stamp.digest, stamp.entries) {
            (Some(chain), Some(plugins)) if names_each_once(&plugins) => {
                Self::Read { chain, plugins }
            }
            _ => Self::Unreadable,
        }
    }

    /// The plugins that it lists, in the order of the chain.
    fn plugins(&self) -> &[MutationEntry] {
        match self {
            Self::Read { plugins, .. } => plugins,
            _ => &[],
        }
    }
}

/// As a chain does.
fn names_each_once(plugins: &[MutationEntry]) -> bool {
    let names: BTreeSet<&str> = plugins.iter().map(|it| it.name.as_str()).collect();
    names.len() == plugins.len()
}

#[cfg(test)]
mod tests;
