//! Each rule of clouds accepts and rejects on a real API server, and a rejection names the field.
//!
//! As with the rules of providers, no operator here knows these kinds.

use podloom_api::InfrastructureKind::{self, Cloud, GlobalCloud};
use podloom_tests::blackbox;
use podloom_tests::rules::{
    Rule, Stored, chars, columns, defaults, field, fixed, free, on_create, optional, required,
    rule, secret, url,
};
use serde_json::{Map, Value, json};

/// Both kinds have the same rules, except for what a provider can be.
const CLOUDS: [InfrastructureKind; 2] = [Cloud, GlobalCloud];

/// An OpenStack cloud with a password.
fn openstack() -> Value {
    let user = json!({
        "username": "podloom", "projectName": "browsers", "passwordSecretRef": { "name": "os" },
    });
    cloud(
        "openstack",
        &json!({ "url": "https://os.example.com:5000/v3", "auth": { "password": user } }),
    )
}

/// An OpenStack cloud with an application credential.
fn credential() -> Value {
    let credential = json!({ "id": "c1", "secretRef": { "name": "os" } });
    let auth = json!({ "applicationCredential": credential });
    cloud(
        "openstack",
        &json!({ "url": "https://os.example.com:5000/v3", "auth": auth }),
    )
}

/// Another cloud.
fn generic() -> Value {
    cloud("generic", &json!({ "type": "Dummy" }))
}

/// A cloud of either kind: both can name a global provider.
fn cloud(field: &str, description: &Value) -> Value {
    let provider = json!({ "kind": "GlobalInfrastructureProvider", "name": "im" });
    json!({ "spec": { "providerRef": provider, (field): description } })
}

#[test]
fn a_cloud_is_openstack_or_another() {
    blackbox("rules-cloud", async |scene| {
        let other = "InfrastructureProvider";
        let global = "GlobalInfrastructureProvider";
        let other_kinds = json!([null, "", "Provider", "globalinfrastructureprovider"]);
        let rules = [
            field("spec", json!([{}]), json!([null])),
            field("spec.providerRef", json!([{}]), json!([null, "im"])),
            field("spec.providerRef.kind", json!([global]), other_kinds),
            required("spec.providerRef.name", 253),
            rule(
                "give exactly one of openstack and generic",
                json!([{}, { "spec": { "generic": null, "openstack": openstack()["spec"]["openstack"] } }]),
                json!([{ "spec": { "generic": null } }, openstack()]),
            ),
        ];
        on_create(&scene, &CLOUDS, &generic(), &rules).await;
        // A provider with a namespace would be in none.
        let kind = "spec.providerRef.kind";
        let both = [field(kind, json!([other, global]), json!(["Cloud"]))];
        on_create(&scene, &[Cloud], &generic(), &both).await;
        let one = [field(kind, json!([global]), json!([other]))];
        on_create(&scene, &[GlobalCloud], &generic(), &one).await;
    });
}

/// What is null is not given: a choice between a cloud and null is none.
#[test]
fn a_cloud_that_is_null_is_none() {
    blackbox("rules-cloud-null", async |scene| {
        let mut cloud = credential();
        cloud["spec"]["generic"] = Value::Null;
        cloud["spec"]["openstack"]["auth"]["password"] = Value::Null;
        let rules = [
            rule(
                "give exactly one of openstack and generic",
                json!([{}]),
                json!([{ "spec": { "openstack": null } }]),
            ),
            rule(
                "give exactly one of password and applicationCredential",
                json!([{}]),
                json!([{ "spec": { "openstack": { "auth": { "applicationCredential": null } } } }]),
            ),
        ];
        on_create(&scene, &CLOUDS, &cloud, &rules).await;
    });
}

