use podloom_api::ClusterObject;
use serde_json::{Value, json};

use super::Claims;
use crate::fixtures::{caches, cloud, known, provider};
use crate::im::InfrastructureId;

const ID: &str = "22222222-2222-4222-8222-222222222222";
/// The server of the namespaces `team` and `neighbours`, and of the cluster-scoped provider.
const URL: &str = "https://im.example.com";
/// The server of the namespace `attackers`, which answers with any id.
const THEIRS: &str = "https://attacker.example.com";

/// A Cluster of the namespace `team` on the Cloud there.
fn cluster(name: &str, created: u32, changes: &Value) -> Value {
    let mut cluster = json!({
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": name,
            "creationTimestamp": format!("2026-01-01T00:00:{created:02}Z"),
        },
        "spec": { "tosca": {}, "cloudRef": { "kind": "Cloud", "name": "dummy" } },
    });
    json_patch::merge(&mut cluster, changes);
    cluster
}

fn has() -> Value {
    has_from(URL)
}

fn has_from(url: &str) -> Value {
    json!({ "status": { "clusterId": ID, "providerUrl": url } })
}

fn wants() -> Value {
    json!({ "spec": { "adoptInfrastructureId": ID } })
}

/// The same in another namespace.
fn of(namespace: &str, mut cluster: Value) -> Value {
    cluster["metadata"]["namespace"] = json!(namespace);
    cluster
}

/// The same on a GlobalCloud.
fn on_global(mut cluster: Value) -> Value {
    cluster["spec"]["cloudRef"]["kind"] = json!("GlobalCloud");
    cluster
}

fn claims(clusters: &[Value]) -> Claims {
    let own = "InfrastructureProvider";
    let caches = caches(
        &[
            cloud(Some("team"), own),
            cloud(Some("neighbours"), own),
            cloud(Some("attackers"), own),
            cloud(None, "GlobalInfrastructureProvider"),
        ],
        &[
            provider(Some("team"), URL),
            provider(Some("neighbours"), &format!("{URL}/")),
            provider(Some("attackers"), THEIRS),
            provider(None, URL),
        ],
    );
    Claims(known(clusters, caches))
}

fn id() -> InfrastructureId {
    InfrastructureId::parse(ID).unwrap()
}

fn rival(ours: &Value, theirs: &Value) -> Option<String> {
    let claims = claims(&[ours.clone(), theirs.clone()]);
    let ours: ClusterObject = serde_json::from_value(ours.clone()).unwrap();
    claims.rival(&id(), &ours)
}

/// Who the first Cluster's infrastructure belongs to.
#[track_caller]
fn check(ours: &Value, theirs: &Value, expected: Option<&str>) {
    let expected = expected.map(|name| format!("Cluster {name}"));
    assert_eq!(rival(ours, theirs), expected);
}

const NAMELESS: Option<&str> = Some("a Cluster of another namespace");

#[test]
fn whoever_has_it_comes_before_whoever_wants_it() {
    check(
        &cluster("new", 9, &wants()),
        &cluster("old", 1, &has()),
        Some("old"),
    );
    check(
        &cluster("new", 9, &has()),
        &cluster("old", 1, &wants()),
        None,
    );
}

#[test]
fn of_two_that_want_it_the_older_one_gets_it() {
    check(
        &cluster("new", 9, &wants()),
        &cluster("old", 1, &wants()),
        Some("old"),
    );
    check(
        &cluster("old", 1, &wants()),
        &cluster("new", 9, &wants()),
        None,
    );
}

#[test]
fn of_two_that_have_it_the_older_one_keeps_it() {
    check(
        &cluster("new", 9, &has()),
        &cluster("old", 1, &has()),
        Some("old"),
    );
    check(&cluster("old", 1, &has()), &cluster("new", 9, &has()), None);
}

/// What somebody wants who has another infrastructure, or is being deleted, does not count.
#[test]
fn a_wish_that_is_over_does_not_count() {
    let mut other = wants();
    other["status"] = json!({ "clusterId": "33333333-3333-4333-8333-333333333333" });
    check(
        &cluster("new", 9, &wants()),
        &cluster("old", 1, &other),
        None,
    );
    let mut deleted = wants();
    deleted["metadata"] = json!({ "deletionTimestamp": "2026-01-01T00:01:00Z" });
    check(
        &cluster("new", 9, &wants()),
        &cluster("old", 1, &deleted),
        None,
    );
}

#[test]
fn a_cluster_of_another_namespace_is_not_named() {
    let theirs = on_global(of("attackers", cluster("old", 1, &has())));
    let ours = on_global(cluster("new", 9, &wants()));
    assert_eq!(rival(&ours, &theirs).as_deref(), NAMELESS);
}

/// Its own server answered with the id of somebody else's infrastructure.
#[test]
fn an_id_from_another_server_stops_nobody() {
    let theirs = of("attackers", cluster("old", 1, &has_from(THEIRS)));
    assert_eq!(rival(&cluster("new", 9, &has()), &theirs), None);
    assert_eq!(rival(&cluster("new", 9, &wants()), &theirs), None);
}

/// The same, and then its Cloud names the provider of the others.
#[test]
fn an_id_that_was_brought_along_comes_after_one_from_the_account_itself() {
    let theirs = on_global(of("attackers", cluster("old", 1, &has_from(THEIRS))));
    let ours = on_global(cluster("new", 9, &has()));
    assert_eq!(rival(&ours, &theirs), None);
    assert_eq!(rival(&theirs, &ours).as_deref(), NAMELESS);
}

/// Nobody can write a provider that has the account of another namespace, but one with the same URL.
#[test]
fn who_has_one_does_not_yield_to_another_account_and_who_has_none_does() {
    let theirs = of(
        "neighbours",
        cluster("old", 1, &has_from(&format!("{URL}/"))),
    );
    assert_eq!(rival(&cluster("new", 9, &has()), &theirs), None);
    assert_eq!(
        rival(&cluster("new", 9, &wants()), &theirs).as_deref(),
        NAMELESS
    );
    // A wish is cheap.
    let theirs = of("neighbours", cluster("old", 1, &wants()));
    assert_eq!(rival(&cluster("new", 9, &wants()), &theirs), None);
}

#[test]
fn a_provider_that_moved_takes_its_clusters_along() {
    let (old, new) = (
        cluster("old", 1, &has_from("https://before.example.com")),
        cluster("new", 9, &wants()),
    );
    check(&new, &old, Some("old"));
    check(&old, &new, None);
}

#[test]
fn a_search_skips_what_others_have_in_the_account() {
    let ours: ClusterObject = serde_json::from_value(cluster("new", 9, &json!({}))).unwrap();
    let is_skipped = |theirs: Value| claims(&[theirs]).is_anothers(&id(), &ours);
    assert!(is_skipped(cluster("old", 1, &has())));
    assert!(is_skipped(of("neighbours", cluster("old", 1, &has()))));
    assert!(!is_skipped(of(
        "attackers",
        cluster("old", 1, &has_from(THEIRS))
    )));
    assert!(!is_skipped(cluster("old", 1, &wants())));
}
