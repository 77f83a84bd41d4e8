//! Builds the operator from the arguments.

use std::env::consts::ARCH;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::FutureExt;
use futures::future::{self, BoxFuture, OptionFuture};
use kube::{Client, Config};
use podloom_browser::{BrowserSetup, Timeouts};
use podloom_cleaner::CleanerSetup;
use podloom_control_loop::LoopMetrics;
use podloom_controllers::duties::{Chain, Duty, GivenNames, Row};
use podloom_controllers::{ControllerMetrics, DutySetup, Setup, chain_exceptions};
use podloom_engine::blocking::BlockingThreads;
use podloom_engine::clock::Clock;
use podloom_engine::outbound::{Pem, Roots, Tls};
use podloom_infrastructure::InfrastructureSetup;
use podloom_mutators::{PluginMetrics, Values};
use podloom_portal::{PortalSetup, RelaySettings};
use podloom_rollout::RolloutSetup;
use podloom_webhook::PeerTurns;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::candidate::CandidateChain;
use super::capacity::turns;
use super::duty::{Candidate, DutyTask, Work};
use super::history::History;
use super::loading::{self, Loading};
use super::metrics::{DutyMetrics, ProcessMetrics};
use super::parts::{self, Parts};
use super::preflight::Preflight;
use super::reports::ReportsTask;
use super::rollout::Follower;
use super::state::{DutyState, OperatorState};
use super::webhook::{self, Certificates, Leading};
use crate::cli::{PortalArguments, RunArguments};
use crate::client::{self, Requests};
use crate::exceptions::Exceptions;
use crate::mutator::{ChainMutator, InTurns, NoChainPolicy};
use crate::reports::Notes;
use crate::traces::Exporter;

/// All parts of the operator.
pub(super) struct Operator {
    pub(super) state: Arc<OperatorState>,
    pub(super) registry: Arc<Registry>,
    /// The enabled duties.
    pub(super) duty_tasks: Vec<DutyTask>,
    /// Serves the admission webhooks until some time after the operator is stopped; none unless they are switched on.
    pub(super) webhook: Option<BoxFuture<'static, ()>>,
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
        turns: PeerTurns::new(turns()),
        clock: clock.clone(),
        metrics: ControllerMetrics::register(ours),
        plugins: PluginMetrics::register(ours),
        loops: Arc::new(LoopMetrics::register(ours)),
        instance: parts::instance(&arguments.own_pod),
    };
    let certificates = Certificates::of(&parts, ours)?;
    let own = operator_state(&parts, &duty_metrics, stop);
    let (candidate, seen) = CandidateChain::of(arguments, &own.slot, own.notes.as_ref(), ours);
    let identity = parts::identity(&arguments.own_pod);
    let split = candidate.as_ref().and_then(|it| it.split.clone());
    let follower = split.map(|split| Follower::of(&parts, split, identity.clone()));
    let certificate = certificates.as_ref().map(Certificates::slot);
    let state = Arc::new(OperatorState {
        candidate,
        follower,
        certificate,
        ..own
    });
    let reports = ReportsTask::of(&parts, &state, ours);
    let leading = Leading::of(&parts, &state, certificates.as_ref(), reports.clone(), ours);
    let duties = arguments.duties().into_iter().zip(&state.duties);
    let duty_tasks = duties.map(|(duty, duty_state)| {
        let row = duty.row();
        // With connections of its own, so that a renewal never waits behind other requests.
        let candidate = candidate_of(arguments, row, &identity, client)?;
        Ok(DutyTask {
            preflight: preflight(row, &parts, candidate.as_ref(), &requests),
            state: Arc::clone(duty_state),
            ready: first_chain(arguments, row, &state),
            work: work(duty, &parts, &state, &leading)?,
            candidate,
        })
    });
    let duty_tasks = duty_tasks.collect::<Result<Vec<_>>>()?;
    let loading = loading::of(&parts, &state, seen, ours)?;
    let webhook = webhooks(&parts, &state, (certificates, reports), (ours, stop))?;
    let operator = Operator {
        state,
        registry: Arc::new(registry),
        duty_tasks,
        webhook,
    };
    Ok((operator, loading))
}

