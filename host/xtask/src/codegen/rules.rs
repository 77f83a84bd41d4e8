//! Which fields of a pod have which rule for their values: the rules of `ValidatePodCreate` in Kubernetes' `pkg/apis/core/validation`.
//!
//! Only what every API server from 1.33 to 1.37 refuses is here. So these have no rule: a field that a server without its feature
//! drops unread (`hostnameOverride`, `matchLabelKeys`, the names of resource claims), a name that is checked only when it is used
//! (`imagePullSecrets`, the Secret of a volume), and values that depend on another field (a toleration's).

/// Type, field and rule, a variant of pod-path's `Rule`. In a list or map, the rule is for each element or value.
const VALUES: [(&str, &str, &str); 48] = [
    ("ConfigMapEnvSource", "name", "EnvSourceName"),
    ("ConfigMapKeySelector", "key", "ConfigKey"),
    ("ConfigMapKeySelector", "name", "DnsSubdomain"),
    ("ConfigMapVolumeSource", "defaultMode", "FileMode"),
    ("Container", "image", "Trimmed"),
    ("Container", "name", "DnsLabel"),
    ("ContainerPort", "containerPort", "Port"),
    ("ContainerPort", "hostPort", "OptionalPort"),
    ("ContainerPort", "name", "PortName"),
    ("DownwardAPIVolumeFile", "mode", "FileMode"),
    ("DownwardAPIVolumeSource", "defaultMode", "FileMode"),
    ("EmptyDirVolumeSource", "sizeLimit", "Amount"),
    ("EnvFromSource", "prefix", "EnvName"),
    ("EnvVar", "name", "EnvName"),
    ("EphemeralContainer", "image", "Trimmed"),
    ("EphemeralContainer", "name", "DnsLabel"),
    ("GRPCAction", "port", "Port"),
    ("HTTPGetAction", "port", "Port"),
    ("HostAlias", "hostnames", "DnsSubdomain"),
    ("KeyToPath", "mode", "FileMode"),
    ("LabelSelector", "matchLabels", "LabelValue"),
    ("LabelSelectorRequirement", "key", "LabelKey"),
    ("LabelSelectorRequirement", "values", "LabelValue"),
    ("NodeSelectorRequirement", "key", "LabelKey"),
    ("ObjectMeta", "labels", "LabelValue"),
    ("PodAffinityTerm", "topologyKey", "LabelKey"),
    ("PodReadinessGate", "conditionType", "LabelKey"),
    ("PodSchedulingGate", "name", "LabelKey"),
    ("PodSpec", "hostname", "DnsLabel"),
    ("PodSpec", "nodeName", "DnsSubdomain"),
    ("PodSpec", "nodeSelector", "LabelValue"),
    ("PodSpec", "overhead", "Amount"),
    ("PodSpec", "priorityClassName", "DnsSubdomain"),
    ("PodSpec", "runtimeClassName", "DnsSubdomain"),
    ("PodSpec", "serviceAccountName", "DnsSubdomain"),
    ("PodSpec", "subdomain", "DnsLabel"),
    ("ProjectedVolumeSource", "defaultMode", "FileMode"),
    ("ResourceRequirements", "limits", "Amount"),
    ("ResourceRequirements", "requests", "Amount"),
    ("SecretEnvSource", "name", "EnvSourceName"),
    ("SecretKeySelector", "key", "ConfigKey"),
    ("SecretKeySelector", "name", "DnsSubdomain"),
    ("SecretVolumeSource", "defaultMode", "FileMode"),
    ("TCPSocketAction", "port", "Port"),
    ("Toleration", "key", "LabelKey"),
    ("Volume", "name", "DnsLabel"),
    ("VolumeDevice", "name", "DnsLabel"),
    ("VolumeMount", "name", "DnsLabel"),
];

/// Type, field and the rule for the keys of the map.
const KEYS: [(&str, &str, &str); 7] = [
    ("LabelSelector", "matchLabels", "LabelKey"),
    ("ObjectMeta", "annotations", "AnnotationKey"),
    ("ObjectMeta", "labels", "LabelKey"),
    ("PodSpec", "nodeSelector", "LabelKey"),
    ("PodSpec", "overhead", "LabelKey"),
    ("ResourceRequirements", "limits", "LabelKey"),
    ("ResourceRequirements", "requests", "LabelKey"),
];

/// The rules of one field.
#[derive(Clone, Copy, Default)]
pub(super) struct Rules {
    pub(super) value: Option<&'static str>,
    pub(super) keys: Option<&'static str>,
}

/// Returns the rules of a type's field.
pub(super) fn rules(of: &str, field: &str) -> Rules {
    let find = |table: &[(&str, &str, &'static str)]| {
        let mut rows = table.iter();
        rows.find(|row| row.0 == of && row.1 == field)
            .map(|row| row.2)
    };
    Rules {
        value: find(&VALUES),
        keys: find(&KEYS),
    }
}

/// Returns the rows whose field is not in the list: it is misspelt, or Kubernetes has it no more.
pub(super) fn unused(fields: &[(&str, &str)]) -> Vec<(&'static str, &'static str)> {
    let rows = VALUES.iter().chain(&KEYS).map(|row| (row.0, row.1));
    rows.filter(|row| !fields.contains(row)).collect()
}
