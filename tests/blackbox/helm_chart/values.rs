//! Each value arrives where it belongs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Chart, RELEASE, rows};

/// The objects of the release of the guide.
struct Rendered(Vec<Value>);

impl Rendered {
    #[track_caller]
    fn new(chart: &Chart, values: &Value) -> Self {
        Self(chart.template(RELEASE, values).unwrap())
    }

    /// An object of this kind, whatever its namespace.
    fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        let mut objects = self.0.iter();
        objects.find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
    }

    #[track_caller]
    fn get(&self, kind: &str, name: &str) -> &Value {
        self.find(kind, name).unwrap()
    }

    fn kinds(&self) -> BTreeSet<&str> {
        let kinds = self.0.iter().map(|object| object["kind"].as_str());
        kinds.flatten().collect()
    }
}

#[test]
fn values_of_pods_arrive_in_them() {
    let Some(chart) = Chart::new() else { return };
    for row in rows(include_str!("pods.yaml")) {
        let (values, field) = (&row["values"], row["field"].as_str().unwrap());
        let rendered = Rendered::new(&chart, values);
        let pod = &rendered.get("Deployment", "podloom")["spec"]["template"];
        let found = pod.pointer(field).unwrap_or(&Value::Null);
        assert_eq!(*found, row["expected"], "{values}: {field}");
    }
}

#[test]
fn variables_of_a_duty_are_added() {
    let Some(chart) = Chart::new() else { return };
    let variable = |name: &str| json!({ "name": name, "value": "x" });
    let duty = |name: &str| json!({ "enabled": true, "env": [variable(name)], "args": [format!("--{name}")] });
    for together in [false, true] {
        let values = json!({ "portal": duty("p"), "cleaner": duty("c"), "together": { "enabled": together } });
        let rendered = Rendered::new(&chart, &values);
        let has = |deployment: &str, name: &str| {
            let container = &rendered.get("Deployment", deployment)["spec"]["template"]["spec"]["containers"]
                [0];
            let env = container["env"]
                .as_array()
                .unwrap()
                .contains(&variable(name));
            let args = container["args"]
                .as_array()
                .unwrap()
                .contains(&json!(format!("--{name}")));
            assert_eq!(env, args);
            env
        };
        let of = |name: &'static str| if together { "podloom" } else { name };
        assert!(has(of("podloom-portal"), "p") && has(of("podloom-cleaner"), "c"));
        assert_eq!(has(of("podloom-portal"), "c"), together);
    }
}

#[test]
fn one_deployment_has_the_duties_of_all() {
    let Some(chart) = Chart::new() else { return };
    let on = json!({ "enabled": true });
    let values =
        json!({ "portal": on, "infrastructure": on, "cleaner": on, "webhook": on, "together": on });
    let rendered = Rendered::new(&chart, &values);
    let container =
        &rendered.get("Deployment", "podloom")["spec"]["template"]["spec"]["containers"][0];
    let variable = |name: &str| {
        let mut variables = container["env"].as_array().unwrap().iter();
        let variable = variables.find(|variable| variable["name"] == name);
        variable.unwrap()["value"].as_str().unwrap()
    };
    assert_eq!(
        variable("PODLOOM_CONTROLLERS"),
        "browser,portal,infrastructure,cleaner"
    );
    assert_eq!(variable("PODLOOM_WEBHOOK"), "0.0.0.0:8443");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    // Each binding of a role is for the one account that there is.
    let bindings = rendered
        .0
        .iter()
        .filter(|object| object["subjects"].is_array());
    let accounts: BTreeSet<&str> = bindings
        .map(|binding| binding["subjects"][0]["name"].as_str().unwrap())
        .collect();
    assert_eq!(accounts, BTreeSet::from(["podloom"]));
    let service = &rendered.get("Service", "podloom-webhook")["spec"];
    assert_eq!(
        service["ports"],
        json!([{ "name": "webhook", "port": 443, "targetPort": "webhook" }])
    );
}

