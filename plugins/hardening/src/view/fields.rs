//! Which fields are looked at.

use crate::config::{Config, PROBE_HOSTS, Report};

/// Small objects are named whole, and so are ephemeral containers: most pods have none.
/// The lists of containers come in the order in which they start.
const ALWAYS: &[&str] = &[
    "/metadata/annotations",
    "/spec/hostNetwork",
    "/spec/hostPID",
    "/spec/hostIPC",
    "/spec/hostUsers",
    "/spec/os",
    "/spec/nodeSelector/kubernetes.io~1os",
    "/spec/securityContext",
    "/spec/volumes",
    "/spec/initContainers/*/name",
    "/spec/initContainers/*/securityContext",
    "/spec/initContainers/*/ports/*/hostPort",
    "/spec/containers/*/name",
    "/spec/containers/*/securityContext",
    "/spec/containers/*/ports/*/hostPort",
    "/spec/ephemeralContainers",
];
const HANDLERS: &[&str] = &[
    "/spec/initContainers/*/livenessProbe/httpGet/host",
    "/spec/initContainers/*/livenessProbe/tcpSocket/host",
    "/spec/initContainers/*/readinessProbe/httpGet/host",
    "/spec/initContainers/*/readinessProbe/tcpSocket/host",
    "/spec/initContainers/*/startupProbe/httpGet/host",
    "/spec/initContainers/*/startupProbe/tcpSocket/host",
    "/spec/initContainers/*/lifecycle/postStart/httpGet/host",
    "/spec/initContainers/*/lifecycle/postStart/tcpSocket/host",
    "/spec/initContainers/*/lifecycle/preStop/httpGet/host",
    "/spec/initContainers/*/lifecycle/preStop/tcpSocket/host",
    "/spec/containers/*/livenessProbe/httpGet/host",
    "/spec/containers/*/livenessProbe/tcpSocket/host",
    "/spec/containers/*/readinessProbe/httpGet/host",
    "/spec/containers/*/readinessProbe/tcpSocket/host",
    "/spec/containers/*/startupProbe/httpGet/host",
    "/spec/containers/*/startupProbe/tcpSocket/host",
    "/spec/containers/*/lifecycle/postStart/httpGet/host",
    "/spec/containers/*/lifecycle/postStart/tcpSocket/host",
    "/spec/containers/*/lifecycle/preStop/httpGet/host",
    "/spec/containers/*/lifecycle/preStop/tcpSocket/host",
];
const IMAGES: &[&str] = &["/spec/initContainers/*/image", "/spec/containers/*/image"];
const PULL_POLICIES: &[&str] = &[
    "/spec/initContainers/*/imagePullPolicy",
    "/spec/containers/*/imagePullPolicy",
];
/// Only whether limits and requests are there counts: none has a resource without a name, so each is shown as an empty object.
const RESOURCES: &[&str] = &[
    "/spec/resources",
    "/spec/initContainers/*/resources/limits/",
    "/spec/initContainers/*/resources/requests/",
    "/spec/containers/*/resources/limits/",
    "/spec/containers/*/resources/requests/",
];
const MOUNTS: &[&str] = &[
    "/spec/initContainers/*/volumeMounts/*/mountPath",
    "/spec/containers/*/volumeMounts/*/mountPath",
];
const ACCOUNTS: &[&str] = &["/spec/serviceAccountName", "/spec/serviceAccount"];
const LABELS: &[&str] = &["/metadata/labels"];
const TOKEN: &[&str] = &["/spec/automountServiceAccountToken"];
/// The API server sets the second one too, so where that is missing, somebody wrote the first.
const SERVICE_LINKS: &[&str] = &["/spec/enableServiceLinks", "/spec/schedulerName"];

/// Returns the fields that matter with this configuration.
pub(crate) fn fields(config: &Config) -> Vec<&'static str> {
    let reports = |report: Report| config.report.contains(&report);
    let pull_policies = reports(Report::PullPolicy);
    let read_only = config.read_only_root_filesystem.is_some();
    let token = config.automount_service_account_token.is_some();
    let groups = [
        (true, ALWAYS),
        (config.version.0 >= PROBE_HOSTS, HANDLERS),
        (
            read_only || pull_policies || reports(Report::LatestTag) || reports(Report::Digest),
            IMAGES,
        ),
        (pull_policies, PULL_POLICIES),
        (reports(Report::Resources), RESOURCES),
        (read_only || token, MOUNTS),
        (token || !config.exemptions.is_empty(), ACCOUNTS),
        (config.asks_for_labels(), LABELS),
        (token, TOKEN),
        (config.enable_service_links.is_some(), SERVICE_LINKS),
    ];
    let wanted = groups.into_iter().filter(|(wanted, _)| *wanted);
    wanted.flat_map(|(_, group)| group).copied().collect()
}
