//! What depends on which plugin, as seen by leaving each one out.
//!
//! The API server sets defaults in what a chain returns, so results of chains are compared with each other, never with the pod.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use podloom_mutation::{PodRequest, RejectedPod};
use podloom_mutators::{Chain, MutationEntry};
use podloom_pod_path::element_segments;
use serde_json::Value;

use super::source::Origin;
use crate::error::CommandError;
use crate::load;

/// Whether lines are proved.
pub(super) enum Proof {
    /// Nobody asked.
    NotAsked,
    /// It shows nothing. Holds why.
    Impossible(String),
    Done {
        /// As `ReplicaSet shop/web-5d9`.
        template: String,
        trees: Trees,
        /// The plugins that cannot be left out, and why.
        untried: Vec<(String, String)>,
    },
}

impl Proof {
    pub(super) fn trees(&self) -> Option<&Trees> {
        match self {
            Self::Done { trees, .. } => Some(trees),
            _ => None,
        }
    }
}

/// What the chain makes of the template, and what is left without each plugin.
pub(super) struct Trees {
    pub(super) all: Tree,
    /// One for each plugin of the stamp; none if it cannot be left out.
    pub(super) without: Vec<Option<Tree>>,
}

/// All values of a pod by their paths; none for objects and lists that are not empty.
pub(super) struct Tree(BTreeMap<String, Option<Value>>);

impl Tree {
    pub(super) fn of(pod: &Value) -> Self {
        let mut tree = BTreeMap::new();
        add(&mut tree, String::new(), pod);
        Self(tree)
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// What is no object or list, or an empty one.
    pub(super) fn values(&self) -> impl Iterator<Item = (&str, &Value)> {
        let all = self.0.iter();
        all.filter_map(|(path, value)| Some((path.as_str(), value.as_ref()?)))
    }
}

fn add(tree: &mut BTreeMap<String, Option<Value>>, path: String, value: &Value) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Null => return,
        Value::Object(fields) => {
            let fields = fields.iter();
            let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
            fields.map(|(key, value)| (escaped(key), value)).collect()
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

impl Trees {
    /// Whether the value at a path of the pod is gone or different without a plugin. What only the API server adds is gone if what it
    /// is in is gone.
    pub(super) fn differ(&self, plugin: usize, path: &str) -> bool {
        let Some(Some(without)) = self.without.get(plugin) else {
            return false;
        };
        let mut path = path;
        loop {
            match self.all.0.get(path) {
                None => {}
                Some(None) => return !without.has(path),
                Some(value) => return without.0.get(path) != Some(value),
            }
            match path.rsplit_once('/') {
                Some((above, _)) => path = above,
                None => return false,
            }
        }
    }
}

// Runs a chain on a template, and again without each plugin.

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
