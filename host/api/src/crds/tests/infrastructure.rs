use serde_json::json;

use super::{check_columns, schema};
use crate::{Cluster, ClusterSpec, ClusterState, InfrastructureKind, infrastructure_crd};

#[test]
fn columns_say_how_a_cluster_is() {
    check_columns(
        &infrastructure_crd(InfrastructureKind::Cluster),
        &[
            ("State", "string", ".status.state", None),
            ("Cloud", "string", ".status.scheduledTo.name", None),
            ("VMs", "integer", ".status.vms.total", None),
            (
                "Ready",
                "string",
                ".status.conditions[?(@.type==\"Ready\")].status",
                None,
            ),
            (
                "Reason",
                "string",
                ".status.conditions[?(@.type==\"Ready\")].reason",
                None,
            ),
            ("Age", "date", ".metadata.creationTimestamp", None),
            ("ID", "string", ".status.clusterId", Some(1)),
        ],
    );
}

#[test]
fn each_kind_has_the_name_and_the_scope_of_its_definition() {
    for kind in InfrastructureKind::ALL {
        let crd = infrastructure_crd(kind);
        let scope = match kind.is_global() {
            true => "Cluster",
            false => "Namespaced",
        };
        let version = &crd.spec.versions[0];
        let has_status = version.subresources.as_ref().unwrap().status.is_some();
        assert!(version.served && version.storage && has_status);
        assert_eq!(
            json!([
                crd.metadata.name,
                crd.spec.names.kind,
                crd.spec.scope,
                crd.spec.names.categories
            ]),
            json!([
                format!("{}.infrastructure.podloom.dev", kind.plural()),
                kind.name(),
                scope,
                ["podloom"]
            ])
        );
    }
}

/// A namespaced provider of the same name would be in no namespace.
#[test]
fn a_global_cloud_names_a_global_provider() {
    let kinds = |kind| {
        let spec = schema(&infrastructure_crd(kind))["properties"]["spec"].clone();
        spec["properties"]["providerRef"]["properties"]["kind"]["enum"].clone()
    };
    assert_eq!(
        kinds(InfrastructureKind::GlobalCloud),
        json!(["GlobalInfrastructureProvider"])
    );
    assert_eq!(
        kinds(InfrastructureKind::Cloud),
        json!(["InfrastructureProvider", "GlobalInfrastructureProvider"])
    );
}

#[test]
fn what_is_not_given_has_the_value_that_the_definition_says() {
    let spec =
        schema(&infrastructure_crd(InfrastructureKind::Cluster))["properties"]["spec"].clone();
    let default = |field: &str| spec["properties"][field]["default"].clone();
    let read: ClusterSpec = serde_json::from_value(json!({})).unwrap();
    assert_eq!(read, ClusterSpec::default());
    let written = serde_json::to_value(&read).unwrap();
    for field in [
        "deletionPolicy",
        "driftPolicy",
        "pollIntervalSeconds",
        "timeoutSeconds",
        "paused",
    ] {
        assert_eq!(default(field), written[field], "{field}");
    }
    let key = &spec["properties"]["kubeconfigSecretRef"]["properties"]["key"];
    assert_eq!(key["default"], "kubeconfig");
}

#[test]
fn states_are_written_as_they_are_called() {
    for state in ClusterState::ALL {
        assert_eq!(json!(state), state.as_str());
    }
    let cluster: Cluster = serde_json::from_value(json!({
        "apiVersion": "infrastructure.podloom.dev/v1alpha1",
        "kind": "Cluster",
        "metadata": { "name": "demo" },
        "spec": { "tosca": { "topology_template": { "outputs": { "kubeconfig": {} } }, "anything": [1, null] } },
        "status": {
            "state": "FAILING_RECONCILIATION",
            "operation": { "kind": "Create", "startedAt": "2026-01-01T00:00:00.000001Z", "attempts": 2 },
        },
    }))
    .unwrap();
    let read = serde_json::to_value(&cluster).unwrap();
    assert_eq!(read["spec"]["tosca"]["anything"], json!([1, null]));
    assert_eq!(
        read["status"]["operation"]["startedAt"],
        "2026-01-01T00:00:00.000001Z"
    );
}
