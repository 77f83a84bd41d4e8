//! Which fields are looked at, as paths below `/spec`.

use crate::config::{Config, Report};
use crate::policy::PROBE_HOSTS;

/// Small objects are named whole, and so are ephemeral containers: most pods have none.
/// The lists of containers come in the order in which they start.
const ALWAYS: &[&str] = &[
    "/hostNetwork",
    "/hostPID",
    "/hostIPC",
    "/hostUsers",
    "/os",
    "/nodeSelector/kubernetes.io~1os",
    "/securityContext",
    "/volumes",
    "/initContainers/*/name",
    "/initContainers/*/securityContext",
    "/initContainers/*/ports/*/hostPort",
    "/containers/*/name",
    "/containers/*/securityContext",
    "/containers/*/ports/*/hostPort",
    "/ephemeralContainers",
];
const HANDLERS: &[&str] = &[
    "/initContainers/*/livenessProbe/httpGet/host",
    "/initContainers/*/livenessProbe/tcpSocket/host",
    "/initContainers/*/readinessProbe/httpGet/host",
    "/initContainers/*/readinessProbe/tcpSocket/host",
    "/initContainers/*/startupProbe/httpGet/host",
    "/initContainers/*/startupProbe/tcpSocket/host",
    "/initContainers/*/lifecycle/postStart/httpGet/host",
    "/initContainers/*/lifecycle/postStart/tcpSocket/host",
    "/initContainers/*/lifecycle/preStop/httpGet/host",
    "/initContainers/*/lifecycle/preStop/tcpSocket/host",
    "/containers/*/livenessProbe/httpGet/host",
    "/containers/*/livenessProbe/tcpSocket/host",
    "/containers/*/readinessProbe/httpGet/host",
    "/containers/*/readinessProbe/tcpSocket/host",
    "/containers/*/startupProbe/httpGet/host",
    "/containers/*/startupProbe/tcpSocket/host",
    "/containers/*/lifecycle/postStart/httpGet/host",
    "/containers/*/lifecycle/postStart/tcpSocket/host",
    "/containers/*/lifecycle/preStop/httpGet/host",
    "/containers/*/lifecycle/preStop/tcpSocket/host",
];
const IMAGES: &[&str] = &["/initContainers/*/image", "/containers/*/image"];
const PULL_POLICIES: &[&str] = &[
    "/initContainers/*/imagePullPolicy",
    "/containers/*/imagePullPolicy",
];
/// Only whether limits and requests are there counts: none has a resource without a name, so each is shown as an empty object.
const RESOURCES: &[&str] = &[
    "/resources",
    "/initContainers/*/resources/limits/",
    "/initContainers/*/resources/requests/",
    "/containers/*/resources/limits/",
    "/containers/*/resources/requests/",
];
const MOUNTS: &[&str] = &[
    "/initContainers/*/volumeMounts/*/mountPath",
    "/containers/*/volumeMounts/*/mountPath",
];
const ACCOUNTS: &[&str] = &["/serviceAccountName", "/serviceAccount"];
const TOKEN: &[&str] = &["/automountServiceAccountToken"];
const SERVICE_LINKS: &[&str] = &["/enableServiceLinks"];

/// Returns the fields that matter with this configuration.
pub(super) fn fields(config: &Config) -> Vec<&'static str> {
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
        (!config.exemptions.is_empty(), ACCOUNTS),
        (token, TOKEN),
        (config.enable_service_links.is_some(), SERVICE_LINKS),
    ];
    let mut fields = Vec::with_capacity(64);
    for (wanted, group) in groups {
        if wanted {
            fields.extend_from_slice(group);
        }
    }
    fields
}
