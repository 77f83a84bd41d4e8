use std::sync::Arc;

use crate::cluster::plan::tests::setting::Case;
use crate::cluster::world::{Edit, edit};

/// The nodes that are sent, and those that are removed by it.
#[track_caller]
fn check(case: &Case, expected: &[&str], removed: &[&str]) {
    let Edit::Send { sent, retired } = edit(&case.world) else {
        unreachable!("{:?}", edit(&case.world))
    };
    let nodes = &sent["topology_template"]["node_templates"];
    let nodes: Vec<_> = nodes.as_object().unwrap().keys().collect();
    assert_eq!(nodes, expected);
    assert_eq!(retired, removed);
}

#[test]
fn an_unknown_template_is_sent_as_a_whole() {
    let case = Case::read("cluster: { status: { lastAppliedTosca: null } }");
    check(&case, &["control_plane", "worker_0"], &[]);
}

/// An update was lost that added a node, and then the node is taken back: it may be there.
#[test]
fn what_only_a_lost_request_had_is_removed() {
    let mut case = Case::read("{}");
    let mut lost = case
        .world
        .wanted
        .as_ref()
        .unwrap()
        .template
        .as_ref()
        .clone();
    lost["topology_template"]["node_templates"]["worker_1"] =
        serde_json::json!({ "type": "tosca.nodes.Compute" });
    case.world.known.unsure = Some(Arc::new(lost));
    check(
        &case,
        &["control_plane", "worker_0", "worker_1"],
        &["worker_1"],
    );
}

#[test]
fn the_same_template_is_sent_again_after_a_lost_request() {
    let case = Case::read("known: { unsure: true }");
    check(&case, &["control_plane", "worker_0"], &[]);
}
