//! The arguments of the infrastructure controller.

use std::num::NonZeroU16;
use std::time::Duration;

use clap::{ArgAction, Args};
use podloom_controllers::outbound::Cidr;

use super::{duration, namespace};

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
