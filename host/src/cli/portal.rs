//! The arguments of the portal controller.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use podloom_controllers::outbound::Cidr;
use podloom_controllers::{ChainPolicy, ClientVersion, Observation, TunnelSettings};

use super::duration;

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
    PossibleValuesParser::new([
        PossibleValue::new("roll").help("Running tunnels get it at once, a few at a time"),
        PossibleValue::new("defer").help("Each tunnel gets it with its next other change"),
    ])
    .map(|name| match name.as_str() {
        "defer" => ChainPolicy::Defer,
        _ => ChainPolicy::Roll,
    })
}

/// Parses how the state of relays is found out.
fn observations() -> impl TypedValueParser<Value = Observation> {
    PossibleValuesParser::new([
        PossibleValue::new("poll").help("The relays are asked"),
        PossibleValue::new("assume").help("Nobody is asked"),
    ])
    .map(|name| match name.as_str() {
        "assume" => Observation::Assume,
        _ => Observation::Poll,
    })
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

#[cfg(test)]
mod tests;
