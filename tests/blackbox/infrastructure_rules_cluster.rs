//! Each rule of Clusters accepts and rejects on a real API server, and a rejection names the field.
//!
//! As with the rules of providers, no operator here knows these kinds.

use podloom_api::ClusterState;
use podloom_api::InfrastructureKind::{self, Cluster};
use podloom_tests::blackbox;
use podloom_tests::rules::{
    Rule, Stored, chars, columns, defaults, field, fixed, free, on_create, optional, required,
    rule, secret,
};
use serde_json::{Value, json};

const CLUSTER: [InfrastructureKind; 1] = [Cluster];
const ID: &str = "01234567-89ab-cdef-0123-456789abcdef";
const OTHER_ID: &str = "11234567-89ab-cdef-0123-456789abcdef";

/// A Cluster with a template, on a cloud.
fn template() -> Value {
    let outputs = json!({ "kubeconfig": { "value": "k" } });
    let tosca = json!({ "topology_template": { "outputs": outputs } });
    let cloud = json!({ "kind": "Cloud", "name": "local" });
    json!({ "spec": { "tosca": tosca, "cloudRef": cloud } })
}

/// A cluster that exists already.
fn registered() -> Value {
    json!({ "spec": { "kubeconfigSecretRef": { "name": "mine" } } })
}

/// A whole number that is filled in if it is not given.
fn number(path: &str, min: i32, max: i32) -> Rule {
    let wrong = json!([min - 1, max + 1, min.to_string(), 10.5]);
    field(path, json!([null, min, max]), wrong)
}

#[test]
fn a_template_has_the_output_kubeconfig() {
    blackbox("rules-template", async |scene| {
        let topology = "spec.tosca.topology_template";
        let outputs = format!("{topology}.outputs");
        let more = json!({ "node_templates": { "n": { "type": "tosca.nodes.Compute" } } });
        let rules = [
            field("spec", json!([{}]), json!([null])),
            field(
                "spec.tosca",
                json!([{}, { "metadata": {} }]),
                json!(["text", []]),
            ),
            field(topology, more, json!([null, "text", []])),
            field(
                &outputs,
                json!([{}, { "other": 1 }]),
                json!([null, "text", []]),
            ),
            field(
                &format!("{outputs}.kubeconfig"),
                json!([{}, { "value": { "get_attribute": ["n", "ctxt"] } }]),
                json!([null, "text", ["text"]]),
            ),
            rule(
                "give exactly one of tosca and kubeconfigSecretRef",
                json!([{}, { "spec": { "tosca": null, "cloudRef": null, "kubeconfigSecretRef": { "name": "mine" } } }]),
                json!([{ "spec": { "tosca": null } }, registered()]),
            ),
        ];
        on_create(&scene, &CLUSTER, &template(), &rules).await;
        let mut null = registered();
        null["spec"]["cloudRef"] = Value::Null;
        let rules = [rule(
            "cloudRef needs tosca",
            json!([{}]),
            json!([{ "spec": { "cloudRef": template()["spec"]["cloudRef"] } }]),
        )];
        on_create(&scene, &CLUSTER, &null, &rules).await;
    });
}

#[test]
fn a_cluster_has_names_that_can_be() {
    blackbox("rules-cluster-names", async |scene| {
        let secret_name = format!("a.b-c.{}", chars(247));
        let rules = [
            rule(
                "the name has at most 63 characters",
                json!({ "metadata": { "name": chars(63) } }),
                json!({ "metadata": { "name": chars(64) } }),
            ),
            field("spec.cloudRef", json!([null]), json!(["local"])),
            field(
                "spec.cloudRef.kind",
                json!(["Cloud", "GlobalCloud"]),
                json!([null, "", "cloud", "Cluster"]),
            ),
            required("spec.cloudRef.name", 253),
            optional("spec.kubeconfigSecretName", 253),
            field(
                "spec.kubeconfigSecretName",
                json!(["0", "a-b", secret_name]),
                json!(["A", "-a", "a-", "a..b", ".a", "a/b", "a_b", "a\n"]),
            ),
            field(
                "spec.adoptInfrastructureId",
                json!([null, ID]),
                json!([
                    "",
                    ID.to_uppercase(),
                    ID.replace('-', ""),
                    format!("{ID}0"),
                    format!("{ID}\n"),
                    ID.replace('f', "g")
                ]),
            ),
        ];
        on_create(&scene, &CLUSTER, &template(), &rules).await;
    });
}

