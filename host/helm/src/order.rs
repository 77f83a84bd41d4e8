//! In which order kinds are deleted.

/// Helm's order: what brings in requests or makes pods goes first, what others need goes last.
const ORDER: [&str; 31] = [
    "APIService",
    "Ingress",
    "IngressClass",
    "Service",
    "CronJob",
    "Job",
    "StatefulSet",
    "HorizontalPodAutoscaler",
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "Pod",
    "DaemonSet",
    "RoleBinding",
    "Role",
    "ClusterRoleBinding",
    "ClusterRole",
    "CustomResourceDefinition",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "PodDisruptionBudget",
    "PodSecurityPolicy",
    "LimitRange",
    "ResourceQuota",
    "NetworkPolicy",
    "Namespace",
    "PriorityClass",
];

/// Returns what to sort by: other kinds come last, by their names.
pub(crate) fn rank(kind: &str) -> (usize, &str) {
    match ORDER.iter().position(|known| *known == kind) {
        Some(place) => (place, ""),
        None => (ORDER.len(), kind),
    }
}
