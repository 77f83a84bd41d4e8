//! What depends on which plugin, as seen by leaving each one out.
//!
//! The API server sets defaults in what a chain returns, so results of chains are compared with each other, never with the pod.

use std::collections::BTreeMap;

use podloom_pod_path::element_segments;
use serde_json::Value;

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
