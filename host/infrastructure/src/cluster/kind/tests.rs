//! What passes ask of the API server and of IM, and what they make of the answers.

mod server;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use self::server::{Fault, Fixture, ID};
use crate::fixtures::KUBECONFIG;
use crate::im::InfrastructureId;

fn fixture() -> Fixture {
    Fixture::new(&json!({}))
}

/// The kubeconfig in the Secret.
fn stored(fixture: &Fixture) -> String {
    let state = fixture.state();
    let value = state.secrets["a-kubeconfig"]["data"]["kubeconfig"].as_str();
    let bytes = STANDARD.decode(value.unwrap()).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn infrastructures(fixture: &Fixture) -> usize {
    fixture.state().infrastructures.len()
}

#[tokio::test]
async fn a_new_cluster_is_created_once_and_ends_connecting() {
    let fixture = fixture();
    fixture.pass().await.unwrap();
    assert_eq!(fixture.asked.all(), ["create"]);
    assert_eq!(fixture.status()["clusterId"], ID);
    assert_eq!(fixture.status()["state"], "CREATING");
    fixture.until("CONNECTING").await;
    assert_eq!(fixture.asked("create"), 1);
    assert_eq!(stored(&fixture), KUBECONFIG);
    assert_eq!(fixture.reason("Connected"), "ProbeDisabled");
}

/// The finalizer and the record are there before IM is asked for anything.
#[tokio::test]
async fn a_change_is_recorded_before_it_is_sent() {
    let fixture = fixture();
    fixture.pass().await.unwrap();
    let state = fixture.state();
    assert_eq!(state.recorded["kind"], "Create");
    assert!(state.recorded["lastCallAt"].is_string());
    assert_eq!(state.recorded["attempts"], 1);
    let finalizers = &state.cluster["metadata"]["finalizers"];
    assert_eq!(
        *finalizers,
        json!(["infrastructure.podloom.dev/infrastructure-resources"])
    );
}

#[tokio::test]
async fn nothing_is_sent_if_somebody_else_wrote_the_cluster_first() {
    let fixture = fixture();
    // The first status says PENDING, the second is the record.
    fixture.state().faults = vec![Some(Fault::Conflict), None];
    assert!(fixture.pass().await.is_err());
    assert_eq!(fixture.asked.all(), [""; 0]);
}

/// The answer with the id came, and the status could not be written.
#[tokio::test]
async fn an_id_that_could_not_be_written_is_written_by_the_next_pass() {
    let fixture = fixture();
    fixture.state().faults = vec![Some(Fault::Conflict), None, None];
    assert!(fixture.pass().await.is_err());
    assert_eq!(fixture.status()["clusterId"], Value::Null);
    fixture.pass().await.unwrap();
    assert_eq!(fixture.status()["clusterId"], ID);
    assert_eq!(fixture.asked("create"), 1);
    assert_eq!(fixture.asked("list"), 0);
}

/// The same, and the process ends before it can try again.
#[tokio::test]
async fn an_id_that_nobody_remembers_is_looked_up() {
    for fault in [Fault::Conflict, Fault::Lost] {
        let fixture = fixture();
        fixture.state().faults = vec![Some(fault), None, None];
        assert!(fixture.pass().await.is_err());
        fixture.restart();
        fixture.until("CONNECTING").await;
        assert_eq!(fixture.asked("create"), 1);
        assert_eq!(fixture.status()["clusterId"], ID);
        assert_eq!(infrastructures(&fixture), 1);
    }
}

/// The record was written, and nobody knows whether the request was sent: it was not.
#[tokio::test]
async fn a_recorded_create_that_was_never_sent_is_sent_after_a_search() {
    let fixture = fixture();
    fixture.state().faults = vec![Some(Fault::Lost), None];
    assert!(fixture.pass().await.is_err());
    assert_eq!(fixture.asked.all(), [""; 0]);
    fixture.restart();
    for _ in 0..3 {
        fixture.pass().await.unwrap();
    }
    assert_eq!(
        fixture.asked("list"),
        4,
        "twice, each with the previous password too"
    );
    assert_eq!(fixture.asked("create"), 1);
}

/// The password in the Secret was corrected before anybody looked what became of the request, and the provider names another previous
/// one.
#[tokio::test]
async fn a_create_without_an_answer_is_looked_up_as_who_sent_it() {
    let fixture = fixture();
    fixture.state().loses_ids = true;
    fixture.pass().await.unwrap();
    assert_eq!(infrastructures(&fixture), 1);
    let password = STANDARD.encode("corrected");
    fixture.state().secrets.get_mut("account").unwrap()["data"]["password"] = json!(password);
    for _ in 0..8 {
        fixture.later();
        fixture.pass().await.unwrap();
    }
    assert_eq!(fixture.asked("create"), 1, "{:?}", fixture.asked.all());
    assert_eq!(fixture.status()["clusterId"], ID);
    // The account of now owns it too.
    assert_eq!(fixture.asked("add_owner"), 1);
    assert_eq!(fixture.status()["state"], "CONNECTING");
    assert!(!fixture.status().to_string().contains("corrected"));
}

#[tokio::test]
async fn a_wiped_status_creates_nothing() {
    let fixture = fixture();
    fixture.pass().await.unwrap();
    fixture.state().cluster["status"] = Value::Null;
    fixture.restart();
    fixture.until("CONNECTING").await;
    assert_eq!(fixture.asked("create"), 1);
    assert_eq!(infrastructures(&fixture), 1);
}

#[tokio::test]
async fn a_missing_secret_is_named_and_nothing_is_recorded() {
    let fixture = fixture();
    fixture.state().secrets.remove("cloud");
    fixture.pass().await.unwrap();
    assert_eq!(fixture.reason("Scheduled"), "SecretNotFound");
    assert_eq!(fixture.status()["state"], "FAILED");
    assert_eq!(fixture.status()["operation"], Value::Null);
    assert_eq!(fixture.asked.all(), [""; 0]);
}

#[tokio::test]
async fn an_edited_secret_is_restored() {
    let fixture = fixture();
    fixture.until("CONNECTING").await;
    let edited = json!({ "kubeconfig": STANDARD.encode("another") });
    fixture.state().secrets.get_mut("a-kubeconfig").unwrap()["data"] = edited;
    fixture.restart();
    // The name, the state, and the output.
    for _ in 0..3 {
        fixture.pass().await.unwrap();
    }
    assert_eq!(stored(&fixture), KUBECONFIG);
}

/// Somebody removed the finalizer by hand and garbage collection the Secret, and the cache still shows the Cluster.
#[tokio::test]
async fn no_secret_is_made_for_a_cluster_that_is_gone() {
    let fixture = fixture();
    fixture.until("CONNECTING").await;
    assert!(fixture.state().secrets.remove("a-kubeconfig").is_some());
    fixture.state().is_cluster_gone = true;
    fixture.restart();
    for _ in 0..3 {
        fixture.pass().await.unwrap();
    }
    assert!(!fixture.state().secrets.contains_key("a-kubeconfig"));
}

#[tokio::test]
async fn a_foreign_secret_is_a_conflict_and_left_alone() {
    let fixture = fixture();
    let theirs = json!({ "metadata": { "name": "a-kubeconfig", "uid": "theirs", "resourceVersion": "1" }, "data": {} });
    let secrets = |fixture: &Fixture| fixture.state().secrets["a-kubeconfig"].clone();
    fixture
        .state()
        .secrets
        .insert("a-kubeconfig".to_owned(), theirs.clone());
    fixture.until("FAILED").await;
    assert_eq!(fixture.reason("Stalled"), "SecretConflict");
    assert_eq!(secrets(&fixture), theirs);
}

/// The API server says no, which is no reason to wait for the machines.
#[tokio::test]
async fn a_rejected_secret_has_a_reason_of_its_own() {
    let fixture = fixture();
    fixture.state().rejects_secrets = true;
    fixture.until("CONNECTING").await;
    assert_eq!(fixture.reason("KubeconfigReady"), "SecretRejected");
    let status = fixture.status().to_string();
    assert!(
        status.contains("Secret a-kubeconfig cannot be written"),
        "{status}"
    );
    fixture.state().rejects_secrets = false;
    fixture.until("CONNECTING").await;
    assert_eq!(stored(&fixture), KUBECONFIG);
}

/// What is in a kubeconfig is in no status, however wrong it is.
#[tokio::test]
async fn an_unsafe_kubeconfig_is_not_stored_nor_shown() {
    let fixture = fixture();
    let with_program = KUBECONFIG.replace(
        "token: not-a-secret",
        "exec: { command: very-private, apiVersion: client.authentication.k8s.io/v1 }",
    );
    fixture.state().outputs = json!(with_program);
    fixture.until("FAILED").await;
    assert_eq!(fixture.reason("Stalled"), "KubeconfigUnsafe");
    assert!(!fixture.status().to_string().contains("very-private"));
    assert!(!fixture.state().secrets.contains_key("a-kubeconfig"));
}

#[tokio::test]
async fn a_deleted_cluster_leaves_nothing() {
    let fixture = fixture();
    fixture.until("CONNECTING").await;
    fixture.state().cluster["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    fixture.pass().await.unwrap();
    assert_eq!(fixture.status()["state"], "DELETING");
    assert_eq!(infrastructures(&fixture), 0);
    // No state was read since.
    assert_eq!(fixture.asked.all().last(), Some(&"delete"));
    fixture.restart();
    fixture.until_released().await;
}

/// IM can write the record of what it has deleted back, while it builds something else.
#[tokio::test]
async fn what_im_brings_back_is_deleted_again() {
    let fixture = fixture();
    fixture.until("CONNECTING").await;
    fixture.state().comes_back = true;
    fixture.state().cluster["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    fixture.until_released().await;
    assert_eq!(infrastructures(&fixture), 0);
    assert!(fixture.asked("delete") > 1, "{:?}", fixture.asked.all());
}

/// The account with the old password lets the one with the new password own the infrastructure.
#[tokio::test]
async fn a_changed_password_takes_the_infrastructure_along() {
    let fixture = fixture();
    fixture.pass().await.unwrap();
    let id = InfrastructureId::parse(ID).unwrap();
    let owner = |fixture: &Fixture| fixture.state().infrastructures[&id].0.clone();
    fixture.state().infrastructures.get_mut(&id).unwrap().0 = "old".to_owned();
    fixture.restart();
    fixture.pass().await.unwrap();
    fixture.pass().await.unwrap();
    assert_eq!(owner(&fixture), "new");
    assert_eq!(fixture.asked("add_owner"), 1);
    fixture.until("CONNECTING").await;
    assert!(!fixture.status().to_string().contains("secret-token"));
}