/// The files have a word that stands for the watched namespaces, and it is a name that a namespace may have.
#[test]
fn a_release_may_be_in_a_namespace_called_watched() {
    let Some(chart) = Chart::new() else { return };
    let values = json!({ "namespaces": ["shop"] });
    let roles = |namespace: &str| -> BTreeSet<(String, String)> {
        let objects = chart.template(("podloom", namespace), &values).unwrap();
        let roles = objects.iter().filter(|object| object["kind"] == "Role");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let place = |role: &Value| {
            (
                text(&role["metadata"]["namespace"]),
                text(&role["metadata"]["name"]),
            )
        };
        roles.map(place).collect()
    };
    let wanted = roles("elsewhere")
        .into_iter()
        .map(|(namespace, name)| (namespace.replace("elsewhere", "watched"), name));
    let wanted: BTreeSet<_> = wanted.collect();
    let own = wanted
        .iter()
        .filter(|(namespace, _)| namespace == "watched");
    assert!(own.count() > 0, "{wanted:?}");
    assert_eq!(roles("watched"), wanted);
}

#[test]
fn the_gate_is_closed_on_no_pod_that_the_webhook_never_sees() {
    let Some(chart) = Chart::new() else { return };
    let condition =
        |name: &str, expression: &str| json!({ "name": name, "expression": expression });
    let (first, second) = (
        condition("a", "request.namespace == 'a'"),
        condition("b", "has(object.spec)"),
    );
    let values = json!({ "webhook": {
        "enabled": true,
        "namespaceSelector": { "matchLabels": { "podloom.dev/mutate": null, "team": "web" } },
        "matchConditions": [first, second],
        "gate": { "enabled": true, "strict": true },
    } });
    let rendered = Rendered::new(&chart, &values);
    let webhook = &rendered.get("MutatingWebhookConfiguration", "podloom-webhook")["webhooks"][0];
    // Nobody has to set it.
    assert_eq!(webhook["failurePolicy"], "Ignore");
    let gate = &rendered.get("MutatingAdmissionPolicy", "podloom-webhook-gate")["spec"];
    let strict = &rendered.get("ValidatingAdmissionPolicy", "podloom-webhook-gate")["spec"];
    for policy in [gate, strict] {
        let selector = &policy["matchConstraints"]["namespaceSelector"];
        assert_eq!(*selector, webhook["namespaceSelector"]);
    }
    let conditions = gate["matchConditions"].as_array().unwrap();
    assert!(conditions.ends_with(&[first, second]), "{conditions:?}");
    let variables = strict["variables"].as_array().unwrap();
    let mut variables = variables.iter();
    let seen = variables.find(|it| it["name"] == "isSeen").unwrap();
    let joined = "(request.namespace == 'a') && (has(object.spec))";
    assert_eq!(seen["expression"], joined);
}

#[test]
fn values_of_the_webhooks_arrive_in_their_configuration() {
    let Some(chart) = Chart::new() else { return };
    let own = json!({ "key": "old", "operator": "DoesNotExist" });
    let labels = json!({ "podloom.dev/mutate": null, "team": "web" });
    let conditions =
        json!([{ "name": "podloom.dev/chain", "expression": "request.namespace == 'a'" }]);
    let values = json!({ "webhook": {
        "enabled": true,
        "failurePolicy": "Ignore",
        "timeoutSeconds": 9,
        "reinvocationPolicy": "IfNeeded",
        "namespaceSelector": { "matchLabels": labels, "matchExpressions": [own] },
        "matchConditions": conditions,
    } });
    let rendered = Rendered::new(&chart, &values);
    let webhook = &rendered.get("MutatingWebhookConfiguration", "podloom-webhook")["webhooks"][0];
    assert_eq!(webhook["failurePolicy"], "Ignore");
    assert_eq!(webhook["timeoutSeconds"], 9);
    assert_eq!(webhook["reinvocationPolicy"], "IfNeeded");
    assert_eq!(webhook["matchConditions"], conditions);
    let selector = &webhook["namespaceSelector"];
    assert_eq!(selector["matchLabels"], json!({ "team": "web" }));
    assert_eq!(selector["matchExpressions"][0], own);
    let system = &selector["matchExpressions"][1]["values"];
    assert!(
        system
            .as_array()
            .unwrap()
            .contains(&json!("podloom-system"))
    );
}

