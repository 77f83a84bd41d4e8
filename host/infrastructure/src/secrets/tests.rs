mod lately;

use podloom_api::CloudRef;
use podloom_scripted::{Requests, scripted, status};
use serde_json::{Value, json};

use super::{Secrets, TargetError, VALUE_MAX};
use crate::fixtures::{caches, cloud, provider, secret};
use crate::im::{Owner, Target};
use crate::resolve::{Backend, resolve};

const TEAM: Option<&str> = Some("team");

/// What the Cloud `dummy` with these changes leads to.
fn backend(cloud_changes: &Value, provider_changes: &Value) -> Backend {
    let mut cloud = cloud(TEAM, "InfrastructureProvider");
    let mut provider = provider(TEAM, "https://im.example.com");
    json_patch::merge(&mut cloud, cloud_changes);
    json_patch::merge(&mut provider, provider_changes);
    let reference = json!({ "kind": "Cloud", "name": "dummy" });
    let reference: CloudRef = serde_json::from_value(reference).unwrap();
    resolve("team", &reference, &caches(&[cloud], &[provider])).unwrap()
}

/// A reader of these Secrets, and its requests.
fn reader(secrets: Vec<Value>) -> (Secrets, Requests) {
    let (client, requests) = scripted(move |request, _| {
        let name = request.rsplit('/').next().unwrap_or_default();
        let found = secrets.iter().find(|it| it["metadata"]["name"] == name);
        match found {
            Some(secret) => (200, secret.clone()),
            None => (404, status(404, "NotFound", "there is none")),
        }
    });
    (Secrets::new(client), requests)
}

fn both() -> Vec<Value> {
    let account = [("password", "new\n"), ("old", "before")];
    vec![
        secret("team", "account", &account),
        secret("team", "cloud", &[("value", "hunter2\n\n")]),
    ]
}

async fn target(secrets: Vec<Value>) -> Result<Target, TargetError> {
    let (reader, _) = reader(secrets);
    reader.target(&backend(&json!({}), &json!({}))).await
}

fn password(target: &Target) -> &str {
    let Owner::Basic { username, password } = &target.owner else {
        unreachable!()
    };
    assert_eq!(username, "us");
    password.reveal()
}

#[tokio::test]
async fn one_newline_at_the_end_of_a_value_is_dropped() {
    let target = target(both()).await.unwrap();
    assert_eq!(password(&target), "new");
    let login = target.cloud.unwrap();
    assert_eq!(
        (login.name.as_str(), login.kind.as_str()),
        ("dummy", "Dummy")
    );
    assert_eq!(login.secrets["token"].reveal(), "hunter2\n");
    assert_eq!(target.tenant, "team");
}

#[tokio::test]
async fn each_secret_is_read_once_and_by_its_name() {
    let (reader, requests) = reader(both());
    let changes = json!({ "spec": { "generic": { "secretParameters": {
        "token": { "name": "account" }, "other": { "name": "account", "key": "old" },
    } } } });
    // The provider names the same Secret.
    let mut backend = backend(&changes, &json!({}));
    backend.secrets.iter_mut().for_each(|it| {
        if it.key == "value" {
            it.key = "old".to_owned();
        }
    });
    let _ = reader.target(&backend).await;
    assert_eq!(
        requests.made(),
        ["GET /api/v1/namespaces/team/secrets/account"]
    );
}

#[tokio::test]
async fn a_secret_with_an_impossible_name_is_not_asked_for() {
    for name in ["account?x", "account#x", "../account", "no name"] {
        let (reader, requests) = reader(both());
        let reference = json!({ "passwordSecretRef": { "name": name } });
        let changes = json!({ "spec": { "im": { "basic": reference } } });
        let read = reader.owner(&backend(&json!({}), &changes).im).await;
        let Err(TargetError::Missing(missing)) = read else {
            unreachable!("{name}: {read:?}")
        };
        let expected = format!("Secret {name} in namespace team cannot exist: its name ");
        assert!(missing.message.starts_with(&expected), "{missing:?}");
        assert_eq!(requests.made(), [""; 0]);
    }
}

#[track_caller]
fn check_missing(result: Result<Target, TargetError>, expected: &str) {
    let Err(TargetError::Missing(missing)) = result else {
        unreachable!("{result:?}")
    };
    assert_eq!(missing.reason, "SecretNotFound");
    assert_eq!(missing.message, expected);
}

