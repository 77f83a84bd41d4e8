//! The arguments of the admission webhooks.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use kube::core::GroupVersionKind;
use podloom_controllers::duties::WEBHOOK_NAME;
use podloom_webhook::{OwnerKind, UnknownOwners, WorkloadMode};

use super::cluster::{chain_digest, owners};
use super::{duration, is_dns_label, namespace, object_name, one_of};
use crate::manifest::NamedTemplate;

/// The shortest lifetime of certificates: with a shorter one, a renewal would come too late.
const LIFETIME_MIN: Duration = Duration::from_secs(2);

/// The options of the admission webhooks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Admission webhooks")]
pub(crate) struct WebhookArguments {
    /// Serve admission webhooks over TLS at this address, for example 0.0.0.0:8443: /mutate/pods passes the pods of any workload
    /// through the plugin chain, and /validate checks Browsers and BrowserConfigs. Off by default. Every replica serves them. With
    /// --controllers none, the process does nothing else.
    #[arg(long = "webhook", value_name = "ADDR", env = "PODLOOM_WEBHOOK")]
    pub(crate) address: Option<SocketAddr>,

    /// The name of the MutatingWebhookConfiguration, of the ValidatingWebhookConfiguration, of the Service, and, without
    /// --lease-name, of the Lease. The Secret with the certificates has this name with -tls. A second installation needs another
    /// name.
    #[arg(long = "webhook-name", value_name = "NAME", env = "PODLOOM_WEBHOOK_NAME", default_value = WEBHOOK_NAME, value_parser = object_name)]
    pub(crate) name: String,

    /// The directory with tls.crt and tls.key, for example from a Secret of cert-manager. Changes are noticed within seconds. The
    /// certificate authority must be in the webhook configurations. By default the operator makes certificates itself, renews
    /// them, and writes their authority into the webhook configurations.
    #[arg(long, value_name = "DIR", env = "PODLOOM_TLS_DIR")]
    pub(crate) tls_dir: Option<PathBuf>,

