//! How many machines a template asks for.

use serde_json::Value;

use super::nodes::{COUNT, instances_of_type, is_compute, line_of};

/// What follows in the names of types whose software adds and removes machines by itself.
const ELASTIC: &str = "ElasticCluster";
/// Where a node says how many machines it has.
const PROPERTIES: &str = "/capabilities/scalable/properties";
/// What says how many: the first that is there counts.
const NUMBERS: [&str; 3] = [COUNT, "default_instances", MINIMUM];
/// How few are enough.
const MINIMUM: &str = "min_instances";

/// Returns how many machines IM makes of a template at least.
///
/// Only what the template itself says is counted. What types from elsewhere add is not, nor numbers that functions compute. It is zero
/// if software in the template changes the number of machines.
pub(crate) fn machines(template: &Value) -> usize {
    let nodes = template.pointer("/topology_template/node_templates");
    let nodes = nodes.and_then(Value::as_object).into_iter().flatten();
    let nodes: Vec<&Value> = nodes.map(|(_, node)| node).collect();
    let is_elastic = |node: &&Value| {
        let mut names = line_of(template, node).into_iter().map(|(name, _)| name);
        names.any(|name| name.ends_with(ELASTIC))
    };
    if nodes.iter().any(is_elastic) {
        return 0;
    }
    let machines = nodes.into_iter().filter(|node| is_compute(template, node));
    machines.fold(0, |sum, node| sum.saturating_add(instances(template, node)))
}

/// How many machines a node has at least.
fn instances(template: &Value, node: &Value) -> usize {
    let given = |name: &str| node.pointer(PROPERTIES)?.get(name);
    let number = |value: &Value| number(template, value);
    let wanted = NUMBERS.into_iter().find_map(|name| match given(name) {
        Some(value) => Some(number(value)),
        None => instances_of_type(template, node, name).map(number),
    });
    let wanted = wanted.unwrap_or(1);
    match given(MINIMUM) {
        Some(enough) => wanted.min(number(enough)),
        None => wanted,
    }
}

/// A number, or the default of the input that is named; zero if it is something else, since nobody knows what that comes to.
fn number(template: &Value, value: &Value) -> usize {
    let input = value.get("get_input").and_then(Value::as_str);
    let value = match input {
        Some(name) => template
            .pointer("/topology_template/inputs")
            .and_then(|inputs| inputs.get(name)?.get("default")),
        None => Some(value),
    };
    let number = value.and_then(Value::as_u64);
    number.map_or(0, |number| usize::try_from(number).unwrap_or(usize::MAX))
}