#[test]
fn an_openstack_cloud_has_one_way_to_log_in() {
    blackbox("rules-openstack", async |scene| {
        let in_password = |field: &str| format!("spec.openstack.auth.password.{field}");
        let (version, no_version) = (json!([null, "2", "3"]), json!(["", "1", "v3", 3]));
        let with_auth = |auth: Value| json!({ "spec": { "openstack": { "auth": auth } } });
        let one = json!({ "id": "c1", "secretRef": { "name": "os" } });
        let rules = [
            url("spec.openstack.url"),
            optional("spec.openstack.region", 255),
            field(
                "spec.openstack.auth",
                json!([{}]),
                json!([null, "password"]),
            ),
            required(&in_password("username"), 255),
            required(&in_password("projectName"), 255),
            optional(&in_password("userDomainName"), 255),
            optional(&in_password("projectDomainId"), 255),
            field(&in_password("identityVersion"), version, no_version),
            field(
                &in_password("passwordSecretRef"),
                json!([{}]),
                json!([null, "os"]),
            ),
            rule(
                "give exactly one of password and applicationCredential",
                json!([
                    {},
                    with_auth(json!({ "password": null, "applicationCredential": one }))
                ]),
                json!([
                    with_auth(json!({ "password": null })),
                    with_auth(json!({ "applicationCredential": one })),
                ]),
            ),
        ];
        on_create(&scene, &CLOUDS, &openstack(), &rules).await;
        let secret = secret(&in_password("passwordSecretRef"));
        on_create(&scene, &CLOUDS, &openstack(), &secret).await;
    });
}

#[test]
fn an_application_credential_has_a_secret() {
    blackbox("rules-credential", async |scene| {
        let path = "spec.openstack.auth.applicationCredential";
        let reference = format!("{path}.secretRef");
        let rules = [
            required(&format!("{path}.id"), 255),
            optional(&format!("{path}.projectName"), 255),
            field(&reference, json!([{}]), json!([null, "os"])),
        ];
        on_create(&scene, &CLOUDS, &credential(), &rules).await;
        on_create(&scene, &CLOUDS, &credential(), &secret(&reference)).await;
    });
}

#[test]
fn a_cloud_has_the_usual_defaults() {
    blackbox("rules-cloud-defaults", async |scene| {
        let filled_in = [
            (
                "/spec/openstack/auth/password/userDomainName",
                json!("Default"),
            ),
            (
                "/spec/openstack/auth/password/projectDomainId",
                json!("default"),
            ),
            ("/spec/openstack/auth/password/identityVersion", json!("3")),
            (
                "/spec/openstack/auth/password/passwordSecretRef/key",
                json!("password"),
            ),
        ];
        defaults(&scene, &CLOUDS, &openstack(), &filled_in).await;
        let key = "/spec/openstack/auth/applicationCredential/secretRef/key";
        defaults(&scene, &CLOUDS, &credential(), &[(key, json!("secret"))]).await;
        let mut cloud = generic();
        cloud["spec"]["generic"]["secretParameters"] = json!({ "password": { "name": "on" } });
        let key = "/spec/generic/secretParameters/password/key";
        defaults(&scene, &CLOUDS, &cloud, &[(key, json!("value"))]).await;
    });
}

/// The rules of the names in a map, whose values are all this one.
fn names(path: &str, max: usize, value: &Value) -> Rule {
    let named = |name: &str| json!({ (name): value });
    let numbered = |count: usize| -> Value {
        let all = (0..count).map(|number| (format!("p{number}"), value.clone()));
        Value::Object(all.collect::<Map<_, _>>())
    };
    let good = ["A", "z9", "_", "_a_Z_0", "Id", "hostname", &chars(63)].map(named);
    let taken = ["id", "type", "host"].map(named).into_iter();
    let bad = ["", "9a", "a-b", "a.b", "a b", "a\n", "ä", &chars(64)].map(named);
    field(
        path,
        good.into_iter()
            .chain([json!(null), json!({}), numbered(max)])
            .collect(),
        taken.chain(bad).chain([numbered(max + 1)]).collect(),
    )
}

#[test]
fn another_cloud_has_a_type_and_parameters() {
    blackbox("rules-generic", async |scene| {
        let reference = json!({ "name": "s" });
        let rules = [
            field(
                "spec.generic.type",
                json!(["Dummy", "OpenNebula", chars(63)]),
                json!([
                    null,
                    "",
                    "InfrastructureManager",
                    "Vault",
                    "VMRC",
                    "EGIIS",
                    chars(64)
                ]),
            ),
            optional("spec.generic.host", 2048),
            names("spec.generic.parameters", 32, &json!("v")),
            names("spec.generic.secretParameters", 16, &reference),
            field(
                "spec.generic.parameters.a",
                json!(["", chars(8192)]),
                json!([1, chars(8193)]),
            ),
            field(
                "spec.generic.secretParameters.a",
                json!(reference),
                json!(["s", {}]),
            ),
            rule(
                "a name can be in parameters or in secretParameters, not in both",
                json!({ "spec": { "generic": { "parameters": { "a": "" }, "secretParameters": { "b": reference } } } }),
                json!([{ "spec": { "generic": { "parameters": { "a": "" }, "secretParameters": { "a": reference } } } }]),
            ),
        ];
        on_create(&scene, &CLOUDS, &generic(), &rules).await;
        let mut cloud = generic();
        cloud["spec"]["generic"]["secretParameters"] = json!({ "a": reference });
        on_create(
            &scene,
            &CLOUDS,
            &cloud,
            &secret("spec.generic.secretParameters.a"),
        )
        .await;
    });
}