#[test]
fn a_cluster_has_policies_and_times() {
    blackbox("rules-cluster-policies", async |scene| {
        let rules = [
            field(
                "spec.deletionPolicy",
                json!([null, "Delete", "Orphan"]),
                json!(["", "delete", "Keep"]),
            ),
            field(
                "spec.driftPolicy",
                json!([null, "Repair", "Report"]),
                json!(["", "repair", "Ignore"]),
            ),
            number("spec.pollIntervalSeconds", 1, 3600),
            number("spec.timeoutSeconds.create", 5, 86_400),
            number("spec.timeoutSeconds.update", 5, 86_400),
            number("spec.timeoutSeconds.delete", 5, 86_400),
            field(
                "spec.paused",
                json!([null, true, false]),
                json!(["true", 1]),
            ),
        ];
        on_create(&scene, &CLUSTER, &template(), &rules).await;
    });
}

#[test]
fn a_registered_cluster_has_no_machines() {
    blackbox("rules-registered", async |scene| {
        let cloud = json!({ "kind": "Cloud", "name": "local" });
        let rules = [
            rule(
                "cloudRef needs tosca",
                json!([{}]),
                json!({ "spec": { "cloudRef": cloud } }),
            ),
            rule(
                "adoptInfrastructureId needs tosca",
                json!([{}]),
                json!({ "spec": { "adoptInfrastructureId": ID } }),
            ),
        ];
        on_create(&scene, &CLUSTER, &registered(), &rules).await;
        on_create(
            &scene,
            &CLUSTER,
            &registered(),
            &secret("spec.kubeconfigSecretRef"),
        )
        .await;
        let key = [("/spec/kubeconfigSecretRef/key", json!("kubeconfig"))];
        defaults(&scene, &CLUSTER, &registered(), &key).await;
    });
}

#[test]
fn a_cluster_has_the_usual_defaults() {
    blackbox("rules-cluster-defaults", async |scene| {
        let filled_in = [
            ("/spec/deletionPolicy", json!("Delete")),
            ("/spec/driftPolicy", json!("Repair")),
            ("/spec/pollIntervalSeconds", json!(30)),
            (
                "/spec/timeoutSeconds",
                json!({ "create": 3600, "update": 3600, "delete": 3600 }),
            ),
            ("/spec/paused", json!(false)),
        ];
        defaults(&scene, &CLUSTER, &template(), &filled_in).await;
        let mut cluster = template();
        cluster["spec"]["timeoutSeconds"] = json!({ "create": 5 });
        // What no schema knows is stored as it is, null too.
        let unknown = json!({ "list": [1, null, { "a": null }], "null": null });
        cluster["spec"]["tosca"]["anything"] = unknown.clone();
        let filled_in = [
            (
                "/spec/timeoutSeconds",
                json!({ "create": 5, "update": 3600, "delete": 3600 }),
            ),
            ("/spec/tosca/anything", unknown),
        ];
        defaults(&scene, &CLUSTER, &cluster, &filled_in).await;
    });
}

#[test]
fn what_a_cluster_is_made_of_is_fixed() {
    blackbox("rules-cluster-fixed", async |scene| {
        let exchanged = "tosca cannot be exchanged for kubeconfigSecretRef";
        let to_registered = json!({ "spec": { "tosca": null, "cloudRef": null, "kubeconfigSecretRef": { "name": "mine" } } });
        let stored = Stored::new(&scene, Cluster, "template", &template()).await;
        let rules = [
            rule(
                exchanged,
                json!({ "spec": { "tosca": { "description": "d" } } }),
                to_registered,
            ),
            fixed("spec.adoptInfrastructureId", json!(null), json!([ID])),
            fixed("spec.kubeconfigSecretName", json!(null), json!(["mine"])),
            // No machine runs yet.
            free(json!([
                { "spec": { "cloudRef": null } },
                { "spec": { "cloudRef": { "kind": "GlobalCloud", "name": "other" } } },
                { "spec": { "deletionPolicy": "Orphan", "driftPolicy": "Report", "paused": true } },
                { "spec": { "pollIntervalSeconds": 1, "timeoutSeconds": { "create": 5 } } },
            ])),
        ];
        stored.on_change(&rules).await;
        let all = [
            "NAME", "STATE", "CLOUD", "VMS", "READY", "REASON", "AGE", "ID",
        ];
        assert_eq!(columns(&scene, Cluster), all);
        // One owner has the whole template: half of one and half of another would be none.
        let fields = &stored.object()["metadata"]["managedFields"][0]["fieldsV1"];
        assert_eq!(fields["f:spec"]["f:tosca"], json!({}), "{fields}");

        let mut given = template();
        given["spec"]["adoptInfrastructureId"] = json!(ID);
        given["spec"]["kubeconfigSecretName"] = json!("mine");
        let stored = Stored::new(&scene, Cluster, "given", &given).await;
        let rules = [
            fixed(
                "spec.adoptInfrastructureId",
                json!(ID),
                json!([OTHER_ID, null]),
            ),
            fixed(
                "spec.kubeconfigSecretName",
                json!("mine"),
                json!(["other", null]),
            ),
        ];
        stored.on_change(&rules).await;

        let stored = Stored::new(&scene, Cluster, "registered", &registered()).await;
        let mut to_template = template();
        to_template["spec"]["kubeconfigSecretRef"] = Value::Null;
        let other = json!({ "spec": { "kubeconfigSecretRef": { "name": "other" } } });
        stored
            .on_change(&[rule(exchanged, other, to_template)])
            .await;
    });
}

