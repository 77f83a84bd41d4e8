use podloom_api::CloudRef;
use serde_json::{Value, json};

use super::{Backend, Caches, SecretKey, SecretUse, Trouble, resolve};
use crate::fixtures::{caches, cloud, provider};

fn find(kind: &str, caches: &Caches) -> Result<Backend, Trouble> {
    let reference: CloudRef =
        serde_json::from_value(json!({ "kind": kind, "name": "dummy" })).unwrap();
    resolve("team", &reference, caches)
}

const TEAM: Option<&str> = Some("team");
const NAMED: &str = "https://team.example.com";
const GLOBAL: &str = "https://global.example.com";

#[track_caller]
fn check_url(kind: &str, caches: &Caches, expected: &str) {
    assert_eq!(find(kind, caches).unwrap().im.written_url, expected);
}

#[test]
fn the_kind_in_a_reference_is_the_only_selector() {
    let providers = [provider(TEAM, NAMED), provider(None, GLOBAL)];
    let to_global = caches(&[cloud(TEAM, "GlobalInfrastructureProvider")], &providers);
    check_url("Cloud", &to_global, GLOBAL);
    let to_named = caches(&[cloud(TEAM, "InfrastructureProvider")], &providers);
    check_url("Cloud", &to_named, NAMED);
    let global = caches(&[cloud(None, "GlobalInfrastructureProvider")], &providers);
    check_url("GlobalCloud", &global, GLOBAL);
}

#[track_caller]
fn check_missing(kind: &str, caches: &Caches, reason: &str, message: &str) {
    let missing = find(kind, caches).unwrap_err();
    assert_eq!(missing.reason, reason, "{}", missing.message);
    assert!(missing.message.contains(message), "{}", missing.message);
}

#[test]
fn what_is_missing_is_named() {
    let none = caches(&[], &[]);
    check_missing(
        "Cloud",
        &none,
        "CloudNotFound",
        "Cloud dummy does not exist in namespace team",
    );
    check_missing(
        "GlobalCloud",
        &none,
        "CloudNotFound",
        "GlobalCloud dummy does not exist;",
    );
    let elsewhere = caches(&[cloud(Some("others"), "InfrastructureProvider")], &[]);
    check_missing(
        "Cloud",
        &elsewhere,
        "CloudNotFound",
        "does not exist in namespace team",
    );
    let alone = caches(
        &[cloud(TEAM, "InfrastructureProvider")],
        &[provider(None, GLOBAL)],
    );
    check_missing(
        "Cloud",
        &alone,
        "ProviderNotFound",
        "InfrastructureProvider im does not exist in namespace team",
    );
}

#[test]
fn a_global_cloud_cannot_name_a_provider_of_a_namespace() {
    let caches = caches(
        &[cloud(None, "InfrastructureProvider")],
        &[provider(TEAM, NAMED), provider(None, GLOBAL)],
    );
    check_missing(
        "GlobalCloud",
        &caches,
        "ProviderNotFound",
        "only a GlobalInfrastructureProvider",
    );
}

#[test]
fn what_our_types_cannot_hold_is_no_other_objects_fault() {
    let mut broken = cloud(TEAM, "InfrastructureProvider");
    broken["spec"]["providerRef"] = json!(7);
    let caches = caches(&[broken], &[provider(TEAM, NAMED)]);
    check_missing("Cloud", &caches, "CloudNotFound", "does not fit its schema");
}

#[test]
fn a_url_that_cannot_be_used_is_the_providers_fault() {
    let caches = caches(
        &[cloud(TEAM, "InfrastructureProvider")],
        &[provider(TEAM, "https://im.example.com:99999")],
    );
    check_missing(
        "Cloud",
        &caches,
        "ProviderNotFound",
        "spec.im.url of InfrastructureProvider im",
    );
}

fn secret(namespace: &str, name: &str, key: &str) -> SecretUse {
    SecretUse {
        secret: SecretKey {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        },
        key: key.to_owned(),
    }
}

#[test]
fn secrets_are_in_the_namespace_of_the_object_that_names_them() {
    let providers = [provider(None, GLOBAL)];
    let mixed = caches(&[cloud(TEAM, "GlobalInfrastructureProvider")], &providers);
    let backend = find("Cloud", &mixed).unwrap();
    let expected = [
        secret("podloom-system", "account", "password"),
        secret("team", "cloud", "value"),
    ];
    assert_eq!(backend.secrets, expected);
    assert_eq!(
        backend.im.previous,
        Some(secret("podloom-system", "account", "old"))
    );
}

#[test]
fn what_is_being_deleted_or_unguarded_is_said() {
    let both = |cloud: Value, provider: Value| {
        let backend = find("Cloud", &caches(&[cloud], &[provider])).unwrap();
        (backend.going, backend.is_guarded)
    };
    let (cloud, provider) = (cloud(TEAM, "InfrastructureProvider"), provider(TEAM, NAMED));
    assert_eq!(both(cloud.clone(), provider.clone()), (None, true));
    let mut going = provider.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(
        both(cloud.clone(), going),
        (Some("InfrastructureProvider im".to_owned()), true)
    );
    let mut unguarded = cloud;
    unguarded["metadata"]["finalizers"] = json!([]);
    assert_eq!(both(unguarded, provider), (None, false));
}
