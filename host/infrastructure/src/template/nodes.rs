//! Nodes of a template that are machines.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

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