/// Machines are found by these fields.
#[test]
fn what_identifies_machines_is_fixed() {
    blackbox("rules-cloud-fixed", async |scene| {
        let exchanged = "openstack cannot be exchanged for generic";
        let mut openstack = openstack();
        openstack["spec"]["openstack"]["auth"]["password"]["identityVersion"] = json!("2");
        let to_openstack =
            json!({ "spec": { "generic": null, "openstack": openstack["spec"]["openstack"] } });
        let to_generic = json!({ "spec": { "openstack": null, "generic": { "type": "Dummy" } } });
        for kind in CLOUDS {
            let stored = Stored::new(&scene, kind, "openstack", &openstack).await;
            stored.on_change(&openstack_is_fixed()).await;
            stored
                .on_change(&[rule(exchanged, json!([{}]), to_generic.clone())])
                .await;
            assert_eq!(
                columns(&scene, kind),
                ["NAME", "PROVIDER", "STATE", "CLUSTERS", "AGE"]
            );
            let stored = Stored::new(&scene, kind, "generic", &generic()).await;
            stored
                .on_change(&generic_is_fixed(&json!(null), &json!("h")))
                .await;
            stored
                .on_change(&[rule(exchanged, json!([{}]), to_openstack.clone())])
                .await;
            let mut hosted = generic();
            hosted["spec"]["generic"]["host"] = json!("h");
            let stored = Stored::new(&scene, kind, "hosted", &hosted).await;
            stored
                .on_change(&generic_is_fixed(&json!("h"), &json!("i")))
                .await;
            stored
                .on_change(&generic_is_fixed(&json!("h"), &json!(null)))
                .await;
        }
    });
}

fn openstack_is_fixed() -> [Rule; 5] {
    let url = "https://os.example.com:5000/v3";
    let in_password = |field: &str| format!("spec.openstack.auth.password.{field}");
    let with_openstack = |change: Value| json!({ "spec": { "openstack": change } });
    let one = json!({ "id": "c1", "secretRef": { "name": "os" } });
    [
        fixed(
            "spec.openstack.url",
            json!(url),
            json!(["https://other", format!("{url}/")]),
        ),
        fixed(
            &in_password("projectName"),
            json!("browsers"),
            json!(["other"]),
        ),
        // Without it, it would be 3.
        fixed(
            &in_password("identityVersion"),
            json!("2"),
            json!(["3", null]),
        ),
        rule(
            "password cannot be exchanged for applicationCredential",
            json!([{}]),
            with_openstack(json!({ "auth": { "password": null, "applicationCredential": one } })),
        ),
        free(json!([
            { "spec": { "providerRef": { "name": "other" } } },
            with_openstack(json!({ "region": "r" })),
            with_openstack(json!({ "auth": { "password": { "username": "other", "passwordSecretRef": { "name": "new" } } } })),
            with_openstack(json!({ "auth": { "password": { "userDomainName": "d", "projectDomainId": "e" } } })),
        ])),
    ]
}

/// The host is this one, and not that.
fn generic_is_fixed(host: &Value, other: &Value) -> [Rule; 3] {
    let with_generic = |change: Value| json!({ "spec": { "generic": change } });
    [
        fixed("spec.generic.type", json!("Dummy"), json!(["OpenNebula"])),
        fixed("spec.generic.host", host.clone(), json!([other])),
        free(json!([
            { "spec": { "providerRef": { "name": "other" } } },
            with_generic(json!({ "parameters": { "a": "v" }, "secretParameters": { "b": { "name": "s" } } })),
        ])),
    ]
}
