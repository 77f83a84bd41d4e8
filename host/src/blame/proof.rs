//! What depends on which plugin, as seen by leaving each one out.
//!
//! The API server sets defaults in what a chain returns, so results of chains are compared with each other, never with the pod.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use podloom_engine::shown::short_digest;
use podloom_mutation::{Effect, PodException, PodRequest, RejectedPod};
use podloom_mutators::{Chain, MutationEntry};
use podloom_pod_path::element_segments;
use serde_json::Value;

use crate::error::CommandError;
use crate::feed::FoundPod;
use crate::load;
use crate::manifest::escape;

/// Whether lines are proved.
pub(super) enum Proof {
    /// Nobody asked.
    NotAsked,
    /// It shows nothing. Holds why.
    Impossible(String),
    Done {
        /// As `ReplicaSet shop/web-5d9`.
        template: String,
        /// What the chain makes of the template.
        all: Tree,
        /// What it makes of it without each plugin of the stamp, or why that cannot be left out.
        without: Vec<Result<Tree, String>>,
    },
}

impl Proof {
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// Whether the value at a path of the pod is gone or different without a plugin. What only the API server adds is gone if what it
    /// is in is gone.
    pub(super) fn depends(&self, plugin: usize, path: &str) -> bool {
        let Self::Done { all, without, .. } = self else {
            return false;
        };
        let Some(Ok(without)) = without.get(plugin) else {
            return false;
        };
        let mut path = path;
        loop {
            match all.get(path) {
                None => {}
                Some(None) => return !without.contains_key(path),
                Some(value) => return without.get(path) != Some(value),
            }
            match path.rsplit_once('/') {
                Some((above, _)) => path = above,
                None => return false,
            }
        }
    }
}

/// All values of a pod by their paths; none for objects and lists that are not empty.
pub(super) type Tree = BTreeMap<String, Option<Value>>;

pub(super) fn tree(pod: &Value) -> Tree {
    let mut tree = Tree::new();
    add(&mut tree, String::new(), pod);
    tree
}

fn add(tree: &mut Tree, path: String, value: &Value) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Null => return,
        Value::Object(fields) => {
            let fields = fields.iter();
            fields.map(|(key, value)| (escape(key), value)).collect()
        }
        Value::Array(elements) => {
            let segments = element_segments(&path, elements).into_iter();
            segments.zip(elements).collect()
        }
        _ => Vec::new(),
    };
    let is_empty = inner.is_empty();
    for (segment, value) in inner {
        add(tree, format!("{path}/{segment}"), value);
    }
    tree.insert(path, is_empty.then(|| value.clone()));
}

// Runs a chain on a template, and again without each plugin.

/// Runs the chain of a directory, if it is the one that the pod passed.
pub(super) fn run(
    directory: &Path,
    digest: &str,
    plugins: &[MutationEntry],
    origin: &FoundPod,
) -> Result<Proof, CommandError> {
    let bundle = load::bundle(directory)?;
    let chain = load::compile(&load::engine()?, directory, &bundle)?;
    if chain.digest() != digest {
        return Ok(Proof::Impossible(format!(
            "the pod passed the chain {}, and {} has the chain {}",
            short_digest(digest),
            directory.display(),
            short_digest(chain.digest())
        )));
    }
    // Whatever holds now: the stamp says which plugins let it pass.
    let excepted = plugins.iter().filter_map(|plugin| {
        let name = plugin.exception.clone()?;
        Some(PodException {
            name,
            plugins: vec![plugin.name.clone()],
            effect: Effect::Skip,
            until: String::new(),
            lasts: Duration::ZERO,
        })
    });
    let request = Arc::new(PodRequest {
        exceptions: excepted.collect(),
        ..origin.subject.request.clone()
    });
    let all = match pass(&chain, origin, &request) {
        Ok(tree) => tree,
        Err(rejected) => {
            return Ok(Proof::Impossible(format!(
                "the chain rejects the template of {}: {rejected}",
                origin.name
            )));
        }
    };
    let mut without = Vec::new();
    // Each name is there once, so there are no more trials than plugins in the chain, whatever somebody wrote into the stamp.
    for plugin in plugins {
        let name = &plugin.name;
        if !chain.plugins().iter().any(|it| it.name == *name) {
            without.push(Err("the chain has no such plugin".to_owned()));
            continue;
        }
        let left = Chain::load_after(&chain, &bundle.without(name))
            .map_err(|error| CommandError::invalid(format!("{}: {error}", directory.display())))?;
        without.push(
            pass(&left, origin, &request).map_err(|rejected| {
                format!("without it, the chain rejects the template: {rejected}")
            }),
        );
    }
    Ok(Proof::Done {
        template: origin.name.clone(),
        all,
        without,
    })
}

/// What a chain makes of the template.
fn pass(chain: &Chain, origin: &FoundPod, request: &Arc<PodRequest>) -> Result<Tree, RejectedPod> {
    let passed = chain.mutate(origin.subject.pod.clone(), Arc::clone(request))?;
    Ok(tree(&passed.pod))
}
