mod confirm;

use std::collections::BTreeSet;

use kube::core::ObjectMeta;
use podloom_api::ClusterObject;
use podloom_engine::kind::Source;
use podloom_engine::readable::Readable;
use serde_json::{Value, json};

use super::{Need, Release, Step, Users, is_held, needs};
use crate::resolve::{Key, is_guarded};

const IN_USE: &str = "infrastructure.podloom.dev/in-use";
const ENDING: &str = "infrastructure.podloom.dev/in-use-ending";
const OURS: &str = "infrastructure.podloom.dev/infrastructure-resources";

fn object(metadata: Value) -> ObjectMeta {
    serde_json::from_value(metadata).unwrap()
}

fn users(needs: Option<Need>) -> Users {
    Users {
        clusters: needs.iter().count().try_into().unwrap(),
        needs,
    }
}

/// The step for a Cloud or a provider.
fn step(object: &ObjectMeta, users: &Users, from: Source) -> Step {
    super::step(object, users, from, Release::InTwoSteps)
}

/// The finalizers that are written.
fn written(step: Step) -> Vec<String> {
    let Step::Write(patch) = step else {
        unreachable!("{step:?}")
    };
    patch.finalizers.unwrap()
}

#[test]
fn an_object_that_a_cluster_wants_gets_the_finalizer_beside_those_of_others() {
    let object = object(json!({ "finalizers": ["example.com/theirs"] }));
    let step = step(&object, &users(Some(Need::Wants)), Source::Cache);
    assert_eq!(written(step), ["example.com/theirs", IN_USE]);
}

#[test]
fn a_finalizer_is_not_removed_because_of_a_cache() {
    let object = object(json!({ "finalizers": [IN_USE, "example.com/theirs"] }));
    assert_eq!(step(&object, &users(None), Source::Cache), Step::Confirm);
    let at_once = super::step(&object, &users(None), Source::Live, Release::AtOnce);
    assert_eq!(written(at_once), ["example.com/theirs"]);
}

/// A Cluster may have come, and seen the finalizer, after the users were read. So they are read again while it does not see it.
#[test]
fn a_finalizer_on_which_clusters_rely_ends_in_two_steps() {
    let used = object(json!({ "finalizers": [IN_USE, "example.com/theirs"] }));
    let first = step(&used, &users(None), Source::Live);
    assert_eq!(written(first), ["example.com/theirs", ENDING]);
    let ending = object(json!({ "finalizers": ["example.com/theirs", ENDING] }));
    assert!(!is_guarded(&ending), "no Cluster relies on it");
    assert!(is_held(&ending));
    assert_eq!(step(&ending, &users(None), Source::Cache), Step::Confirm);
    let last = step(&ending, &users(None), Source::Live);
    assert_eq!(written(last), ["example.com/theirs"]);
    for need in [Need::Wants, Need::Has] {
        let kept = step(&ending, &users(Some(need)), Source::Live);
        assert_eq!(written(kept), ["example.com/theirs", IN_USE]);
    }
}

#[test]
fn an_object_that_is_deleted_while_its_finalizer_ends_stays_for_infrastructures() {
    let going =
        object(json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [ENDING] }));
    assert_eq!(
        step(&going, &users(Some(Need::Has)), Source::Live),
        Step::Rest
    );
    let gone = step(&going, &users(None), Source::Live);
    assert!(written(gone).is_empty());
}

#[test]
fn an_object_that_nobody_needs_is_left_alone() {
    let object = object(json!({}));
    assert_eq!(step(&object, &users(None), Source::Cache), Step::Rest);
}

#[test]
fn an_object_that_is_being_deleted_stays_for_infrastructures_and_not_for_wishes() {
    let going =
        object(json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [IN_USE] }));
    assert_eq!(
        step(&going, &users(Some(Need::Has)), Source::Live),
        Step::Rest
    );
    assert_eq!(
        step(&going, &users(Some(Need::Wants)), Source::Cache),
        Step::Confirm
    );
    let step = step(&going, &users(Some(Need::Wants)), Source::Live);
    assert!(written(step).is_empty());
}

