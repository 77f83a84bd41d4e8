use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use podloom_api::{InfrastructureKind as Kind, SelenosisApi, SelenosisKind, infrastructure_crd};
use serde_json::{Value, json};

use super::document::{Step, name};
use super::{About, PLACES, Rules, complete};

fn schema(definition: CustomResourceDefinition) -> Value {
    let definition = serde_json::to_value(definition).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// All rules in a schema, and in those inside of it.
fn rules(schema: &Value) -> Vec<&Value> {
    let here = schema["x-kubernetes-validations"].as_array();
    let inside: Vec<&Value> = match schema {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    let inside = inside.into_iter().flat_map(rules);
    here.into_iter().flatten().chain(inside).collect()
}

/// What the rules say about an object, and about the change of one.
struct Definition {
    schema: Value,
    rules: Rules,
    changes: Rules,
}

impl Definition {
    fn of(definition: CustomResourceDefinition) -> Self {
        let schema = schema(definition);
        Self {
            rules: Rules::of(&schema, About::Object).unwrap(),
            changes: Rules::of(&schema, About::Change).unwrap(),
            schema,
        }
    }

    fn broken(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let new = complete(&self.schema, new.clone());
        let mut found = self.rules.evaluate(&[&new]);
        if let Some(old) = old {
            let old = complete(&self.schema, old.clone());
            found.extend(self.changes.evaluate(&[&new, &old]));
        }
        assert_eq!(found.failures, []);
        let text = |(path, message): &(Vec<Step>, String)| format!("{}: {message}", name(path));
        found.rules.iter().map(text).collect()
    }
}

/// An object, what is stored, and the fields at which rules are broken.
type Case<'a> = (Value, Option<Value>, &'a [&'a str]);

/// Good objects break no rule. Each case breaks rules at these fields; and each rule is broken by a case.
#[track_caller]
fn each_is_broken(definition: CustomResourceDefinition, good: &[Value], cases: &[Case<'_>]) {
    let definition = Definition::of(definition);
    for good in good {
        assert_eq!(definition.broken(good, Some(good)), [""; 0], "{good}");
    }
    let mut all = Vec::new();
    for (new, old, expected) in cases {
        let found = definition.broken(new, old.as_ref());
        let fields = found.iter().map(|it| it.split(": ").next().unwrap());
        assert_eq!(fields.collect::<Vec<_>>(), *expected, "{found:?}");
        all.extend(found);
    }
    for rule in rules(&definition.schema) {
        let message = rule["message"].as_str().unwrap();
        let is_broken = all.iter().any(|text| text.ends_with(message));
        assert!(is_broken, "{message}");
        // These are all that is read of a rule.
        for key in rule.as_object().unwrap().keys() {
            assert!(
                ["rule", "message", "fieldPath"].contains(&key.as_str()),
                "{key}"
            );
        }
    }
}

fn changed(base: &Value, changes: &Value) -> Value {
    let mut object = base.clone();
    json_patch::merge(&mut object, changes);
    object
}

#[test]
fn of_clusters() {
    let base = json!({ "metadata": { "name": "a" }, "spec": {
        "cloudRef": { "kind": "Cloud", "name": "dummy" }, "tosca": {},
    } });
    let with = |spec: Value| changed(&base, &json!({ "spec": spec }));
    let secret = json!({ "name": "s" });
    let registered = json!({ "spec": { "kubeconfigSecretRef": secret } });
    let registered = changed(&json!({ "metadata": { "name": "a" } }), &registered);
    let id = "00000000-0000-0000-0000-000000000000";
    let status = json!({ "status": { "runningOn": { "kind": "Cloud", "name": "dummy" } } });
    let running = changed(&base, &status);
    let moved = with(json!({ "cloudRef": { "name": "other" } }));
    // What is null is not given.
    let mut null = base.clone();
    null["spec"]["kubeconfigSecretRef"] = Value::Null;
    let long = changed(&base, &json!({ "metadata": { "name": "n".repeat(64) } }));
    each_is_broken(
        infrastructure_crd(Kind::Cluster),
        &[base.clone(), registered.clone(), null],
        &[
            (long, None, &[""]),
            (moved.clone(), Some(base.clone()), &[]),
            (moved, Some(running), &["spec.cloudRef"]),
            (
                with(json!({ "tosca": null, "cloudRef": null })),
                None,
                &["spec"],
            ),
            (registered, Some(base.clone()), &["spec"]),
            (
                with(json!({ "tosca": null, "kubeconfigSecretRef": secret })),
                None,
                &["spec.cloudRef"],
            ),
            (
                with(json!({ "tosca": null, "adoptInfrastructureId": id })),
                None,
                &["spec", "spec.cloudRef", "spec.adoptInfrastructureId"],
            ),
            (
                with(json!({ "adoptInfrastructureId": id })),
                Some(base.clone()),
                &["spec.adoptInfrastructureId"],
            ),
            (
                with(json!({ "kubeconfigSecretName": "s" })),
                Some(base.clone()),
                &["spec.kubeconfigSecretName"],
            ),
        ],
    );
}

#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn of_clouds() {
    let of = |spec: &Value| json!({ "metadata": { "name": "a" }, "spec": spec });
    let provider = json!({ "kind": "InfrastructureProvider", "name": "im" });
    let secret = json!({ "name": "s" });
    let dummy = of(&json!({ "providerRef": provider, "generic": { "type": "Dummy" } }));
    let generic = |changes: Value| changed(&dummy, &json!({ "spec": { "generic": changes } }));
    let account =
        json!({ "username": "u", "passwordSecretRef": { "name": "s" }, "projectName": "p" });
    let plain = json!({ "url": "https://a.example", "auth": { "password": account } });
    let plain = of(&json!({ "providerRef": provider, "openstack": plain }));
    let openstack = |changes: Value| changed(&plain, &json!({ "spec": { "openstack": changes } }));
    let password = |changes: Value| openstack(json!({ "auth": { "password": changes } }));
    let credential = json!({ "id": "x", "secretRef": { "name": "s" } });
    let exchanged = json!({ "auth": { "password": null, "applicationCredential": credential } });
    let parameters = |plain: Value, secrets: Value| {
        generic(json!({ "parameters": plain, "secretParameters": secrets }))
    };
    let fields = "spec.generic.parameters";
    let secrets = "spec.generic.secretParameters";
    let auth = "spec.openstack.auth";
    let cases: &[Case<'_>] = &[
        (of(&json!({ "providerRef": provider })), None, &["spec"]),
        (dummy.clone(), Some(plain.clone()), &["spec"]),
        (
            openstack(json!({ "url": "https://b.example" })),
            Some(plain.clone()),
            &["spec.openstack.url"],
        ),
        (
            openstack(json!({ "auth": { "password": null } })),
            None,
            &[auth],
        ),
        (openstack(exchanged), Some(plain.clone()), &[auth]),
        (
            password(json!({ "projectName": "q" })),
            Some(plain.clone()),
            &["spec.openstack.auth.password.projectName"],
        ),
        (
            password(json!({ "identityVersion": "2" })),
            Some(plain.clone()),
            &["spec.openstack.auth.password.identityVersion"],
        ),
        // It is the default.
        (
            password(json!({ "identityVersion": "3" })),
            Some(plain.clone()),
            &[],
        ),
        (
            generic(json!({ "type": "Vault" })),
            None,
            &["spec.generic.type"],
        ),
        (
            generic(json!({ "type": "Other" })),
            Some(dummy.clone()),
            &["spec.generic.type"],
        ),
        (
            generic(json!({ "host": "h" })),
            Some(dummy.clone()),
            &["spec.generic.host"],
        ),
        (
            parameters(json!({ "a": "b" }), json!({ "a": secret })),
            None,
            &[secrets],
        ),
        (parameters(json!({ "1a": "b" }), json!({})), None, &[fields]),
        (parameters(json!({ "é": "b" }), json!({})), None, &[fields]),
        (
            parameters(json!({ "n".repeat(64): "b" }), json!({})),
            None,
            &[fields],
        ),
        (parameters(json!({ "id": "b" }), json!({})), None, &[fields]),
        (
            parameters(json!({}), json!({ "": secret })),
            None,
            &[secrets],
        ),
        (
            parameters(json!({}), json!({ "host": secret })),
            None,
            &[secrets],
        ),
    ];
    for kind in [Kind::Cloud, Kind::GlobalCloud] {
        each_is_broken(
            infrastructure_crd(kind),
            &[dummy.clone(), plain.clone()],
            cases,
        );
    }
}

#[test]
fn of_providers() {
    let basic = json!({ "username": "us", "passwordSecretRef": { "name": "s" } });
    let base = json!({ "spec": { "im": { "url": "https://im.example.com", "basic": basic } } });
    let of = |changes: Value| changed(&base, &json!({ "spec": { "im": changes } }));
    let token = json!({ "name": "token" });
    let cases: &[Case<'_>] = &[
        (of(json!({ "tokenSecretRef": token })), None, &["spec.im"]),
        (
            of(json!({ "basic": null, "tokenSecretRef": token })),
            Some(base.clone()),
            &["spec.im"],
        ),
        (
            of(json!({ "basic": { "username": "them" } })),
            Some(base.clone()),
            &["spec.im.basic.username"],
        ),
    ];
    for kind in [
        Kind::InfrastructureProvider,
        Kind::GlobalInfrastructureProvider,
    ] {
        each_is_broken(infrastructure_crd(kind), std::slice::from_ref(&base), cases);
    }
}

#[test]
fn of_browsers_and_configurations() {
    let selenosis = |kind| podloom_api::crd(SelenosisApi::default(), kind);
    let base = json!({ "spec": { "browserName": "chrome", "browserVersion": "1" } });
    let other = json!({ "spec": { "browserName": "firefox", "browserVersion": "2" } });
    each_is_broken(
        selenosis(SelenosisKind::Browser),
        std::slice::from_ref(&base),
        &[(
            other,
            Some(base.clone()),
            &["spec.browserName", "spec.browserVersion"],
        )],
    );
    let of = |browsers: Value, env: Value| json!({ "spec": { "browsers": browsers, "sessionOptions": { "env": env } } });
    let warm = |pool: Value| {
        let browsers = json!({ "chrome": { "1": {} } });
        json!({ "spec": { "browsers": browsers, "warm": { "chrome": { "1": pool } } } })
    };
    let (name, long) = ("n".repeat(253), "n".repeat(254));
    each_is_broken(
        selenosis(SelenosisKind::BrowserConfig),
        &[
            of(json!({ &name: { &name: {} } }), json!({ &name: [] })),
            warm(json!({ "min": 2, "max": 2 })),
        ],
        &[
            (warm(json!({ "min": 3, "max": 2 })), None, &["spec.warm"]),
            (
                of(json!({ &long: { "1": {} } }), json!({})),
                None,
                &["spec.browsers"],
            ),
            (
                of(json!({ "chrome": { &long: {} } }), json!({ &long: [] })),
                None,
                &["spec.browsers", "spec.sessionOptions.env"],
            ),
        ],
    );
}

#[test]
fn of_tunnels() {
    let of = |targets: Value| json!({ "spec": { "relay": { "targets": targets } } });
    let targets = |name: &str, url: &str| {
        let first = json!({ "name": "a", "url": "wss://a.example" });
        of(json!([first, { "name": name, "url": url }]))
    };
    each_is_broken(
        podloom_api::portal_expose_crd(),
        &[targets("b", "wss://b.example")],
        &[
            (
                targets("a", "wss://b.example"),
                None,
                &["spec.relay.targets"],
            ),
            (
                targets("b", "wss://a.example"),
                None,
                &["spec.relay.targets"],
            ),
        ],
    );
    each_is_broken(podloom_api::tunnel_class_crd(), &[], &[]);
}

#[test]
fn of_cleaners() {
    let target = |changes: Value| {
        let base = json!({ "name": "pods", "delete": true, "reference": { "version": "v1", "kind": "Pod" } });
        json!({ "spec": { "targets": [{ "name": "other", "reference": { "version": "v1", "kind": "Pod", "name": "a" } }, changed(&base, &changes)] } })
    };
    let reference = |changes: Value| target(json!({ "reference": changes }));
    let at = "spec.targets[1].reference";
    let selector = |operator: &str, values: Value| {
        let one = json!({ "key": "a", "operator": operator, "values": values });
        reference(json!({ "labelSelector": { "matchExpressions": [one] } }))
    };
    let expression = &[&*format!("{at}.labelSelector.matchExpressions[0]")];
    each_is_broken(
        podloom_api::cleaner_crd(),
        &[
            reference(json!({ "name": "a" })),
            reference(json!({ "matchLabels": { "a": "b" } })),
            selector("In", json!(["a"])),
            selector("Exists", json!([])),
            // It is not deleted, which is the default.
            target(json!({ "delete": null, "reference": { "matchLabels": {} } })),
        ],
        &[
            (reference(json!({ "matchLabels": {} })), None, &[at]),
            (
                reference(json!({ "name": "a", "matchLabels": {} })),
                None,
                &[at],
            ),
            (
                reference(json!({ "name": "a", "apiVersion": "v1" })),
                None,
                &[at],
            ),
            (
                reference(
                    json!({ "name": "a", "version": null, "apiGroup": "apps", "apiVersion": "v1" }),
                ),
                None,
                &[at],
            ),
            (selector("In", json!([])), None, expression),
            (selector("Exists", json!(["a"])), None, expression),
            (
                target(json!({ "name": "while", "reference": { "name": "a" } })),
                None,
                &["spec.targets[1].name"],
            ),
        ],
    );
}

/// An object may have any shape: then its schema refuses it, and rules say nothing that is wrong.
#[test]
fn what_cannot_be_evaluated_is_no_broken_rule() {
    let schema = schema(infrastructure_crd(Kind::Cloud));
    let rules = Rules::of(&schema, About::Object).unwrap();
    for spec in [
        json!(7),
        json!([]),
        json!({ "generic": [], "openstack": null }),
        json!({ "generic": { "type": "Dummy", "parameters": 7 } }),
    ] {
        let object = complete(&schema, json!({ "spec": spec }));
        assert_eq!(rules.evaluate(&[&object]).rules, [], "{object}");
    }
    let deep = (0..200).fold(json!(1), |inside, _| json!([inside]));
    let failed = rules.evaluate(&[&json!({ "spec": { "generic": deep } })]);
    assert_eq!((failed.rules.len(), failed.failures.len()), (0, 2));
}

/// The schema refuses it, and a file has room for a million of them.
#[test]
fn rules_are_evaluated_at_a_bounded_number_of_places() {
    let cleaners = Definition::of(podloom_api::cleaner_crd());
    let target = json!({ "name": "a", "reference": {} });
    let cleaner = json!({ "spec": { "ttl": "1h", "targets": vec![target; 20_000] } });
    let found = cleaners.rules.evaluate(&[&cleaner]);
    assert!((PLACES..PLACES + 10).contains(&found.places));
}
