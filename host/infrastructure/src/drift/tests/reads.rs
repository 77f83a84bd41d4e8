use podloom_scripted::scripted;
use serde_json::{Value, json};

use crate::drift::{Claimed, Outside, made_for};
use crate::fixtures::{Asked, caches, cloud, cluster, known, manager, provider, secret};
use crate::im::{Answer, Call, FailureKind, InfrastructureId};
use crate::resolve::{Key, Tenant};
use crate::secrets::Secrets;

const TEAM: Option<&str> = Some("team");
const OURS: &str = "7c1d1b1e-2a55-11ef-9a52-0242ac110002";
const OTHER: &str = "8c1d1b1e-2a55-11ef-9a52-0242ac110002";

/// A Cluster with an infrastructure, with these changes.
fn running(changes: &Value) -> Value {
    let mut cluster = cluster(&json!({ "status": {
        "clusterId": OURS, "runningOn": { "kind": "Cloud", "name": "dummy" },
        "operation": { "kind": "Create", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z" },
    } }));
    json_patch::merge(&mut cluster, changes);
    cluster
}

fn outside(
    clusters: &[Value],
    answer: impl Fn(&Call) -> Result<Answer, FailureKind> + Send + Sync + 'static,
) -> (Outside, Asked) {
    let caches = caches(
        &[cloud(TEAM, "InfrastructureProvider")],
        &[
            provider(TEAM, "https://im.example.com"),
            provider(None, "https://im.example.com"),
        ],
    );
    let (client, _) = scripted(|request, _| {
        let name = request.rsplit('/').next().unwrap_or_default();
        (
            200,
            secret("team", name, &[("password", "p"), ("value", "v")]),
        )
    });
    let (im, asked) = manager(move |_, call| answer(call));
    let outside = Outside {
        known: known(clusters, caches),
        secrets: Secrets::new(client),
        im,
    };
    (outside, asked)
}

fn team() -> Tenant {
    Tenant::Namespace("team".to_owned())
}

#[tokio::test]
async fn clusters_that_are_deleted_paused_or_at_work_are_left_alone() {
    let found = |changes: Value| {
        let (outside, _) = outside(&[running(&changes)], |_| Err(FailureKind::Unreachable));
        let tenants = outside.tenants_of_clusters();
        let claims = outside.claims(&team());
        assert_eq!(tenants.len(), claims.len());
        claims.into_values().flatten().count()
    };
    assert_eq!(found(json!({})), 1);
    let left_alone = [
        json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
        json!({ "spec": { "paused": true } }),
        json!({ "status": { "operation": { "finishedAt": null } } }),
        json!({ "status": { "clusterId": null } }),
    ];
    for changes in left_alone {
        assert_eq!(found(changes.clone()), 0, "{changes}");
    }
}

/// One that hangs must not keep the others' from being known.
#[tokio::test]
async fn what_clusters_have_is_known_without_asking_anybody() {
    let (outside, asked) = outside(&[running(&json!({}))], |_| Err(FailureKind::Unreachable));
    assert_eq!(outside.tenants_of_clusters(), [team()].into());
    assert!(asked.all().is_empty());
}

#[tokio::test]
async fn what_clusters_at_work_have_counts_as_theirs() {
    let working = running(&json!({ "status": { "operation": { "finishedAt": null } } }));
    let (outside, _) = outside(&[working], |_| Err(FailureKind::Unreachable));
    assert!(outside.tenants_of_clusters().is_empty());
    assert_eq!(outside.ids(), [OURS.to_owned()].into());
    assert_eq!(outside.uids(), ["uid-of-a".to_owned()].into());
}

#[tokio::test]
async fn each_provider_has_an_account_of_its_tenant() {
    let (outside, _) = outside(&[], |_| Err(FailureKind::Unreachable));
    let accounts = outside.accounts();
    let of = |tenant: &Tenant| accounts[tenant].len();
    assert_eq!(of(&team()), 1);
    assert_eq!(of(&Tenant::Global("im".to_owned())), 1);
}

fn claimed(id: &str) -> Claimed {
    Claimed {
        cluster: Key {
            namespace: Some("team".to_owned()),
            name: "a".to_owned(),
        },
        uid: "uid-of-a".to_owned(),
        id: InfrastructureId::parse(id).unwrap(),
    }
}

#[tokio::test]
async fn an_infrastructure_that_is_gone_is_seen_and_silence_is_not() {
    let state = async |answer: FailureKind| {
        let (outside, _) = outside(&[running(&json!({}))], move |_| Err(answer));
        outside.state(&claimed(OURS)).await
    };
    for kind in [
        FailureKind::NotFound,
        FailureKind::Unreachable,
        FailureKind::Limited,
    ] {
        assert_eq!(state(kind).await, Some(Err(kind)));
    }
}

#[tokio::test]
async fn a_state_is_not_read_for_a_cluster_that_has_another_infrastructure_now() {
    let (outside, asked) = outside(&[running(&json!({}))], |_| Err(FailureKind::NotFound));
    assert_eq!(outside.state(&claimed(OTHER)).await, None);
    assert!(asked.all().is_empty());
}

#[track_caller]
fn check_name(name: &str, expected: Option<&str>) {
    let text = format!(
        "tosca_definitions_version: tosca_simple_yaml_1_0\nmetadata:\n  infra_name: {name}\n"
    );
    assert_eq!(made_for(&text).as_deref(), expected, "{name}");
}

/// Nothing else of what an Infrastructure Manager writes there is kept, however long it is.
#[test]
fn only_the_uid_of_a_cluster_is_read_from_a_name() {
    check_name(&format!("podloom-{OURS}"), Some(OURS));
    check_name(&format!("podloom-{OURS}0"), None);
    check_name(&format!("podloom-{}", "A".repeat(1 << 20)), None);
    check_name("podloom-1", None);
    check_name("theirs", None);
    assert_eq!(made_for(&format!("podloom-{OURS}")), None);
}

#[tokio::test]
async fn a_name_that_is_not_there_yet_is_no_silence() {
    let name = async |answer: Result<Answer, FailureKind>| {
        let answer = std::sync::Mutex::new(Some(answer));
        let (outside, _) = outside(&[], move |_| answer.lock().unwrap().take().unwrap());
        let (_, im) = outside
            .accounts()
            .remove(&team())
            .unwrap()
            .into_iter()
            .next()
            .unwrap();
        let owner = outside.owner(&im).await.unwrap();
        outside
            .name(&owner, &InfrastructureId::parse(OTHER).unwrap())
            .await
    };
    let template = format!("metadata: {{ infra_name: podloom-{OURS} }}");
    let named = name(Ok(Answer::Template(template))).await;
    assert_eq!(named, Ok(Some(OURS.to_owned())));
    for kind in [
        FailureKind::NoTemplate,
        FailureKind::NotFound,
        FailureKind::Limited,
    ] {
        assert_eq!(name(Err(kind)).await, Err(kind));
    }
}