#[tokio::test]
async fn what_is_missing_is_named_and_no_value_is_shown() {
    let with = |value: &str| {
        vec![
            both().remove(0),
            secret("team", "cloud", &[("value", value)]),
        ]
    };
    check_missing(
        target(vec![both().remove(0)]).await,
        "Secret cloud in namespace team does not exist; create it with the key value",
    );
    check_missing(
        target(vec![
            both().remove(0),
            secret("team", "cloud", &[("valeu", "hunter2")]),
        ])
        .await,
        "Secret cloud in namespace team has no key value",
    );
    for empty in ["", "\n"] {
        check_missing(
            target(with(empty)).await,
            "the value of the key value of Secret cloud in namespace team is empty",
        );
    }
    check_missing(
        target(with(&"x".repeat(VALUE_MAX + 1))).await,
        "the value of the key value of Secret cloud in namespace team is larger than 65536 bytes",
    );
}

#[tokio::test]
async fn a_bundle_that_is_none_is_named() {
    let (reader, _) = reader(both());
    let changes = json!({ "spec": { "im": { "caBundle": "hunter2" } } });
    let Err(TargetError::Missing(missing)) = reader.target(&backend(&json!({}), &changes)).await
    else {
        unreachable!()
    };
    assert!(
        missing
            .message
            .starts_with("InfrastructureProvider im: spec.im.caBundle has no certificate"),
        "{}",
        missing.message
    );
    assert!(!missing.message.contains("hunter2"), "{}", missing.message);
}

#[tokio::test]
async fn the_previous_password_makes_another_owner() {
    let (reader, _) = reader(both());
    let previous = reader
        .previous(&backend(&json!({}), &json!({})))
        .await
        .unwrap();
    assert_eq!(password(&previous.unwrap()), "before");
    let none = json!({ "spec": { "im": { "basic": { "previousPasswordSecretRef": null } } } });
    let previous = reader.previous(&backend(&json!({}), &none)).await.unwrap();
    assert!(previous.is_none());
}

#[tokio::test]
async fn the_owner_alone_needs_no_secret_of_a_cloud() {
    let (reader, _) = reader(vec![both().remove(0)]);
    let backend = backend(&json!({}), &json!({}));
    let target = reader.owner(&backend.im).await.unwrap();
    assert!(target.cloud.is_none());
}

#[tokio::test]
async fn openstack_is_logged_in_to_with_a_password_or_an_application_credential() {
    let login = async |auth: Value| {
        let changes = json!({ "spec": { "generic": null, "openstack": {
            "url": "https://keystone.example.com:5000", "region": "r1", "auth": auth,
        } } });
        let secrets = vec![
            both().remove(0),
            secret("team", "os", &[("password", "p"), ("secret", "s")]),
        ];
        let (reader, _) = reader(secrets);
        let target = reader.target(&backend(&changes, &json!({}))).await.unwrap();
        target.cloud.unwrap()
    };
    let version = async |version: &str| {
        login(json!({ "password": {
            "username": "u", "passwordSecretRef": { "name": "os" }, "projectName": "p1", "identityVersion": version,
        } }))
        .await
    };
    assert_eq!(
        version("2").await.parameters["auth_version"],
        "2.0_password"
    );
    let password = version("3").await;
    insta::assert_json_snapshot!(password.parameters, @r#"
    {
      "auth_version": "3.x_password",
      "domain": "Default",
      "service_region": "r1",
      "tenant": "p1",
      "tenant_domain_id": "default",
      "username": "u"
    }
    "#);
    assert_eq!(password.secrets["password"].reveal(), "p");
    let credential =
        json!({ "applicationCredential": { "id": "i", "secretRef": { "name": "os" } } });
    let credential = login(credential).await;
    insta::assert_json_snapshot!(credential.parameters, @r#"
    {
      "auth_version": "3.x_appcred",
      "service_region": "r1",
      "tenant": "none",
      "username": "i"
    }
    "#);
    assert_eq!(credential.secrets["password"].reveal(), "s");
    assert_eq!(
        credential.host.as_deref(),
        Some("https://keystone.example.com:5000")
    );
}