/// What serves the webhooks, with what it needs beside; none unless they are switched on.
fn webhooks(
    parts: &Parts<'_>,
    state: &OperatorState,
    (certificates, reports): (Option<Certificates>, Option<ReportsTask>),
    (registry, stop): (&mut Registry, &CancellationToken),
) -> Result<Option<BoxFuture<'static, ()>>> {
    let watched = state.exceptions.clone();
    let exceptions = watched.as_ref();
    let exceptions = exceptions.map(|it| {
        let name = &parts.arguments.webhook.name;
        Exceptions::watched(it, name, &parts.clock)
    });
    let mutator = Arc::new(ChainMutator {
        exceptions,
        ..mutator(parts, state)
    });
    let writing = OptionFuture::from(reports.map(ReportsTask::write));
    let watching = OptionFuture::from(watched.map(|it| it.fill()));
    let beside = future::join(writing, watching).map(drop).boxed();
    webhook::task(parts, certificates, mutator, beside, (registry, stop))
}

fn connect(config: &Config, requests: &Requests, clock: &Clock) -> Result<Client> {
    client::client(config, requests, clock).with_context(|| {
        let server = &config.cluster_url;
        format!("cannot create a client for the cluster at {server}")
    })
}

fn register_build(registry: &mut Registry) {
    let build = Info::new(vec![
        ("version", env!("CARGO_PKG_VERSION")),
        ("architecture", ARCH),
    ]);
    registry.register("build", "Version and architecture of this binary", build);
}

/// The state at the start, without the candidate and the certificate.
fn operator_state(
    parts: &Parts<'_>,
    metrics: &DutyMetrics,
    stop: &CancellationToken,
) -> OperatorState {
    let duties = parts.arguments.duties().into_iter().map(|duty| {
        let row = duty.row();
        Arc::new(DutyState {
            lacking: metrics.missing_rights.of([row.name]).clone(),
            ..DutyState::new(row, metrics.leader.of([row.name]).clone(), stop.clone())
        })
    });
    let no_chain_policy = match parts.arguments.allow_empty_chain {
        true => NoChainPolicy::PassThrough,
        false => NoChainPolicy::Reject,
    };
    let history = || Arc::new(History::new(parts.instance.clone()));
    let watched = || chain_exceptions(&parts.client, &parts.metrics, &parts.arguments.namespaces());
    let webhook = &parts.arguments.webhook;
    let notes = || Arc::new(Notes::new(&parts.clock));
    OperatorState {
        history: parts.arguments.console.then(history),
        exceptions: webhook.address.map(|_| watched()),
        notes: (!webhook.reports.is_empty()).then(notes),
        ..OperatorState::new(no_chain_policy, duties.collect(), stop.clone())
    }
}

/// This replica as a candidate for the Lease of a duty; none without leader election.
fn candidate_of(
    arguments: &RunArguments,
    row: &Row,
    identity: &str,
    client: impl FnOnce() -> Result<Client>,
) -> Result<Option<Candidate>> {
    let election = &arguments.election;
    if election.no_leader_election {
        return Ok(None);
    }
    let name = row.lease_name(&GivenNames {
        lease: election.lease_name.as_deref(),
        webhook: &arguments.webhook.name,
    });
    let namespace = election.lease_namespace.clone();
    let namespace = namespace.unwrap_or_else(parts::account_namespace);
    let (identity, duration) = (identity.to_owned(), election.lease_duration);
    Ok(Some(Candidate::new(
        client()?,
        namespace,
        name,
        identity,
        duration,
    )))
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
        api: parts.arguments.selenosis_api,
        namespaces: parts.arguments.namespaces(),
        lease: candidate.map(|it| (it.namespace.clone(), it.name.clone())),
        own_namespace: parts::own_namespace(&parts.arguments.own_pod),
        secret_namespace: global_secret_namespace(parts.arguments),
        webhook_name: parts.arguments.webhook.name.clone(),
        requests: requests.clone(),
    }
}

/// Waits for the first attempt to load the chain, if the duty needs one. The duty also runs if that failed: sessions still end, and the
/// status of waiting ones gives the reason.
fn first_chain(
    arguments: &RunArguments,
    row: &Row,
    state: &OperatorState,
) -> BoxFuture<'static, ()> {
    let is_loaded = arguments.plugins.is_some() && row.chain == Chain::Needed;
    let slot = Arc::clone(&state.slot);
    let follower = state.follower.clone().filter(|_| is_loaded);
    async move {
        if is_loaded {
            slot.attempted().await;
        }
        if let Some(follower) = follower {
            follower.known().await;
        }
    }
    .boxed()
}