#[test]
fn certificates_of_a_secret_are_used_and_the_operator_makes_none() {
    let Some(chart) = Chart::new() else { return };
    let certificates = json!({ "from": "secret", "secret": "mine", "caBundle": "QQ==" });
    let webhook = json!({ "enabled": true, "certificates": certificates });
    let values = json!({ "browser": { "enabled": false }, "webhook": webhook });
    let rendered = Rendered::new(&chart, &values);
    for kind in ["Mutating", "Validating"] {
        let configuration = rendered.get(&format!("{kind}WebhookConfiguration"), "podloom-webhook");
        for webhook in configuration["webhooks"].as_array().unwrap() {
            assert_eq!(webhook["clientConfig"]["caBundle"], "QQ==", "{webhook}");
        }
    }
    let pod = &rendered.get("Deployment", "podloom-webhook")["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], "mine");
    let rules = rendered
        .0
        .iter()
        .filter_map(|object| object["rules"].as_array());
    for rule in rules.flatten().map(Value::to_string) {
        let is_for_certificates =
            rule.contains("secrets") || rule.contains("webhookconfigurations");
        assert!(!is_for_certificates, "{rule}");
    }
}

#[test]
fn an_issuer_of_the_cluster_stands_for_that_of_the_release() {
    let Some(chart) = Chart::new() else { return };
    let issuer = json!({ "kind": "ClusterIssuer", "name": "company" });
    let certificates = json!({ "from": "certManager", "issuerRef": issuer });
    let values = json!({ "webhook": { "enabled": true, "certificates": certificates } });
    let rendered = Rendered::new(&chart, &values);
    let certificate = rendered.get("Certificate", "podloom-webhook");
    assert_eq!(certificate["spec"]["issuerRef"], issuer);
    assert!(!rendered.kinds().contains("Issuer"));
    assert!(rendered.find("Certificate", "podloom-webhook-ca").is_none());
}

#[test]
fn each_switch_leaves_out_its_objects() {
    let Some(chart) = Chart::new() else { return };
    let all = Rendered::new(&chart, &json!({}));
    let check = |values: Value, gone: &[&str]| {
        let rendered = Rendered::new(&chart, &values);
        let wanted: BTreeSet<&str> = all
            .kinds()
            .into_iter()
            .filter(|kind| !gone.contains(kind))
            .collect();
        assert_eq!(rendered.kinds(), wanted, "{values}");
    };
    let off = json!({ "enabled": false });
    check(
        json!({ "crds": { "install": false } }),
        &["CustomResourceDefinition"],
    );
    check(
        json!({ "podDisruptionBudget": off }),
        &["PodDisruptionBudget"],
    );
    check(json!({ "flowSchema": off }), &["FlowSchema"]);
    check(
        json!({ "serviceAccounts": { "create": false } }),
        &["ServiceAccount"],
    );
    let roles = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    check(
        json!({ "rbac": { "create": false, "users": false } }),
        &roles,
    );
    let users = Rendered::new(&chart, &json!({ "rbac": { "users": false } }));
    assert!(users.find("ClusterRole", "podloom-browser-view").is_none());
    assert!(all.find("ClusterRole", "podloom-browser-view").is_some());
}

#[test]
fn definitions_stay_unless_they_should_not() {
    let Some(chart) = Chart::new() else { return };
    for keep in [true, false] {
        let rendered = Rendered::new(&chart, &json!({ "crds": { "keep": keep } }));
        let crd = rendered.get("CustomResourceDefinition", "browsers.selenosis.io");
        let policy = crd["metadata"]["annotations"].get("helm.sh/resource-policy");
        assert_eq!(policy, keep.then(|| json!("keep")).as_ref());
    }
}