    /// A host name or IP address in the certificates that the operator makes; repeat the option for several. By default it is
    /// the name of the Service, podloom-webhook.NAMESPACE.svc.
    #[arg(
        long = "webhook-host",
        value_name = "HOST",
        env = "PODLOOM_WEBHOOK_HOST",
        value_delimiter = ','
    )]
    pub(crate) hosts: Vec<String>,

    /// Answer only clients with a certificate that an authority of this file signed, in PEM. A replaced file counts within seconds. The
    /// API server shows a certificate if its admission configuration says so. By default everybody is answered.
    #[arg(
        long = "webhook-client-ca",
        value_name = "FILE",
        env = "PODLOOM_WEBHOOK_CLIENT_CA"
    )]
    pub(crate) client_ca: Option<PathBuf>,

    /// Of these clients, answer only one whose certificate has this common name or DNS name; repeat the option for several. By default
    /// any client of the authority is answered.
    #[arg(long = "webhook-client-name", value_name = "NAME", env = "PODLOOM_WEBHOOK_CLIENT_NAME", value_delimiter = ',', requires = "client_ca", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) client_names: Vec<String>,

    /// How long a certificate that the operator makes is valid. It is renewed after two thirds of this time. Weeks are sensible; less
    /// than 2s is refused, and less than a day is for tests.
    #[arg(long, value_name = "TIME", env = "PODLOOM_CERTIFICATE_LIFETIME", default_value = "2160h", value_parser = lifetime)]
    pub(crate) certificate_lifetime: Duration,

    /// Trust this ServiceAccount to say which pods passed the chain before; repeat the option for several. A pod that it creates
    /// is admitted unchanged if the pod carries the stamp of exactly this chain. By default no account is trusted.
    #[arg(long = "trusted-account", value_name = "NS/NAME", env = "PODLOOM_TRUSTED_ACCOUNT", value_delimiter = ',', value_parser = account)]
    pub(crate) trusted: Vec<String>,

    /// Another kind whose controller creates pods, and the ServiceAccount of this controller; repeat the option for several. No
    /// plugin may change the labels in spec.selector of such an object. Kubernetes' own kinds are known, so they are refused here. The
    /// operator needs the right to get objects of the kind.
    #[arg(long = "pod-owner", value_name = "KIND.VERSION.GROUP=NS/NAME", env = "PODLOOM_POD_OWNER", value_delimiter = ',', value_parser = pod_owner)]
    pub(crate) pod_owners: Vec<OwnerKind>,

    /// The user as which kube-controller-manager creates pods, if it is neither system:kube-controller-manager nor one ServiceAccount
    /// in kube-system for each controller; repeat the option for several. Labels of the pods that it creates are protected as usual, so
    /// name nobody else.
    #[arg(long = "controller-user", value_name = "USER", env = "PODLOOM_CONTROLLER_USER", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    pub(crate) controller_users: Vec<String>,

    /// Which labels no plugin may change if the controller of a pod is of another kind, does not exist, or did not create the pod:
    /// with ignore none, with protect all. With protect, whoever creates a pod can keep plugins from its labels.
    #[arg(
        long = "unknown-owners",
        value_name = "HOW",
        env = "PODLOOM_UNKNOWN_OWNERS",
        default_value = "ignore",
        value_parser = unknown_owners()
    )]
    pub(crate) unknown_owners: UnknownOwners,

    /// How long the webhooks are still served after SIGTERM. In this time the API server learns to call other replicas. With 10
    /// seconds more for the last reviews, it must fit into --shutdown-timeout.
    #[arg(long = "webhook-drain", value_name = "TIME", env = "PODLOOM_WEBHOOK_DRAIN", default_value = "12s", value_parser = duration::parse)]
    pub(crate) drain: Duration,

    /// How often to look for pods that missed the chain, were changed after it, or have ephemeral containers that it would deny or
    /// change, as podloom drift does, for the metric podloom_drift_pods. One replica looks. It needs the rights that podloom rbac --for
    /// drift prints. By default nobody looks.
    #[arg(id = "webhook_drift_interval", long = "webhook-drift-interval", value_name = "TIME", env = "PODLOOM_WEBHOOK_DRIFT_INTERVAL", default_value = "0s", value_parser = duration::parse)]
    pub(crate) drift_interval: Duration,

    /// Evict pods that wait at the gate once a webhook answers, so that their controllers replace them: they were created while none
    /// did. One replica evicts. Needs deploy/options/gate, which puts the gate on new pods, and the rights that podloom rbac --for gate
    /// prints.
    #[arg(long = "webhook-gate", env = "PODLOOM_WEBHOOK_GATE")]
    pub(crate) gate: bool,

    /// What /review/workloads does if the chain would deny the pods of a workload: with warn, kubectl shows a warning; with deny, the workload
    /// is denied. Needs deploy/options/workloads, so that the API server asks.
    #[arg(long = "webhook-workloads", value_name = "HOW", env = "PODLOOM_WEBHOOK_WORKLOADS", default_value = "warn", value_parser = workloads())]
    pub(crate) workloads: WorkloadMode,

    /// Where objects of another kind have a pod template, for /review/workloads, as GROUP/KIND=/path. In the path, * is every element of a
    /// list. Kubernetes' own workloads, and all with spec.template.spec.containers, are known. Repeat the option for several.
    #[arg(long = "webhook-pod-template", value_name = "TEMPLATE", env = "PODLOOM_WEBHOOK_POD_TEMPLATE", value_delimiter = ',', value_parser = NamedTemplate::parse)]
    pub(crate) pod_templates: Vec<NamedTemplate>,

    #[command(flatten)]
    pub(crate) heal: HealArguments,

    /// Write what was found as reports of this API group, one for each namespace and one for the cluster: denials, drift if somebody looks
    /// for it, what a candidate would reject, rollouts that were taken back, and a chain that cannot be loaded. Give both groups for both
    /// kinds of reports. Needs the CRDs of the group, and the rights that podloom rbac --for reports prints. By default there are none.
    #[arg(id = "webhook_reports", long = "webhook-reports", value_name = "GROUP", env = "PODLOOM_WEBHOOK_REPORTS", value_delimiter = ',', value_parser = report_group())]
    pub(crate) reports: Vec<ReportGroup>,

    /// Serve without TLS, to measure what TLS costs. The API server never connects without TLS.
    #[arg(long = "webhook-without-tls", hide = true)]
    pub(crate) without_tls: bool,
}

/// How pods are replaced that missed the chain.
#[derive(Args, Clone, Debug)]
pub(crate) struct HealArguments {
    /// Have pods replaced that missed the chain: one replica evicts them, one of each owner at a time, and the next one when the new one
    /// is ready. PodDisruptionBudgets hold. With dry-run, which is meant if HOW is left out, it only counts them. Needs the rights that
    /// podloom rbac --for heal prints. By default nothing is replaced.
    #[arg(id = "webhook_heal", long = "webhook-heal", value_name = "HOW", env = "PODLOOM_WEBHOOK_HEAL", num_args = 0..=1, require_equals = true, default_missing_value = "dry-run", value_parser = heal())]
    pub(crate) how: Option<Heal>,

