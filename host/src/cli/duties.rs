//! The arguments of the portal controller and of the infrastructure controller.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::{ArgAction, Args};
use podloom_engine::outbound::Cidr;
use podloom_portal::{ChainPolicy, ClientVersion, Observation, TunnelSettings};

use super::{duration, namespace, one_of};

/// The options of the portal controller.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Portal controller")]
pub(crate) struct PortalArguments {
    #[command(flatten)]
    pub(crate) tunnel: TunnelArguments,

    /// How long the pods of a tunnel may be ready before all relays have to be connected.
    #[arg(long = "portal-relay-grace", value_name = "TIME", env = "PODLOOM_PORTAL_RELAY_GRACE", default_value = "30s", value_parser = duration::parse)]
    pub(crate) relay_grace: Duration,

    /// What to do when the plugin chain changes: with roll, running tunnels get the new chain at once, a few at a time; with defer,
    /// each gets it with its next other change.
    #[arg(
        long = "portal-chain-policy",
        value_name = "POLICY",
        env = "PODLOOM_PORTAL_CHAIN_POLICY",
        default_value = "roll",
        value_parser = chain_policies()
    )]
    pub(crate) chain_policy: ChainPolicy,

    /// How many tunnels may roll at the same time because the plugin chain changed.
    #[arg(
        long = "portal-max-chain-rolls",
        value_name = "N",
        env = "PODLOOM_PORTAL_MAX_CHAIN_ROLLS",
        default_value = "5"
    )]
    pub(crate) max_chain_rolls: NonZeroU16,

    /// How to find out whether relays are connected: with poll, the operator asks the relays; with assume, it asks nobody, and
    /// reports a relay as connected while a pod of the tunnel is ready. Use assume where the operator cannot reach the relays.
    #[arg(
        long = "portal-relay-observation",
        value_name = "HOW",
        env = "PODLOOM_PORTAL_RELAY_OBSERVATION",
        default_value = "poll",
        value_parser = observations()
    )]
    pub(crate) relay_observation: Observation,

    /// How often each relay is asked, give or take a tenth.
    #[arg(long = "portal-relay-poll-interval", value_name = "TIME", env = "PODLOOM_PORTAL_RELAY_POLL_INTERVAL", default_value = "30s", value_parser = duration::parse_positive)]
    pub(crate) relay_poll_interval: Duration,

    /// Allow requests to relays with addresses in this network, such as 10.0.0.0/8; repeat the option for several. By default
    /// requests go only to public addresses, since any user can name a relay, and names of the cluster, such as web.team.svc, are
    /// not even looked up.
    #[arg(
        long = "portal-relay-allow-cidr",
        value_name = "CIDR",
        env = "PODLOOM_PORTAL_RELAY_ALLOW_CIDR",
        value_delimiter = ','
    )]
    pub(crate) relay_allow: Vec<Cidr>,

    /// Never send requests to relays with addresses in this network, even if --portal-relay-allow-cidr allows them; repeat the
    /// option for several.
    #[arg(
        long = "portal-relay-deny-cidr",
        value_name = "CIDR",
        env = "PODLOOM_PORTAL_RELAY_DENY_CIDR",
        value_delimiter = ','
    )]
    pub(crate) relay_deny: Vec<Cidr>,

    /// A PEM file with certificate authorities that relays may use, besides the public ones. It is read at the start.
    #[arg(
        long = "portal-relay-ca-file",
        value_name = "FILE",
        env = "PODLOOM_PORTAL_RELAY_CA_FILE"
    )]
    pub(crate) relay_ca_file: Option<PathBuf>,
}

/// What the Deployments of tunnels depend on besides the objects.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Tunnels of PortalExposes")]
pub(crate) struct TunnelArguments {
    /// The image of the tunnel client, for TunnelClasses that name none.
    #[arg(
        long = "portal-tunnel-image",
        value_name = "IMAGE",
        env = "PODLOOM_PORTAL_TUNNEL_IMAGE",
        default_value = "ghcr.io/gosuda/portal-tunnel:2.4.3"
    )]
    pub(crate) tunnel_image: String,

    /// The version of the client in that image. It decides which flags the client gets.
    #[arg(
        long = "portal-tunnel-version",
        value_name = "X.Y.Z",
        env = "PODLOOM_PORTAL_TUNNEL_VERSION",
        default_value = "2.4.3"
    )]
    pub(crate) tunnel_version: ClientVersion,

    /// How long the Deployment of a tunnel may take to make progress. After that, the PortalExpose is Failed or Degraded.
    #[arg(long = "portal-progress-deadline", value_name = "TIME", env = "PODLOOM_PORTAL_PROGRESS_DEADLINE", default_value = "120s", value_parser = seconds)]
    pub(crate) progress_deadline: Duration,
}

