//! Which changes of a template IM takes.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value, json};

use super::files::Path;
use super::{DEPTH_LOOKED_AT, METADATA, PROBLEMS_MAX, Problem};

/// Where nodes are.
const NODES: [&str; 2] = [TOPOLOGY, "node_templates"];
/// Where inputs are.
const INPUTS: [&str; 2] = [TOPOLOGY, "inputs"];
const TOPOLOGY: &str = "topology_template";
/// What is said about something, and means nothing.
const DESCRIPTION: &str = "description";

/// What a wanted template is, compared with the one that IM has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Comparison {
    /// The same.
    Same,
    /// Something is gone that IM may keep.
    LocalOnly,
    /// Something must be sent.
    Update {
        /// The wanted template, and the nodes that are gone, with no machines. It can be read without the template that IM has.
        sent: Value,
        /// The names of these nodes. They cannot be used again.
        retired: Vec<String>,
    },
    /// Something changed that IM would ignore, or that would break the template that it has.
    Unsupported(Vec<Problem>),
}

/// Compares the template that IM has with the wanted one, both in their canonical form. `retired` are the names of nodes that were
/// removed before.
pub(crate) fn compare(applied: &Value, wanted: &Value, retired: &BTreeSet<String>) -> Comparison {
    let mut change = Change {
        applied,
        is_sent: false,
        is_local: false,
        removed: Vec::new(),
        unsupported: Vec::new(),
    };
    change.look(applied, wanted, &Path::default());
    change.look_for_retired(wanted, retired);
    let Change {
        is_sent,
        is_local,
        removed,
        unsupported,
        ..
    } = change;
    if !unsupported.is_empty() {
        return Comparison::Unsupported(unsupported);
    }
    if !is_sent && removed.is_empty() {
        return match is_local {
            true => Comparison::LocalOnly,
            false => Comparison::Same,
        };
    }
    let mut sent = wanted.clone();
    for (name, node) in &removed {
        put(&mut sent, NODES, name, zeroed(applied, node));
    }
    if !removed.is_empty() {
        keep_inputs(&mut sent, applied);
    }
    Comparison::Update {
        sent,
        retired: removed.into_iter().map(|(name, _)| name).collect(),
    }
}

struct Change<'a> {
    applied: &'a Value,
    /// Something is different or new.
    is_sent: bool,
    /// Something is gone that IM may keep.
    is_local: bool,
    /// Machines that are gone.
    removed: Vec<(String, &'a Value)>,
    unsupported: Vec<Problem>,
}

impl<'a> Change<'a> {
    fn look(&mut self, applied: &'a Value, wanted: &Value, path: &Path<'_>) {
        match (applied, wanted) {
            _ if path.depth() > DEPTH_LOOKED_AT => self.refuse(path, "it is too deep"),
            (Value::Object(applied), Value::Object(wanted)) => {
                self.look_at_objects(applied, wanted, path);
            }
            (Value::Array(applied), Value::Array(wanted)) => {
                self.look_at_lists(applied, wanted, path);
            }
            (applied, wanted) if applied == wanted => {}
            (_, Value::Null) => self.refuse(path, "it cannot become null"),
            _ if is_type_of_node(path) => {
                self.refuse(path, "the type of a node cannot be changed");
            }
            // All nodes in it would be gone, but not their machines.
            (Value::Object(_), _) if holds_nodes(path) => self.refuse(path, "it must be an object"),
            _ => self.is_sent = true,
        }
    }

    fn look_at_objects(
        &mut self,
        applied: &'a Map<String, Value>,
        wanted: &Map<String, Value>,
        path: &Path<'_>,
    ) {
        for (name, old) in applied {
            let path = path.key(name);
            match wanted.get(name) {
                Some(new) => self.look(old, new, &path),
                None => self.look_at_removed(name, old, &path),
            }
        }
        self.is_sent |= wanted.keys().any(|name| !applied.contains_key(name));
    }