#[test]
fn an_object_that_is_being_deleted_gets_no_finalizer() {
    let going = object(
        json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/theirs"] }),
    );
    assert_eq!(
        step(&going, &users(Some(Need::Has)), Source::Live),
        Step::Rest
    );
}

/// A Cluster in the namespace `team`, with these changes.
fn cluster(changes: &Value) -> Value {
    let mut cluster = json!({
        "metadata": { "name": "a", "namespace": "team", "uid": "a" },
        "spec": {
            "tosca": { "topology_template": { "outputs": { "kubeconfig": {} } } },
            "cloudRef": { "kind": "Cloud", "name": "wanted" },
        },
    });
    json_patch::merge(&mut cluster, changes);
    cluster
}

#[track_caller]
fn check(changes: &Value, expected: &[(&str, Need)]) {
    let cluster: ClusterObject = serde_json::from_value(cluster(changes)).unwrap();
    let needed = needs(&cluster);
    let needed: Vec<(&str, Need)> = needed
        .iter()
        .map(|(key, need)| (key.name.as_str(), *need))
        .collect();
    assert_eq!(needed, expected);
}

#[test]
fn a_cluster_wants_its_cloud_until_it_may_have_something_there() {
    check(&json!({}), &[("wanted", Need::Wants)]);
    check(
        &json!({ "metadata": { "finalizers": [OURS] } }),
        &[("wanted", Need::Has)],
    );
}

#[test]
fn a_cluster_has_what_it_runs_on_and_wants_what_it_is_to_move_to() {
    let moving = json!({ "status": {
        "runningOn": { "kind": "Cloud", "name": "old" }, "scheduledTo": { "kind": "Cloud", "name": "wanted" },
    } });
    check(&moving, &[("old", Need::Has), ("wanted", Need::Wants)]);
}

#[test]
fn a_cluster_that_is_being_deleted_wants_nothing() {
    let mut going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    check(&going, &[]);
    // A create request may be on its way to where it was scheduled to.
    going["metadata"]["finalizers"] = json!([OURS]);
    going["status"] = json!({ "scheduledTo": { "kind": "Cloud", "name": "scheduled" } });
    check(&going, &[("scheduled", Need::Has)]);
}

#[test]
fn a_registered_cluster_needs_no_cloud() {
    let registered = json!({ "spec": { "tosca": null, "cloudRef": null, "kubeconfigSecretRef": { "name": "a" } } });
    check(&registered, &[]);
}

fn cached(cluster: &Value) -> Readable<ClusterObject> {
    serde_json::from_value(cluster.clone()).unwrap()
}

fn key(namespace: Option<&str>, name: &str) -> Key {
    Key {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}

#[test]
fn each_cluster_counts_once() {
    let clusters = [
        cached(&cluster(&json!({}))),
        cached(&cluster(&json!({ "metadata": { "finalizers": [OURS] } }))),
        cached(&cluster(
            &json!({ "spec": { "cloudRef": { "name": "other" } } }),
        )),
    ];
    let clouds = BTreeSet::from([key(Some("team"), "wanted")]);
    let users = Users::among(&clusters, &clouds);
    assert_eq!((users.clusters, users.needs), (2, Some(Need::Has)));
}

#[test]
fn a_cloud_of_the_same_name_elsewhere_is_another_one() {
    let clusters = [cached(&cluster(&json!({})))];
    for other in [key(Some("others"), "wanted"), key(None, "wanted")] {
        let users = Users::among(&clusters, &BTreeSet::from([other]));
        assert_eq!(users, Users::default());
    }
}

#[test]
fn an_unreadable_cluster_with_an_infrastructure_needs_whatever_it_can_name() {
    let mut unreadable = cluster(&json!({ "metadata": { "finalizers": [OURS] } }));
    unreadable["spec"]["paused"] = json!("perhaps");
    let unreadable = [cached(&unreadable)];
    assert!(unreadable[0].0.is_err());
    let needs = |key| Users::among(&unreadable, &BTreeSet::from([key])).needs;
    assert_eq!(needs(key(Some("team"), "any")), Some(Need::Has));
    assert_eq!(needs(key(None, "any")), Some(Need::Has));
    assert_eq!(needs(key(Some("others"), "any")), None);
}
