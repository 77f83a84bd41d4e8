//! Which fields are looked at, as paths below `/spec`.

use crate::config::{Config, Report};
use crate::policy::PROBE_HOSTS;

/// Each field is work for the host, so small objects are named whole, and so are init and ephemeral containers: most pods have
/// none.
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
    "/initContainers",
    "/containers/*/name",
    "/containers/*/securityContext",
    "/containers/*/ports/*/hostPort",
    "/ephemeralContainers",
];
const HANDLERS: &[&str] = &[
    "/containers/*/livenessProbe",
    "/containers/*/readinessProbe",
    "/containers/*/startupProbe",
    "/containers/*/lifecycle",
];
const IMAGES: &[&str] = &["/containers/*/image"];
const PULL_POLICIES: &[&str] = &["/containers/*/imagePullPolicy"];
const RESOURCES: &[&str] = &["/resources", "/containers/*/resources"];
const MOUNTS: &[&str] = &["/containers/*/volumeMounts/*/mountPath"];
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
    let mut fields = Vec::with_capacity(48);
    for (wanted, group) in groups {
        if wanted {
            fields.extend_from_slice(group);
        }
    }
    fields
}
