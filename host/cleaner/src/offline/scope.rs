//! Whether the objects of a kind are in namespaces, as far as that is known without a cluster.
//!
//! A CustomResourceDefinition among the files says it of its kind, and a flag of the operator of what it names. Of Kubernetes' own kinds
//! those in no namespace are listed here. All others are taken to be in namespaces, as most are.

use kube::core::ApiResource;
use podloom_engine::kind::ResourceScope;
use serde_json::Value;

use crate::settings::{CleanerSettings, GroupResource};

/// The kinds of Kubernetes that are in no namespace, by their groups.
const CLUSTER_SCOPED: [(&str, &[&str]); 13] = [
    ("", &["Namespace", "Node", "PersistentVolume"]),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    (
        "certificates.k8s.io",
        &["CertificateSigningRequest", "ClusterTrustBundle"],
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        &["FlowSchema", "PriorityLevelConfiguration"],
    ),
    (
        "networking.k8s.io",
        &["IngressClass", "IPAddress", "ServiceCIDR"],
    ),
    ("node.k8s.io", &["RuntimeClass"]),
    (
        "rbac.authorization.k8s.io",
        &["ClusterRole", "ClusterRoleBinding"],
    ),
    (
        "resource.k8s.io",
        &["DeviceClass", "DeviceTaintRule", "ResourceSlice"],
    ),
    ("scheduling.k8s.io", &["PriorityClass"]),
    (
        "storage.k8s.io",
        &[
            "CSIDriver",
            "CSINode",
            "StorageClass",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ],
    ),
    ("storagemigration.k8s.io", &["StorageVersionMigration"]),
];

/// What the files and the flags say of a kind: its exact name and its plural, and whether its objects are in namespaces.
pub(super) fn of(
    mut resource: ApiResource,
    objects: &[Value],
    settings: &CleanerSettings,
) -> (ApiResource, ResourceScope) {
    if let Some(spec) = objects.iter().find_map(|it| definition(it, &resource)) {
        let name = |field: &str| spec["names"][field].as_str().map(str::to_owned);
        resource.kind = name("kind").unwrap_or(resource.kind);
        resource.plural = name("plural").unwrap_or(resource.plural);
        let is_wide = spec["scope"] == "Cluster";
        return (resource, scope(is_wide));
    }
    let own = CLUSTER_SCOPED
        .iter()
        .filter(|(group, _)| *group == resource.group);
    let mut own = own.flat_map(|(_, kinds)| kinds.iter());
    if let Some(kind) = own.find(|kind| kind.eq_ignore_ascii_case(&resource.kind)) {
        resource.kind = (*kind).to_owned();
        return (resource, ResourceScope::Cluster);
    }
    let named = GroupResource {
        plural: resource.plural.clone(),
        group: resource.group.clone(),
    };
    let is_wide = settings.cluster_scoped.contains(&named);
    (resource, scope(is_wide))
}

const fn scope(is_wide: bool) -> ResourceScope {
    match is_wide {
        true => ResourceScope::Cluster,
        false => ResourceScope::Namespaced,
    }
}

/// The spec of the CustomResourceDefinition of a kind, if an object is that.
fn definition<'a>(object: &'a Value, of: &ApiResource) -> Option<&'a Value> {
    let spec = &object["spec"];
    let kind = spec["names"]["kind"].as_str()?;
    let is_it = object["kind"] == "CustomResourceDefinition"
        && spec["group"] == *of.group
        && kind.eq_ignore_ascii_case(&of.kind);
    is_it.then_some(spec)
}