    fn look_at_lists(&mut self, applied: &'a [Value], wanted: &[Value], path: &Path<'_>) {
        if wanted.len() < applied.len() {
            self.refuse(path, "the list cannot become shorter");
            return;
        }
        self.is_sent |= wanted.len() > applied.len();
        for (index, (old, new)) in applied.iter().zip(wanted).enumerate() {
            self.look(old, new, &path.index(index));
        }
    }

    fn look_at_removed(&mut self, name: &str, old: &'a Value, path: &Path<'_>) {
        let keys = path.keys().unwrap_or_default();
        if is_local(&keys) {
            self.is_local = true;
            return;
        }
        match (keys.as_slice(), old) {
            // The same as the removal of each.
            (keys, Value::Object(nodes)) if keys == NODES => {
                self.is_local = true;
                for (name, node) in nodes {
                    self.look_at_removed(name, node, &path.key(name));
                }
            }
            ([parents @ .., _], node) if parents == NODES && is_compute(self.applied, node) => {
                self.removed.push((name.to_owned(), node));
            }
            _ => self.refuse(path, "it cannot be removed"),
        }
    }

    /// Refuses the names of nodes that were removed before: IM still has those, and would merge them.
    fn look_for_retired(&mut self, wanted: &Value, retired: &BTreeSet<String>) {
        let old = at(self.applied, NODES);
        for name in at(wanted, NODES).into_iter().flat_map(Map::keys) {
            if retired.contains(name) && !old.is_some_and(|nodes| nodes.contains_key(name)) {
                let root = Path::default();
                let topology = root.key(NODES[0]);
                let nodes = topology.key(NODES[1]);
                let reason = "a node of this name was removed before; use another name";
                self.refuse(&nodes.key(name), reason);
            }
        }
    }

    fn refuse(&mut self, path: &Path<'_>, reason: &str) {
        // It means nothing, so nothing breaks if IM keeps the old one.
        if path.is_in(METADATA) {
            self.is_local = true;
            return;
        }
        if self.unsupported.len() < PROBLEMS_MAX {
            self.unsupported.push(path.problem(reason));
        }
    }
}

/// Whether what is removed here is a whole output or input, or metadata or a description, and not something that is only called so.
fn is_local(keys: &[&str]) -> bool {
    match keys {
        [METADATA, ..] | [DESCRIPTION] | [TOPOLOGY, DESCRIPTION] => true,
        [TOPOLOGY, "inputs" | "outputs"] | [TOPOLOGY, "inputs" | "outputs", _] => true,
        [TOPOLOGY, section, _, DESCRIPTION] => {
            matches!(*section, "inputs" | "outputs" | "node_templates")
        }
        [TOPOLOGY, "node_templates", _, METADATA, ..] => true,
        [types, _, DESCRIPTION] | [types, _, METADATA, ..] => types.ends_with("_types"),
        [types, _, "properties" | "attributes", _, DESCRIPTION] => types.ends_with("_types"),
        _ => false,
    }
}

/// Whether it is a node, or whether nodes are in it.
fn holds_nodes(path: &Path<'_>) -> bool {
    let keys = path.keys();
    keys.is_some_and(|keys| match keys.as_slice() {
        [parents @ .., _] if parents == NODES => true,
        keys => NODES.starts_with(keys),
    })
}

fn is_type_of_node(path: &Path<'_>) -> bool {
    let keys = path.keys().unwrap_or_default();
    matches!(keys.as_slice(), [parents @ .., _, "type"] if parents == NODES)
}

