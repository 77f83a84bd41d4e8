use serde_json::{Value, json};

use super::super::machines;
use super::{pool, with};

#[track_caller]
fn check(nodes: Value, expected: usize) {
    let mut template = pool(1);
    template["topology_template"]["node_templates"] = nodes;
    assert_eq!(machines(&template), expected, "{template}");
}

/// A machine with these numbers.
fn machine(numbers: &Value) -> Value {
    json!({ "a": { "type": "tosca.nodes.Compute", "capabilities": { "scalable": { "properties": numbers } } } })
}

#[test]
fn machines_are_counted_as_im_counts_them() {
    assert_eq!(machines(&pool(3)), 4);
    check(json!({}), 0);
    check(json!({ "a": { "type": "tosca.nodes.Compute" } }), 1);
    check(
        json!({ "a": { "type": "example.Pool" }, "b": { "type": "example.Machine" } }),
        2,
    );
    check(machine(&json!({})), 1);
    check(machine(&json!({ "count": 0 })), 0);
    check(machine(&json!({ "count": 4, "default_instances": 2 })), 4);
    check(machine(&json!({ "default_instances": 2 })), 2);
    check(
        machine(&json!({ "min_instances": 3, "max_instances": 3, "default_instances": 3 })),
        3,
    );
}

/// Whoever says how few are enough does not want the others back.
#[test]
fn the_minimum_is_enough() {
    check(
        machine(&json!({ "count": 5, "min_instances": 1, "max_instances": 9 })),
        1,
    );
    check(machine(&json!({ "min_instances": 2 })), 2);
}

#[test]
fn an_input_is_read() {
    check(machine(&json!({ "count": { "get_input": "size" } })), 1);
    let grown = with("/topology_template/inputs/size/default", Some(json!(7)));
    let mut grown = grown;
    grown["topology_template"]["node_templates"] =
        machine(&json!({ "count": { "get_input": "size" } }));
    assert_eq!(machines(&grown), 7);
}

#[test]
fn a_type_brings_its_number_along() {
    let template = json!({
        "capability_types": { "example.Scalable": {
            "derived_from": "tosca.capabilities.Scalable",
            "properties": { "count": { "type": "integer", "default": 2 } },
        } },
        "node_types": { "example.Pair": {
            "derived_from": "tosca.nodes.Compute",
            "capabilities": { "scalable": { "type": "example.Scalable" } },
        } },
        "topology_template": { "node_templates": { "a": { "type": "example.Pair" } } },
    });
    assert_eq!(machines(&template), 2);
}

/// Nobody knows how many machines these have, so none of them can be missing.
#[test]
fn what_cannot_be_counted_counts_nothing() {
    for count in [
        json!({ "get_input": "unknown" }),
        json!({ "get_property": ["b", "size"] }),
        json!("3"),
        json!(-1),
        json!(1.5),
        json!(null),
    ] {
        check(machine(&json!({ "count": count })), 0);
    }
    check(json!({ "a": { "type": "example.of.another.file" } }), 0);
    check(json!({ "a": "no node" }), 0);
    check(json!(7), 0);
    assert_eq!(machines(&json!(null)), 0);
}

/// Its software turns machines on and off.
#[test]
fn an_elastic_cluster_has_no_number() {
    let mut nodes = machine(&json!({ "count": 3 }));
    nodes["elastic"] = json!({ "type": "tosca.nodes.ec3.ElasticCluster" });
    check(nodes, 0);
}
