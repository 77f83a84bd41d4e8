use podloom_api::InfrastructureKind;
use serde_json::{Value, json};

use super::{Asked, ask, check};
use crate::validate::ROWS;

fn cluster(template: Value) -> Value {
    let mut template = template;
    template["topology_template"]["outputs"] = json!({ "kubeconfig": { "value": "x" } });
    json!({
        "metadata": { "name": "a", "namespace": "team-a" },
        "spec": { "tosca": template },
    })
}

/// A Cluster whose machines were made from this template.
fn applied(cluster: &Value, template: &Value) -> Value {
    let mut cluster = cluster.clone();
    cluster["status"] = json!({
        "lastAppliedTosca": template["spec"]["tosca"],
        "retiredNodes": ["old"],
        // Of a later version.
        "state": "DREAMING",
    });
    cluster
}

fn with_policies(policies: &Value) -> Value {
    cluster(json!({ "topology_template": { "policies": policies } }))
}

async fn update(plural: &str, old: &Value, new: &Value) -> Asked {
    let review = json!({ "operation": "UPDATE", "object": new, "oldObject": old });
    ask(plural, &review).await
}

#[test]
fn each_kind_has_a_row() {
    for kind in InfrastructureKind::ALL {
        let endpoint = format!("validate/{}", kind.plural());
        assert!(ROWS.iter().any(|row| row.0 == endpoint), "{endpoint}");
    }
}

#[tokio::test]
async fn a_template_that_cannot_be_sent_is_refused() {
    let new = cluster(json!({ "metadata": [] }));
    let asked = ask("clusters", &json!({ "object": new })).await;
    let message = "spec.tosca.metadata: it must be an object";
    check(&asked, Some((422, message)), &[]);
    let large = cluster(json!({ "description": "x".repeat(300_000) }));
    let asked = ask("clusters", &json!({ "object": large })).await;
    let denial = asked.answer.denial.expect("it is refused");
    assert!(
        denial.message.starts_with("spec.tosca: it has 300"),
        "{}",
        denial.message
    );
}

/// Its provider may allow it.
#[tokio::test]
async fn a_template_that_names_files_is_admitted_with_a_warning() {
    let new = cluster(json!({ "imports": ["/etc/passwd"] }));
    let asked = ask("clusters", &json!({ "object": new })).await;
    let warning = "spec.tosca.imports[0]: it names a file of the Infrastructure Manager by its path; use a URL, or allow it with \
                   allowFileReferences of the provider";
    check(&asked, None, &[warning]);
}

#[tokio::test]
async fn a_change_that_would_be_ignored_is_refused_and_all_others_are_not() {
    let two = with_policies(&json!([1, 2]));
    let stored = applied(&two, &two);
    let one = applied(&with_policies(&json!([1])), &two);
    let message = "spec.tosca.topology_template.policies: the list cannot become shorter; undo this, or create another Cluster";
    check(
        &update("clusters", &stored, &one).await,
        Some((422, message)),
        &[],
    );
    let three = applied(&with_policies(&json!([1, 2, 3])), &two);
    check(&update("clusters", &stored, &three).await, None, &[]);
    // What was stored while no webhook answered.
    let mut other = one.clone();
    other["spec"]["paused"] = json!(true);
    check(&update("clusters", &one, &other).await, None, &[message]);
    // A node that was there once.
    let mut again = stored.clone();
    again["spec"]["tosca"]["topology_template"]["node_templates"] = json!({ "old": {} });
    let message = "spec.tosca.topology_template.node_templates.old: a node of this name was removed before; use another name; undo \
                   this, or create another Cluster";
    check(
        &update("clusters", &stored, &again).await,
        Some((422, message)),
        &[],
    );
}

#[tokio::test]
async fn of_many_mistakes_the_first_are_named() {
    let nodes = |names: &[String]| -> Value {
        names.iter().map(|name| (name.clone(), json!({}))).collect()
    };
    let names: Vec<String> = (10..40).map(|number| format!("n{number}")).collect();
    let all = cluster(json!({ "topology_template": { "node_templates": nodes(&names) } }));
    let none = cluster(json!({ "topology_template": { "node_templates": {} } }));
    let asked = update("clusters", &applied(&all, &all), &applied(&none, &all)).await;
    let message = asked.answer.denial.expect("it is refused").message;
    let first = "spec.tosca.topology_template.node_templates.n10: it cannot be removed; ";
    assert!(message.starts_with(first), "{message}");
    assert_eq!(message.matches("it cannot be removed").count(), 12);
    assert!(message.ends_with("; there may be more"), "{message}");
}

#[tokio::test]
async fn endpoints_that_cannot_be_used_are_refused() {
    let cloud = |url: &str| {
        json!({
            "metadata": { "name": "a", "namespace": "team-a" },
            "spec": {
                "providerRef": { "kind": "GlobalInfrastructureProvider", "name": "im" },
                "openstack": { "url": url, "auth": {} },
            },
        })
    };
    let provider = |url: &str| {
        json!({
            "metadata": { "name": "a", "namespace": "team-a" },
            "spec": { "im": { "url": url, "tokenSecretRef": { "name": "token" } } },
        })
    };
    let global = |mut object: Value| {
        object["metadata"] = json!({ "name": "a" });
        object
    };
    let (bad, good) = ("https://h.example:99999", "https://h.example:5000");
    for (plural, field, bad, good) in [
        ("clouds", "spec.openstack.url", cloud(bad), cloud(good)),
        (
            "globalclouds",
            "spec.openstack.url",
            global(cloud(bad)),
            global(cloud(good)),
        ),
        (
            "infrastructureproviders",
            "spec.im.url",
            provider(bad),
            provider(good),
        ),
        (
            "globalinfrastructureproviders",
            "spec.im.url",
            global(provider(bad)),
            global(provider(good)),
        ),
    ] {
        check(&ask(plural, &json!({ "object": good })).await, None, &[]);
        let denial = ask(plural, &json!({ "object": bad })).await.answer.denial;
        let message = denial.expect("it is refused").message;
        assert!(
            message.starts_with(&format!("{field}: the port")),
            "{message}"
        );
        // A finalizer can still be removed.
        let mut freed = bad.clone();
        freed["metadata"]["finalizers"] = json!([]);
        check(&update(plural, &bad, &freed).await, None, &[]);
    }
}

#[tokio::test]
async fn a_provider_without_encryption_is_warned_of() {
    let provider = json!({
        "metadata": { "name": "a", "namespace": "team-a" },
        "spec": { "im": { "url": "http://im.example.com", "tokenSecretRef": { "name": "token" } } },
    });
    let asked = ask("infrastructureproviders", &json!({ "object": provider })).await;
    assert_eq!(asked.answer.denial, None);
    let [warning] = asked.answer.warnings.as_slice() else {
        panic!("{:?}", asked.answer.warnings)
    };
    assert!(warning.starts_with("spec.im.url: http://im.example.com is plain http"));
}
