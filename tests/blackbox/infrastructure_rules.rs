//! Each rule of providers accepts and rejects on a real API server, and a rejection names the field.
//!
//! These tests are on the cluster whose operator does not know the infrastructure kinds: it leaves alone what is global, and so in
//! no namespace of a test.

use podloom_api::InfrastructureKind::{self, GlobalInfrastructureProvider, InfrastructureProvider};
use podloom_tests::blackbox;
use podloom_tests::rules::{
    Rule, Stored, chars, columns, defaults, field, fixed, free, on_create, required, rule, secret,
    url,
};
use serde_json::{Value, json};

/// Both kinds have the same rules.
const PROVIDERS: [InfrastructureKind; 2] = [InfrastructureProvider, GlobalInfrastructureProvider];

/// A provider with a password.
fn basic() -> Value {
    let account = json!({ "username": "podloom", "passwordSecretRef": { "name": "im" } });
    json!({ "spec": { "im": { "url": "https://im.example.com:8800", "basic": account } } })
}

/// A provider whose password is being changed.
fn changing() -> Value {
    let mut provider = basic();
    provider["spec"]["im"]["basic"]["previousPasswordSecretRef"] = json!({ "name": "old" });
    provider
}

/// A provider with a token.
fn token() -> Value {
    let token = json!({ "name": "im" });
    json!({ "spec": { "im": { "url": "https://im.example.com:8800", "tokenSecretRef": token } } })
}

/// A change of a provider: this is its account, and no other.
fn account(field: &str, account: &Value) -> Value {
    let mut im = json!({ "basic": null, "tokenSecretRef": null });
    im[field] = account.clone();
    json!({ "spec": { "im": im } })
}

/// A field that is true or false.
fn switch(path: &str) -> Rule {
    field(path, json!([null, true, false]), json!(["true", 1]))
}

#[test]
fn a_provider_is_a_url_and_an_account() {
    blackbox("rules-provider", async |scene| {
        let rules = [
            field("spec", json!([{}]), json!([null])),
            field("spec.im", json!([{}]), json!([null, "im"])),
            url("spec.im.url"),
            required("spec.im.basic.username", 255),
            field(
                "spec.im.basic.passwordSecretRef",
                json!([{}]),
                json!([null, "im"]),
            ),
            field(
                "spec.im.caBundle",
                json!([null, "", chars(65_536)]),
                json!([1, chars(65_537)]),
            ),
            switch("spec.im.insecureSkipTlsVerify"),
            switch("spec.im.allowFileReferences"),
            rule(
                "give exactly one of basic and tokenSecretRef",
                json!([{}, account("tokenSecretRef", &json!({ "name": "im" }))]),
                json!([
                    { "spec": { "im": { "basic": null } } },
                    { "spec": { "im": { "tokenSecretRef": { "name": "im" } } } },
                ]),
            ),
        ];
        on_create(&scene, &PROVIDERS, &basic(), &rules).await;
        on_create(
            &scene,
            &PROVIDERS,
            &basic(),
            &secret("spec.im.basic.passwordSecretRef"),
        )
        .await;
        let previous = secret("spec.im.basic.previousPasswordSecretRef");
        on_create(&scene, &PROVIDERS, &changing(), &previous).await;
        on_create(
            &scene,
            &PROVIDERS,
            &token(),
            &secret("spec.im.tokenSecretRef"),
        )
        .await;
    });
}

#[test]
fn a_provider_has_the_usual_defaults() {
    blackbox("rules-provider-defaults", async |scene| {
        let password = "/spec/im/basic/passwordSecretRef/key";
        let previous = "/spec/im/basic/previousPasswordSecretRef/key";
        let filled_in = [
            (password, json!("password")),
            (previous, json!("password")),
            ("/spec/im/insecureSkipTlsVerify", json!(false)),
            ("/spec/im/allowFileReferences", json!(false)),
        ];
        defaults(&scene, &PROVIDERS, &changing(), &filled_in).await;
        let key = [("/spec/im/tokenSecretRef/key", json!("token"))];
        defaults(&scene, &PROVIDERS, &token(), &key).await;
    });
}

/// What is null is not given: a choice between an account and null is none.
#[test]
fn an_account_that_is_null_is_none() {
    blackbox("rules-provider-null", async |scene| {
        let mut provider = token();
        provider["spec"]["im"]["basic"] = Value::Null;
        let rules = [rule(
            "give exactly one of basic and tokenSecretRef",
            json!([{}]),
            json!([{ "spec": { "im": { "tokenSecretRef": null } } }]),
        )];
        on_create(&scene, &PROVIDERS, &provider, &rules).await;
    });
}

/// Infrastructures belong to the account. Everything else can be changed, its password too.
#[test]
fn the_account_of_a_provider_is_fixed() {
    blackbox("rules-account", async |scene| {
        let exchanged = "basic cannot be exchanged for tokenSecretRef";
        let with_token = account("tokenSecretRef", &json!({ "name": "im" }));
        let with_password = account("basic", &basic()["spec"]["im"]["basic"]);
        for kind in PROVIDERS {
            let stored = Stored::new(&scene, kind, "basic", &basic()).await;
            let rules = [
                fixed(
                    "spec.im.basic.username",
                    json!("podloom"),
                    json!(["other", "Podloom"]),
                ),
                rule(exchanged, json!([{}]), with_token.clone()),
                free(json!([
                    { "spec": { "im": { "url": "http://other", "caBundle": "", "insecureSkipTlsVerify": true } } },
                    { "spec": { "im": { "basic": { "passwordSecretRef": { "name": "new", "key": "k" } } } } },
                    { "spec": { "im": { "basic": { "previousPasswordSecretRef": { "name": "old" } } } } },
                ])),
            ];
            stored.on_change(&rules).await;
            assert_eq!(
                columns(&scene, kind),
                ["NAME", "URL", "VERSION", "READY", "AGE"]
            );
            let stored = Stored::new(&scene, kind, "token", &token()).await;
            let other = json!({ "spec": { "im": { "tokenSecretRef": { "name": "new" } } } });
            stored
                .on_change(&[rule(exchanged, other, with_password.clone())])
                .await;
        }
    });
}
