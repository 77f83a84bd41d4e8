use kube::core::ObjectMeta;
use podloom_api::{IdentityPolicy, PortalExposeObject, PortalExposeSpec};
use serde_json::{Value, json};

use super::{CURVE_ORDER, Identity, IdentityProblem, checksum, is_key, is_ours, secret};
use crate::naming;

const KEY: &str = "00000000000000000000000000000000000000000000000000000000000000aB";

fn identity() -> Identity {
    let text = json!({ "name": "app", "private_key": KEY, "token_secret": "t" });
    Identity::parse(text.to_string().as_bytes()).unwrap()
}

fn json_of(identity: &Identity) -> Value {
    serde_json::from_slice(&identity.to_json()).unwrap()
}

#[test]
fn a_new_identity_is_read_again() {
    let identity = Identity::generate("app").unwrap();
    assert_eq!(Identity::parse(&identity.to_json()), Ok(identity.clone()));
    let fields = json_of(&identity);
    assert_eq!(fields["name"], "app");
    assert_eq!(fields["private_key"].as_str().unwrap().len(), 64);
    // 32 bytes in base64 without padding.
    assert_eq!(fields["token_secret"].as_str().unwrap().len(), 43);
    assert_eq!(fields.as_object().unwrap().len(), 3);
}

#[test]
fn no_two_identities_are_the_same() {
    let [one, other] = [(); 2].map(|()| json_of(&Identity::generate("app").unwrap()));
    assert_ne!(one["private_key"], other["private_key"]);
    assert_ne!(one["token_secret"], other["token_secret"]);
}

#[test]
fn a_random_number_that_is_no_key_is_drawn_again() {
    let mut draws = vec![[7; 32], [1; 32], CURVE_ORDER, [0; 32]];
    let identity = Identity::from_random("app", |bytes| {
        bytes.copy_from_slice(&draws.pop().unwrap());
        Ok(())
    });
    assert_eq!(json_of(&identity.unwrap())["private_key"], "01".repeat(32));
    let failed = Identity::from_random("app", |_| Err(IdentityProblem::NoRandomness));
    assert_eq!(failed, Err(IdentityProblem::NoRandomness));
}

#[test]
fn keys_are_between_zero_and_the_curve_order() {
    let mut below = CURVE_ORDER;
    below[31] -= 1;
    assert!(is_key(&below));
    assert!(!is_key(&CURVE_ORDER));
    assert!(!is_key(&[0xff; 32]));
    assert!(!is_key(&[0; 32]));
}

#[test]
fn a_new_name_keeps_the_key() {
    let renamed = identity().named("other");
    let fields = json!({ "name": "other", "private_key": KEY.to_lowercase(), "token_secret": "t" });
    assert_eq!(json_of(&renamed), fields);
}

#[test]
fn what_users_wrote_is_kept() {
    let text = json!({ "name": " app ", "private_key": format!("0x{KEY}"), "token_secret": "t", "address": "0xAb", "more": { "x": 1 } });
    let identity = Identity::parse(text.to_string().as_bytes()).unwrap();
    let expected = json!({
        "name": "app", "private_key": KEY.to_lowercase(), "token_secret": "t", "address": "0xAb", "more": { "x": 1 },
    });
    assert_eq!(json_of(&identity), expected);
    // Writing it once more changes nothing.
    let again = Identity::parse(&identity.to_json()).unwrap();
    assert_eq!(again.to_json(), identity.to_json());
}

#[test]
fn a_missing_token_secret_is_made_from_the_key() {
    let parse = |key: &str| {
        let text = json!({ "private_key": key }).to_string();
        json_of(&Identity::parse(text.as_bytes()).unwrap())
    };
    let made = parse(KEY);
    assert_eq!(made["token_secret"].as_str().unwrap().len(), 43);
    assert_eq!(made["token_secret"], parse(KEY)["token_secret"]);
    assert_ne!(made["token_secret"], parse(&"1".repeat(64))["token_secret"]);
}

#[track_caller]
fn check_problem(text: &str, expected: IdentityProblem, message: &str) {
    let problem = Identity::parse(text.as_bytes()).unwrap_err();
    assert_eq!((problem, &*problem.to_string()), (expected, message));
}

