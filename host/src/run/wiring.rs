//! Builds the operator from the arguments.

use std::env::consts::ARCH;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::FutureExt;
use kube::{Client, Config};
use podloom_control_loop::LoopMetrics;
use podloom_controllers::duties::{Chain, Duty, GivenNames, Row};
use podloom_controllers::{
    BlockingThreads, BrowserSetup, Clock, ControllerMetrics, DutySetup, Setup, Timeouts,
};
use podloom_mutators::{PluginMetrics, Values};
use podloom_webhook::PeerTurns;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::candidate::CandidateChain;
use super::cleaner;
use super::drift::DriftTask;
use super::duty::{DutyTask, Work};
use super::history::History;
use super::infrastructure;
use super::lease::Candidate;
use super::loading::{self, Loading};
use super::metrics::DutyMetrics;
use super::own_pod;
use super::parts::Parts;
use super::portal;
use super::preflight::{LeaseName, Preflight};
use super::process::ProcessMetrics;
use super::state::{DutyState, OperatorState};
use super::webhook::{self, Certificates, WebhookTask};
use crate::cli::{ElectionArguments, RunArguments};
use crate::client::{self, Requests};
use crate::mutator::{ChainMutator, InTurns, NoChainPolicy};
use crate::traces::Exporter;

/// All parts of the operator.
pub(super) struct Operator {
    pub(super) state: Arc<OperatorState>,
    pub(super) registry: Arc<Registry>,
    /// The enabled duties.
    pub(super) duty_tasks: Vec<DutyTask>,
    /// The admission webhooks; none unless they are switched on.
    pub(super) webhook: Option<WebhookTask>,
    has_plugins: bool,
}

fn duty_state(
    row: &'static Row,
    metrics: &DutyMetrics,
    stop: &CancellationToken,
) -> Arc<DutyState> {
    Arc::new(DutyState {
        lacking: metrics.missing_rights.of([row.name]).clone(),
        ..DutyState::new(row, metrics.leader.of([row.name]).clone(), stop.clone())
    })
}

/// Builds the operator of a cluster and the loader of its chain. Neither is started yet, but the webhooks have their port.
pub(super) fn operator(
    config: &Config,
    arguments: &RunArguments,
    stop: &CancellationToken,
    traces: Option<&Exporter>,
) -> Result<(Operator, Loading)> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ProcessMetrics));
    let ours = registry.sub_registry_with_prefix("podloom");
    register_build(ours);
    let duty_metrics = DutyMetrics::register(ours);
    let requests = Requests::register(ours);
    if let Some(traces) = traces {
        traces.register(ours);
    }
    let clock = Clock::new();
    let client = || connect(config, &requests, &clock);
    let parts = Parts {
        arguments,
        client: client()?,
        blocking: BlockingThreads::new(),
        turns: PeerTurns::new(loading::turns()),
        clock: clock.clone(),
        metrics: ControllerMetrics::register(ours),
        plugins: PluginMetrics::register(ours),
        loops: Arc::new(LoopMetrics::register(ours)),
        instance: own_pod::instance(&arguments.own_pod),
    };
    let certificates = Certificates::of(&parts, ours)?;
    let duties = arguments.duties();
    let states = duties
        .iter()
        .map(|duty| duty_state(duty.row(), &duty_metrics, stop));
    let (candidate, seen) = CandidateChain::of(arguments, ours);
    let history = History::new(parts.instance.clone());
    let state = Arc::new(OperatorState {
        candidate,
        history: arguments.console.then(|| Arc::new(history)),
        certificate: certificates.as_ref().map(Certificates::slot),
        ..OperatorState::new(no_chain_policy(arguments), states.collect(), stop.clone())
    });
    let drift = DriftTask::of(&parts, &state, ours);
    let shared = (certificates.as_ref(), drift.as_ref());
    let election = Election::of(arguments);
    let duty_tasks = duties.iter().zip(&state.duties).map(|(duty, duty_state)| {
        // With connections of its own, so that a renewal never waits behind other requests.
        let candidate = election.candidate(duty.row(), client)?;
        Ok(DutyTask {
            preflight: preflight(duty.row(), &parts, candidate.as_ref(), &requests),
            state: Arc::clone(duty_state),
            work: work(*duty, &parts, &state, shared)?,
            candidate,
        })
    });
    let duty_tasks = duty_tasks.collect::<Result<Vec<_>>>()?;
    let loading = loading::of(&parts, &state, seen, ours)?;
    let mutator = Arc::new(mutator(&parts, &state));
    let webhook = webhook::task(&parts, certificates, mutator, ours)?;
    let operator = Operator {
        state,
        registry: Arc::new(registry),
        duty_tasks,
        webhook,
        has_plugins: arguments.plugins.is_some(),
    };
    Ok((operator, loading))
}

impl Operator {
    /// Waits for the first attempt to load the chain, if the duty needs one. The duty also runs if that failed: sessions still end, and
    /// the status of waiting ones gives the reason.
    pub(super) fn first_chain(&self, duty: &DutyTask) -> impl Future<Output = ()> + use<> {
        let is_loaded = self.has_plugins && duty.state.row.chain == Chain::Needed;
        let slot = Arc::clone(&self.state.slot);
        async move {
            if is_loaded {
                slot.attempted().await;
            }
        }
    }
}