/// Starts what a duty does while this replica leads. A new duty needs an arm here.
fn work(duty: Duty, parts: &Parts<'_>, state: &OperatorState, leading: &Leading) -> Result<Work> {
    let arguments = parts.arguments;
    let own = match duty {
        Duty::Browser => DutySetup::Browser(BrowserSetup {
            api: arguments.selenosis_api,
            mutator: Arc::new(in_turns(parts, state)),
            timeouts: timeouts(arguments),
        }),
        Duty::Portal => DutySetup::Portal(portal(parts, in_turns(parts, state))?),
        Duty::Infrastructure => DutySetup::Infrastructure(infrastructure(parts)),
        Duty::Cleaner => DutySetup::Cleaner(CleanerSetup {
            settings: Arc::new(arguments.cleaner.settings()),
            workers: arguments.cleaner.workers,
            evaluation_threads: arguments.cleaner.evaluation_threads.into(),
            lifetimes: arguments.cleaner.lifetimes(),
        }),
        Duty::Rollout => DutySetup::Rollout(RolloutSetup {
            namespace: parts::own_namespace(&arguments.own_pod),
        }),
        Duty::Webhook => return Ok(webhook::lead(leading.clone())),
    };
    let setup = Setup {
        client: parts.client.clone(),
        namespaces: arguments.namespaces(),
        concurrency: arguments.concurrency.get(),
        resync: arguments.resync,
        blocking: parts.blocking.clone(),
        unread_namespaces: arguments.unread_namespaces(),
        clock: parts.clock.clone(),
        metrics: parts.metrics.clone(),
        instance: parts.instance.clone(),
    };
    Ok(Box::new(move |duty| {
        let (setup, own) = (setup.clone(), own.clone());
        podloom_controllers::run(setup, own, duty.caches.clone(), duty.stop.clone()).boxed()
    }))
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

fn portal(parts: &Parts<'_>, mutator: InTurns) -> Result<PortalSetup> {
    let arguments = &parts.arguments.portal;
    Ok(PortalSetup {
        mutator: Arc::new(mutator),
        tunnel: arguments.tunnel.settings(),
        chain_policy: arguments.chain_policy,
        max_chain_rolls: arguments.max_chain_rolls.get(),
        relay_grace: arguments.relay_grace,
        relays: RelaySettings {
            observation: arguments.relay_observation,
            interval: arguments.relay_poll_interval,
            allow: arguments.relay_allow.clone(),
            deny: arguments.relay_deny.clone(),
            tls: tls(arguments)?,
            recorder: parts.loops.clone(),
        },
    })
}

/// # Errors
///
/// Returns an error if the file with certificate authorities cannot be read or has none.
fn tls(arguments: &PortalArguments) -> Result<Tls> {
    let Some(file) = &arguments.relay_ca_file else {
        return Tls::new(&Roots::Public, None).context("cannot set up TLS for relays");
    };
    let read = || Tls::new(&Roots::PublicAnd(&Pem::read(file)?), None);
    read().with_context(|| format!("--portal-relay-ca-file {}", file.display()))
}

fn infrastructure(parts: &Parts<'_>) -> InfrastructureSetup {
    let arguments = &parts.arguments.infrastructure;
    InfrastructureSetup {
        workers: arguments.workers.get(),
        settle: arguments.settle,
        drift_interval: arguments.drift_interval,
        probe_clusters: arguments.probe_clusters,
        global_secret_namespace: global_secret_namespace(parts.arguments),
        allow: arguments.allow.clone(),
        deny: arguments.deny.clone(),
        recorder: parts.loops.clone(),
    }
}

/// The namespace of the Secrets of cluster-scoped objects.
fn global_secret_namespace(arguments: &RunArguments) -> String {
    let given = arguments.infrastructure.global_secret_namespace.clone();
    given.unwrap_or_else(|| parts::own_namespace(&arguments.own_pod))
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
        split: state.candidate.as_ref().and_then(|it| it.split.clone()),
        witness: state.candidate.as_ref().map(|it| Arc::clone(&it.witness)),
        recent: state.history.as_ref().map(|it| Arc::clone(&it.pods)),
        notes: state.notes.clone(),
        exceptions: None,
    }
}

#[cfg(test)]
mod tests;