/// Parses what a new chain does to running tunnels.
fn chain_policies() -> impl TypedValueParser<Value = ChainPolicy> {
    let roll = "Running tunnels get it at once, a few at a time";
    let defer = "Each tunnel gets it with its next other change";
    one_of([
        ("roll", roll, ChainPolicy::Roll),
        ("defer", defer, ChainPolicy::Defer),
    ])
}

/// Parses how the state of relays is found out.
fn observations() -> impl TypedValueParser<Value = Observation> {
    one_of([
        ("poll", "The relays are asked", Observation::Poll),
        ("assume", "Nobody is asked", Observation::Assume),
    ])
}

impl TunnelArguments {
    /// What all tunnels have in common.
    pub(crate) fn settings(&self) -> TunnelSettings {
        TunnelSettings {
            image: self.tunnel_image.clone(),
            version: self.tunnel_version,
            progress_deadline: self.progress_deadline,
        }
    }
}

/// Parses a time in whole seconds, at least one.
fn seconds(text: &str) -> Result<Duration, String> {
    let duration = duration::parse_positive(text)?;
    if duration.subsec_millis() != 0 {
        return Err("it must be whole seconds, for example 120s".to_owned());
    }
    Ok(duration)
}

/// The options of the infrastructure controller.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Infrastructure controller")]
pub(crate) struct InfrastructureArguments {
    /// How many Clusters are reconciled at the same time, instead of --concurrency: most of them wait for an Infrastructure Manager.
    #[arg(
        long = "infrastructure-workers",
        value_name = "N",
        env = "PODLOOM_INFRASTRUCTURE_WORKERS",
        default_value = "16"
    )]
    pub(crate) workers: NonZeroU16,

    /// The namespace of the Secrets that GlobalInfrastructureProviders and GlobalClouds name; by default the operator's own.
    #[arg(long = "global-secret-namespace", value_name = "NS", env = "PODLOOM_GLOBAL_SECRET_NAMESPACE", value_parser = namespace)]
    pub(crate) global_secret_namespace: Option<String>,

    /// How long an Infrastructure Manager must have answered before a request whose answer was lost is sent again, if nothing shows
    /// that it was carried out. At least a minute is wise: it may carry out a request late.
    #[arg(long = "im-settle", value_name = "TIME", env = "PODLOOM_IM_SETTLE", default_value = "60s", value_parser = settle)]
    pub(crate) settle: Duration,

    /// Allow requests to Infrastructure Managers and to the API servers of clusters with addresses in this network, such as
    /// 127.0.0.0/8; repeat the option for several. By default, loopback and link-local addresses are blocked.
    #[arg(
        long = "im-allow-cidr",
        value_name = "CIDR",
        env = "PODLOOM_IM_ALLOW_CIDR",
        value_delimiter = ','
    )]
    pub(crate) allow: Vec<Cidr>,

    /// Block requests to addresses in this network, whatever is allowed; repeat the option for several.
    #[arg(
        long = "im-deny-cidr",
        value_name = "CIDR",
        env = "PODLOOM_IM_DENY_CIDR",
        value_delimiter = ','
    )]
    pub(crate) deny: Vec<Cidr>,

    /// How often each infrastructure is compared with what is known of it, give or take a tenth. A difference is repaired, or
    /// reported, as the Cluster's driftPolicy says.
    #[arg(long = "drift-interval", value_name = "TIME", env = "PODLOOM_DRIFT_INTERVAL", default_value = "300s", value_parser = duration::parse_positive)]
    pub(crate) drift_interval: Duration,

    /// Whether to ask the API server of each cluster for its version. With false, a Cluster stays CONNECTING. Use false where the
    /// operator cannot reach the clusters.
    #[arg(long = "probe-clusters", value_name = "BOOL", env = "PODLOOM_PROBE_CLUSTERS", default_value = "true", action = ArgAction::Set)]
    pub(crate) probe_clusters: bool,
}

/// The shortest settle time: within less, no answer could show anything.
const SETTLE_MIN: Duration = Duration::from_secs(1);

/// Parses the settle time.
fn settle(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        settle if settle < SETTLE_MIN => Err(
            "it must be at least 1s, and 60s is wise: an Infrastructure Manager may carry out a request late".to_owned(),
        ),
        settle => Ok(settle),
    }
}

#[cfg(test)]
mod tests;