/// Starts what a duty does while this replica leads. A new duty needs an arm here.
fn work(
    duty: Duty,
    parts: &Parts<'_>,
    state: &OperatorState,
    (certificates, drift): (Option<&Certificates>, Option<&DriftTask>),
) -> Result<Work> {
    let setup = setup(parts);
    let own = match duty {
        Duty::Browser => DutySetup::Browser(browser(parts, state)),
        Duty::Portal => {
            let mutator = Arc::new(in_turns(parts, state));
            let loops = Arc::clone(&parts.loops);
            DutySetup::Portal(portal::setup(&parts.arguments.portal, mutator, loops)?)
        }
        Duty::Infrastructure => {
            let (arguments, loops) = (parts.arguments, Arc::clone(&parts.loops));
            let own = infrastructure::setup(&arguments.infrastructure, &arguments.own_pod, loops);
            DutySetup::Infrastructure(own)
        }
        Duty::Cleaner => DutySetup::Cleaner(cleaner::setup(&parts.arguments.cleaner)),
        Duty::Webhook => return Ok(webhook::lead(certificates.cloned(), drift.cloned())),
    };
    Ok(Box::new(move |duty| {
        let (setup, own) = (setup.clone(), own.clone());
        podloom_controllers::run(setup, own, duty.caches.clone(), duty.stop.clone()).boxed()
    }))
}

fn setup(parts: &Parts<'_>) -> Setup {
    let arguments = parts.arguments;
    Setup {
        client: parts.client.clone(),
        namespaces: arguments.namespaces(),
        concurrency: arguments.concurrency.get(),
        resync: arguments.resync,
        blocking: parts.blocking.clone(),
        unread_namespaces: arguments.unread_namespaces(),
        clock: parts.clock.clone(),
        metrics: parts.metrics.clone(),
        instance: parts.instance.clone(),
    }
}

fn browser(parts: &Parts<'_>, state: &OperatorState) -> BrowserSetup {
    BrowserSetup {
        api: parts.arguments.api(),
        mutator: Arc::new(in_turns(parts, state)),
        timeouts: timeouts(parts.arguments),
    }
}

/// The chain for the controllers; the webhooks take turns themselves.
fn in_turns(parts: &Parts<'_>, state: &OperatorState) -> InTurns {
    InTurns {
        chain: mutator(parts, state),
        turns: parts.turns.clone(),
    }
}

fn mutator(parts: &Parts<'_>, state: &OperatorState) -> ChainMutator {
    ChainMutator {
        slot: Arc::clone(&state.slot),
        metrics: parts.plugins.clone(),
        no_chain_policy: state.no_chain_policy,
        values: Values::Hidden,
        lane: Arc::clone(&state.lane),
        witness: state.candidate.as_ref().map(|it| Arc::clone(&it.witness)),
        recent: state.history.as_ref().map(|it| Arc::clone(&it.pods)),
    }
}

fn preflight(
    row: &'static Row,
    parts: &Parts<'_>,
    candidate: Option<&Candidate>,
    requests: &Requests,
) -> Preflight {
    Preflight {
        row,
        client: parts.client.clone(),
        api: parts.arguments.api(),
        namespaces: parts.arguments.namespaces(),
        lease: candidate.map(|candidate| LeaseName {
            namespace: candidate.namespace.clone(),
            name: candidate.name.clone(),
        }),
        own_namespace: own_pod::namespace(&parts.arguments.own_pod),
        secret_namespace: infrastructure::global_secret_namespace(
            &parts.arguments.infrastructure,
            &parts.arguments.own_pod,
        ),
        webhook_name: parts.arguments.webhook.name.clone(),
        requests: requests.clone(),
    }
}

fn no_chain_policy(arguments: &RunArguments) -> NoChainPolicy {
    if arguments.allow_empty_chain {
        NoChainPolicy::PassThrough
    } else {
        NoChainPolicy::Reject
    }
}

fn register_build(registry: &mut Registry) {
    let build = Info::new(vec![
        ("version", env!("CARGO_PKG_VERSION")),
        ("architecture", ARCH),
    ]);
    registry.register("build", "Version and architecture of this binary", build);
}

/// Finds the cluster, and logs its address.
pub(super) async fn cluster() -> Result<Config> {
    let config = client::cluster().await?;
    tracing::info!(server = %config.cluster_url, "cluster");
    Ok(config)
}

fn connect(config: &Config, requests: &Requests, clock: &Clock) -> Result<Client> {
    client::client(config, requests, clock).with_context(|| {
        format!(
            "cannot create a client for the cluster at {}",
            config.cluster_url
        )
    })
}

/// What the leader elections of all duties share.
struct Election<'a> {
    election: &'a ElectionArguments,
    namespace: String,
    identity: String,
    names: GivenNames<'a>,
}

impl<'a> Election<'a> {
    fn of(arguments: &'a RunArguments) -> Self {
        let election = &arguments.election;
        Self {
            election,
            namespace: election
                .lease_namespace
                .clone()
                .unwrap_or_else(own_pod::of_account),
            identity: arguments
                .own_pod
                .pod_name
                .clone()
                .unwrap_or_else(own_pod::identity),
            names: GivenNames {
                lease: election.lease_name.as_deref(),
                webhook: &arguments.webhook.name,
            },
        }
    }

    /// This replica as a candidate for a duty; none without leader election.
    fn candidate(
        &self,
        row: &Row,
        client: impl FnOnce() -> Result<Client>,
    ) -> Result<Option<Candidate>> {
        let name = row.lease_name(&self.names);
        let Some(name) = name.filter(|_| !self.election.no_leader_election) else {
            return Ok(None);
        };
        Ok(Some(Candidate::new(
            client()?,
            &self.namespace,
            &name,
            self.identity.clone(),
            self.election.lease_duration,
        )))
    }
}

fn timeouts(arguments: &RunArguments) -> Timeouts {
    let lives = &arguments.lives;
    Timeouts {
        pod_creation: lives.pod_creation_timeout,
        pod_deletion: lives.pod_deletion_timeout,
        failed_retention: lives.failed_retention,
        config_grace: lives.config_grace,
        container_config_grace: lives.container_config_grace,
    }
}

#[cfg(test)]
mod tests;