#[test]
fn a_cluster_stays_on_its_cloud_while_machines_run() {
    blackbox("rules-running", async |scene| {
        let stays = "spec.cloudRef cannot be changed while machines run";
        let cloud = json!({ "kind": "Cloud", "name": "local" });
        let bound = Stored::new(&scene, Cluster, "bound", &template()).await;
        let others = json!([
            { "spec": { "cloudRef": null } },
            { "spec": { "cloudRef": { "name": "other" } } },
            { "spec": { "cloudRef": { "kind": "GlobalCloud" } } },
        ]);
        bound.set_status(json!({ "scheduledTo": cloud })).await;
        bound.on_change(&[free(others.clone())]).await;
        bound.set_status(json!({ "runningOn": cloud })).await;
        let same = json!([{}, { "spec": { "cloudRef": cloud } }, { "spec": { "paused": true } }]);
        bound.on_change(&[rule(stays, same, others.clone())]).await;
        bound.set_status(json!({ "runningOn": null })).await;
        bound.on_change(&[free(others)]).await;

        // One that a scheduler has bound.
        let unbound = json!({ "spec": { "tosca": template()["spec"]["tosca"] } });
        let unbound = Stored::new(&scene, Cluster, "unbound", &unbound).await;
        let chosen = json!({ "spec": { "cloudRef": cloud } });
        unbound.on_change(&[free(chosen.clone())]).await;
        unbound.set_status(json!({ "runningOn": cloud })).await;
        let same = json!([{}, { "spec": { "paused": true } }]);
        unbound.on_change(&[rule(stays, same, chosen)]).await;
    });
}

#[test]
fn a_status_says_what_is_defined() {
    blackbox("rules-status", async |scene| {
        let condition = |kind: &str| {
            let at = "2026-01-01T00:00:00Z";
            json!({ "type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": at })
        };
        let conditions = |kinds: [&str; 2]| json!(kinds.map(condition));
        let cloud = json!({ "kind": "Cloud", "name": "local" });
        let operation =
            |kind: &str| json!({ "kind": kind, "startedAt": "2026-01-01T00:00:00.000001Z" });
        let kinds = ["Create", "Update", "Reconfigure", "Start", "Delete"];
        let rules = [
            field(
                "status.state",
                json!(ClusterState::ALL),
                json!(["", "Online", "GONE"]),
            ),
            field(
                "status.scheduledTo",
                json!([null, cloud]),
                json!(["local", { "kind": "Cloud" }, { "kind": "Cluster", "name": "c" }]),
            ),
            field(
                "status.runningOn",
                json!([null, cloud]),
                json!(["local", { "kind": "Cloud" }, { "kind": "Cluster", "name": "c" }]),
            ),
            field(
                "status.operation",
                json!(kinds.map(operation)),
                json!([operation("Stop"), { "kind": "Create" }]),
            ),
            field(
                "status.vms",
                json!({ "total": 2, "configured": 1 }),
                json!({ "total": "2" }),
            ),
            field(
                "status.lastAppliedTosca",
                json!({ "anything": [1, null] }),
                json!("text"),
            ),
            field("status.retiredNodes", json!([["a", "b"]]), json!([[1]])),
            // One entry of each type, so that each can have its own owner.
            field(
                "status.conditions",
                Value::Array(vec![conditions(["Ready", "Stalled"])]),
                json!([conditions(["Ready", "Ready"]), [{ "type": "Ready" }]]),
            ),
        ];
        let stored = Stored::new(&scene, Cluster, "status", &template()).await;
        stored.on_status(&rules).await;
    });
}
