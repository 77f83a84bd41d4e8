//! The portal controller's part of the operator.

use std::sync::Arc;

use anyhow::{Context, Result};
use podloom_control_loop::LoopMetrics;
use podloom_controllers::outbound::{Pem, Roots, Tls};
use podloom_controllers::{ChainPolicy, Observation, PortalSetup, RelaySettings};
use podloom_mutation::PodMutator;

use crate::cli::{ChainPolicyArgument, ObservationArgument, PortalArguments};

/// Returns what the portal controller runs with.
///
/// # Errors
///
/// Returns an error if the file with certificate authorities cannot be read or has none.
pub(super) fn setup(
    arguments: &PortalArguments,
    mutator: Arc<dyn PodMutator>,
    loops: Arc<LoopMetrics>,
) -> Result<PortalSetup> {
    Ok(PortalSetup {
        mutator,
        tunnel: arguments.tunnel.settings(),
        chain_policy: match arguments.chain_policy {
            ChainPolicyArgument::Roll => ChainPolicy::Roll,
            ChainPolicyArgument::Defer => ChainPolicy::Defer,
        },
        max_chain_rolls: arguments.max_chain_rolls.get(),
        relay_grace: arguments.relay_grace,
        relays: RelaySettings {
            observation: match arguments.relay_observation {
                ObservationArgument::Poll => Observation::Poll,
                ObservationArgument::Assume => Observation::Assume,
            },
            interval: arguments.relay_poll_interval,
            allow: arguments.relay_allow.clone(),
            deny: arguments.relay_deny.clone(),
            tls: tls(arguments)?,
            recorder: loops,
        },
    })
}

fn tls(arguments: &PortalArguments) -> Result<Tls> {
    let Some(file) = &arguments.relay_ca_file else {
        return Tls::new(&Roots::Public, None).context("cannot set up TLS for relays");
    };
    let read = || Tls::new(&Roots::PublicAnd(&Pem::read(file)?), None);
    read().with_context(|| format!("--portal-relay-ca-file {}", file.display()))
}