#[test]
fn what_cannot_be_used_is_refused_without_being_quoted() {
    let no_object = "identity.json is no JSON object";
    for text in [
        "",
        "hunter2",
        "[]",
        "\"hunter2\"",
        "{\"private_key\": \"hunter2\"",
        "null",
    ] {
        check_problem(text, IdentityProblem::NoObject, no_object);
    }
    let no_text = "identity.json needs a text in the field private_key";
    for text in ["{}", r#"{"private_key":""}"#, r#"{"private_key":17}"#] {
        check_problem(text, IdentityProblem::NoText("private_key"), no_text);
    }
    check_problem(
        &json!({ "private_key": KEY, "token_secret": 1 }).to_string(),
        IdentityProblem::NoText("token_secret"),
        "identity.json needs a text in the field token_secret",
    );
    let no_key = "private_key in identity.json is no secp256k1 key, which has 64 hex digits";
    let order = naming::hex(&CURVE_ORDER);
    let keys = [
        "hunter2",
        &"0".repeat(64),
        &"f".repeat(64),
        &"1".repeat(63),
        &"1".repeat(65),
        &"ä".repeat(32),
        &order,
    ];
    for key in keys {
        let text = json!({ "private_key": key }).to_string();
        check_problem(&text, IdentityProblem::NoKey, no_key);
    }
}

#[test]
fn debug_shows_no_key_material() {
    let shown = format!(
        "{:?}",
        Identity {
            token_secret: "hunter2".to_owned(),
            ..identity()
        }
    );
    assert_eq!(shown, "Identity { name: \"app\", .. }");
}

#[test]
fn the_checksum_follows_the_bytes() {
    assert_eq!(checksum(b"x"), naming::sha256(b"x"));
}

fn expose(name: &str, policy: IdentityPolicy) -> PortalExposeObject {
    PortalExposeObject {
        types: None,
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("team".to_owned()),
            uid: Some("uid-1".to_owned()),
            ..ObjectMeta::default()
        },
        spec: PortalExposeSpec {
            identity_policy: policy,
            ..PortalExposeSpec::default()
        },
        status: None,
    }
}

#[test]
fn a_retained_secret_has_no_owner() {
    let long = format!("{}.app", "a".repeat(70));
    let secret = secret(&expose(&long, IdentityPolicy::Retain), &identity());
    assert!(is_ours(&secret.metadata, &long));
    let mut value = serde_json::to_value(&secret).unwrap();
    // echo -n '{"name":...' | base64
    let data = value["data"]["identity.json"].take();
    assert!(
        data.as_str().unwrap().starts_with("eyJuYW1lIjoiYXBwIiwi"),
        "{data}"
    );
    insta::assert_yaml_snapshot!(value);
}

#[test]
fn a_secret_to_delete_is_garbage_collected() {
    let secret = secret(&expose("app", IdentityPolicy::Delete), &identity());
    let owners = serde_json::to_value(secret.metadata.owner_references).unwrap();
    let owner = json!({ "apiVersion": "portal.gosuda.org/v1alpha1", "kind": "PortalExpose", "name": "app", "uid": "uid-1" });
    assert_eq!(owners, json!([owner]));
}

#[test]
fn a_secret_is_ours_by_labels_and_annotation() {
    let long = |end: &str| format!("{}{end}", "a".repeat(80));
    let ours = |name: &str| secret(&expose(name, IdentityPolicy::Retain), &identity()).metadata;
    assert!(is_ours(&ours("app"), "app"));
    assert!(!is_ours(&ours("app"), "other"));
    assert!(!is_ours(&ours(&long("x")), &long("y")));
    // A user who makes it in advance may leave the annotation out, but not the labels.
    let made = ObjectMeta {
        annotations: None,
        ..ours("app")
    };
    assert!(is_ours(&made, "app"));
    assert!(!is_ours(
        &ObjectMeta {
            labels: None,
            ..ours("app")
        },
        "app"
    ));
    let mut labels = naming::labels("app");
    labels.remove("app.kubernetes.io/managed-by");
    assert!(!is_ours(
        &ObjectMeta {
            labels: Some(labels),
            ..ours("app")
        },
        "app"
    ));
}