    /// Have pods of other chains than the present one replaced, too. Each change of the chain then replaces the pods of all labelled
    /// namespaces.
    #[arg(
        id = "webhook_heal_older",
        long = "webhook-heal-older",
        env = "PODLOOM_WEBHOOK_HEAL_OLDER",
        requires = "webhook_heal"
    )]
    pub(crate) older: bool,

    /// Have pods replaced, too, that passed the chain with this digest; repeat the option for several.
    #[arg(id = "webhook_heal_banned", long = "webhook-heal-banned-chain", value_name = "DIGEST", env = "PODLOOM_WEBHOOK_HEAL_BANNED_CHAIN", requires = "webhook_heal", value_delimiter = ',', value_parser = chain_digest)]
    pub(crate) banned: Vec<String>,

    /// How many owners are worked on at once.
    #[arg(id = "webhook_heal_owners", long = "webhook-heal-owners", value_name = "NUMBER", env = "PODLOOM_WEBHOOK_HEAL_OWNERS", default_value = "3", value_parser = owners())]
    pub(crate) owners: u32,

    /// How long a new pod may take to become ready. Its owner gets no further one after that, and no other owner of its namespace is
    /// begun; the Event HealStopped says so.
    #[arg(id = "webhook_heal_ready_within", long = "webhook-heal-ready-within", value_name = "TIME", env = "PODLOOM_WEBHOOK_HEAL_READY_WITHIN", default_value = "5m", value_parser = duration::parse)]
    pub(crate) ready_within: Duration,
}

/// What is done about pods that missed the chain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Heal {
    /// They are counted.
    DryRun,
    Evict,
}

impl Heal {
    /// As the option has it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::DryRun => "dry-run",
            Self::Evict => "evict",
        }
    }
}

/// The API group of reports.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum ReportGroup {
    OpenReports,
    WgPolicy,
}

impl ReportGroup {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::OpenReports => "openreports.io",
            Self::WgPolicy => "wgpolicyk8s.io",
        }
    }
}

fn report_group() -> impl TypedValueParser<Value = ReportGroup> {
    use ReportGroup::{OpenReports, WgPolicy};
    one_of([OpenReports, WgPolicy].map(|it| (it.as_str(), "", it)))
}

fn heal() -> impl TypedValueParser<Value = Heal> {
    one_of([("dry-run", "", Heal::DryRun), ("evict", "", Heal::Evict)])
}

/// Parses what happens to workloads.
fn workloads() -> impl TypedValueParser<Value = WorkloadMode> {
    one_of([
        ("warn", "", WorkloadMode::Warn),
        ("deny", "", WorkloadMode::Deny),
    ])
}

/// Parses the lifetime of certificates.
fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = duration::parse(text)?;
    if lifetime < LIFETIME_MIN {
        return Err(format!("it must be at least {}s", LIFETIME_MIN.as_secs()));
    }
    Ok(lifetime)
}

/// Parses which labels no plugin may change if the controller of a pod is not known.
fn unknown_owners() -> impl TypedValueParser<Value = UnknownOwners> {
    one_of([
        ("ignore", "", UnknownOwners::Ignore),
        ("protect", "", UnknownOwners::Protect),
    ])
}

/// Parses `NS/NAME` of a ServiceAccount. Returns the name by which the API server knows it.
fn account(text: &str) -> Result<String, String> {
    let (ns, name) = text
        .split_once('/')
        .ok_or("write NAMESPACE/NAME, for example podloom-system/podloom")?;
    let (ns, name) = (namespace(ns)?, object_name(name)?);
    Ok(format!("system:serviceaccount:{ns}:{name}"))
}

/// Parses `KIND.VERSION.GROUP=NS/NAME`.
fn pod_owner(text: &str) -> Result<OwnerKind, String> {
    let usage = "write KIND.VERSION.GROUP=NAMESPACE/NAME, for example CloneSet.v1alpha1.apps.kruise.io=kruise-system/kruise-manager";
    let (kind, controller) = text.split_once('=').ok_or(usage)?;
    let [kind, version, group] = kind.splitn(3, '.').collect::<Vec<_>>()[..] else {
        return Err(usage.to_owned());
    };
    let is_kind = kind.starts_with(|first: char| first.is_ascii_uppercase())
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_kind || !is_dns_label(version) || object_name(group).is_err() {
        return Err(usage.to_owned());
    }
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let owner = OwnerKind::new(&gvk, account(controller)?);
    if owner.is_built_in() {
        return Err(format!(
            "{kind} of {group} is built in, with its controller; leave it out, or name another user of kube-controller-manager with --controller-user"
        ));
    }
    Ok(owner)
}

#[cfg(test)]
mod tests;