/// The object at a path.
fn at<'a>(template: &'a Value, path: [&'static str; 2]) -> Option<&'a Map<String, Value>> {
    path.into_iter()
        .try_fold(template, |parent, key| parent.get(key))
        .and_then(Value::as_object)
}

/// Puts the inputs back that are gone: nodes without machines may use them, and IM reads what is sent before it merges it.
fn keep_inputs(sent: &mut Value, applied: &Value) {
    let wanted = at(sent, INPUTS).cloned().unwrap_or_default();
    for (name, input) in at(applied, INPUTS).into_iter().flatten() {
        if !wanted.contains_key(name) {
            put(sent, INPUTS, name, input.clone());
        }
    }
}

/// Puts a value into the object at a path.
fn put(template: &mut Value, path: [&'static str; 2], name: &str, value: Value) {
    let parent = path.into_iter().try_fold(template, |parent, key| {
        let parent = parent.as_object_mut()?;
        Some(
            parent
                .entry(key)
                .or_insert_with(|| Value::Object(Map::new())),
        )
    });
    if let Some(Value::Object(parent)) = parent {
        parent.insert(name.to_owned(), value);
    }
}

// Nodes of a template that are machines.

/// The types of machines that TOSCA and IM bring along.
const COMPUTE: [&str; 2] = ["tosca.nodes.Compute", "tosca.nodes.indigo.Compute"];
/// The capability of a node to have several machines.
const SCALABLE: &str = "scalable";
/// The number of machines of a node.
pub(super) const COUNT: &str = "count";
/// The machines to remove, which IM would look for.
const REMOVAL_LIST: &str = "removal_list";
/// The numbers of machines of a node of TOSCA itself.
const INSTANCES: [&str; 3] = ["min_instances", "max_instances", "default_instances"];

/// Returns whether a node is a machine, by its type or by the types of the template that this is derived from.
pub(super) fn is_compute(template: &Value, node: &Value) -> bool {
    let line = line_of(template, node);
    line.into_iter().any(|(name, _)| COMPUTE.contains(&name))
}

/// Returns the node with no machines.
pub(super) fn zeroed(template: &Value, node: &Value) -> Value {
    let has_count = has_default_count(template, node);
    let mut node = node.clone();
    let properties = ["capabilities", SCALABLE, "properties"]
        .into_iter()
        .try_fold(&mut node, |parent, name| {
            let parent = parent.as_object_mut()?;
            let child = parent
                .entry(name)
                .or_insert_with(|| Value::Object(Map::new()));
            if !child.is_object() {
                *child = Value::Object(Map::new());
            }
            Some(child)
        });
    if let Some(Value::Object(properties)) = properties {
        if has_count || properties.contains_key(COUNT) {
            properties.remove(REMOVAL_LIST);
            properties.insert(COUNT.to_owned(), json!(0));
        } else {
            for name in INSTANCES {
                properties.insert(name.to_owned(), json!(0));
            }
        }
    }
    node
}

/// Whether the type of a node gives it a count. IM prefers that to the numbers of instances.
fn has_default_count(template: &Value, node: &Value) -> bool {
    instances_of_type(template, node, COUNT).is_some()
}

/// Returns what the type of a node says about its number of machines, under this name; none if its types in the template do not say it.
pub(super) fn instances_of_type<'a>(
    template: &'a Value,
    node: &'a Value,
    name: &str,
) -> Option<&'a Value> {
    let nodes = line_of(template, node);
    let scalable = nodes
        .into_iter()
        .find_map(|(_, node)| node?.get("capabilities")?.get(SCALABLE));
    let scalable = scalable.and_then(|it| it.as_str().or_else(|| type_of(it)));
    let capabilities = line(template, "capability_types", scalable);
    capabilities
        .into_iter()
        .find_map(|(_, capability)| capability?.get("properties")?.get(name)?.get("default"))
}

/// Returns the type of a node and those that it is derived from, with their definitions in the template.
pub(super) fn line_of<'a>(
    template: &'a Value,
    node: &'a Value,
) -> Vec<(&'a str, Option<&'a Value>)> {
    line(template, "node_types", type_of(node))
}

fn type_of(value: &Value) -> Option<&str> {
    value.get("type").and_then(Value::as_str)
}

/// A type and those that it is derived from, with their definitions in the template.
fn line<'a>(
    template: &'a Value,
    section: &str,
    name: Option<&'a str>,
) -> Vec<(&'a str, Option<&'a Value>)> {
    let types = template.get(section);
    let (mut line, mut seen) = (Vec::new(), HashSet::new());
    let mut name = name;
    // Types that are derived from each other never end.
    while let Some(current) = name.filter(|name| seen.insert(*name)) {
        let definition = types.and_then(|types| types.get(current));
        line.push((current, definition));
        name = definition.and_then(|it| it.get("derived_from")?.as_str());
    }
    line
}
