//! Makes the operator of its parts.

use std::env::consts::ARCH;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use std::process;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Config};
use podloom_control_loop::LoopMetrics;
use podloom_controllers::{Clock, ControllerMetrics, Events, Setup, Timeouts};
use podloom_mutators::{Engine, EngineOptions, InstanceAllocation, Loader, PluginMetrics, Watch};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::client;
use super::leader;
use super::lease::Candidate;
use super::metrics::ChainMetrics;
use super::mutator::{ChainMutator, WithoutChain};
use super::preflight::{LeaseName, Preflight};
use super::process::ProcessMetrics;
use super::reload::Reloads;
use super::requests::Requests;
use super::state::{Access, Role, State};
use crate::cli::{OwnPodArguments, RunArguments};

/// How many plugins run at once, at most. A call takes a fraction of a millisecond, and each slot keeps memory.
const MAX_PERMITS: usize = 4;
/// A plugin that is proved before it serves takes one, perhaps for seconds. Pods must not wait for it, on one processor neither.
const MIN_PERMITS: usize = 2;

/// Twenty plugins compile in seconds, and are proved in a fraction of one.
const BUILD_TIMEOUT: Duration = Duration::from_secs(300);

const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// All parts of the operator.
pub(super) struct Operator {
    pub(super) state: Arc<State>,
    pub(super) registry: Arc<Registry>,
    pub(super) preflight: Preflight,
    setup: Setup,
    candidate: Option<Candidate>,
    has_plugins: bool,
}

/// Loads the chain, now and whenever its directory changes, until a stop is asked for.
pub(super) type Loading = BoxFuture<'static, ()>;

/// Makes the operator and what loads its chain; neither does anything yet.
pub(super) async fn operator(
    arguments: &RunArguments,
    stop: CancellationToken,
) -> Result<(Operator, Loading)> {
    let config = cluster().await?;
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ProcessMetrics));
    let ours = registry.sub_registry_with_prefix("podloom");
    register_build(ours);
    let leader = Gauge::default();
    ours.register("leader", "1 if this replica is the leader", leader.clone());
    let plugin_metrics = PluginMetrics::register(ours);
    let chain_metrics = ChainMetrics::register(ours, plugin_metrics.clone());
    let controller_metrics = ControllerMetrics::register(ours);
    let requests = Requests::register(ours);
    let clock = Clock::new();
    let client = connect(&config, &requests, &clock)?;
    let without_chain = if arguments.allow_empty_chain {
        WithoutChain::Pass
    } else {
        WithoutChain::Refuse
    };
    let state = Arc::new(State::new(without_chain, leader, stop));
    // With connections of its own: a renewal that had no answer is sent again over a new one, whatever else waits.
    let candidate = candidate(arguments, connect(&config, &requests, &clock)?);
    let mutator = ChainMutator {
        slot: Arc::clone(&state.slot),
        metrics: plugin_metrics,
        without_chain,
    };
    let setup = Setup {
        client: client.clone(),
        api: arguments.api(),
        namespaces: arguments.namespaces(),
        concurrency: arguments.concurrency.get(),
        timeouts: timeouts(arguments),
        clock,
        mutator: Arc::new(mutator),
        metrics: controller_metrics,
        instance: arguments.own_pod.pod_name.clone().or_else(host_name),
    };
    let recorder = Arc::new(LoopMetrics::register(ours));
    let loading = loading(arguments, &setup, &state, chain_metrics, recorder)?;
    let operator = Operator {
        preflight: Preflight {
            client,
            api: arguments.api(),
            namespaces: arguments.namespaces(),
            lease: candidate.as_ref().map(|candidate| LeaseName {
                namespace: candidate.namespace.clone(),
                name: candidate.name.clone(),
            }),
            requests,
        },
        state,
        registry: Arc::new(registry),
        setup,
        candidate,
        has_plugins: arguments.plugins.is_some(),
    };
    Ok((operator, loading))
}

impl Operator {
    /// Waits until it is known whether the directory holds a good chain. Work begins without one, too: sessions end and are told
    /// why their pods wait.
    pub(super) async fn first_chain(&self) {
        if self.has_plugins {
            self.state.slot.attempted().await;
        }
    }

    /// Waits until our kinds are served and we have the rights we need. If that changes later, readiness says so and the
    /// controllers go on: what they may still do, they do.
    pub(super) async fn first_access(&self) {
        let mut access = self.state.access.subscribe();
        // An error would mean that the state is gone, and with it this.
        let _ = access.wait_for(|access| *access == Access::Granted).await;
    }

    /// Runs the controllers, when it is our turn, until they are stopped.
    pub(super) async fn work(&self) -> Result<()> {
        let state = &self.state;
        let work = || {
            podloom_controllers::run(self.setup.clone(), state.caches.clone(), state.stop.clone())
        };
        match &self.candidate {
            None => {
                state.take(Role::Alone);
                work().await?;
            }
            Some(candidate) => {
                if let Some(done) = leader::lead(candidate, state, work).await {
                    done?;
                }
            }
        }
        Ok(())
    }
}

fn register_build(registry: &mut Registry) {
    let build = Info::new(vec![
        ("version", env!("CARGO_PKG_VERSION")),
        ("architecture", ARCH),
    ]);
    registry.register("build", "What runs here", build);
}

fn loading(
    arguments: &RunArguments,
    setup: &Setup,
    state: &State,
    metrics: ChainMetrics,
    recorder: Arc<LoopMetrics>,
) -> Result<Loading> {
    let stop = state.stop.clone();
    let Some(directory) = arguments.plugins.clone() else {
        tracing::warn!("there is no plugin chain, pods are created as they are rendered");
        return Ok(stop.cancelled_owned().boxed());
    };
    let (queue, events) = Events::new(
        &setup.client,
        setup.instance.clone(),
        "ReloadChain",
        setup.metrics.events.clone(),
    );
    let reloads = Reloads {
        metrics,
        events: own_pod(&arguments.own_pod).map(|pod| (queue, pod)),
        granted: Mutex::default(),
    };
    let loader = Loader {
        directory,
        engine: engine()?,
        slot: Arc::clone(&state.slot),
        watch: Watch::Notified,
        scan_interval: arguments.plugins_scan,
        build_timeout: BUILD_TIMEOUT,
        tell: Arc::new(move |reload| reloads.tell(reload)),
        recorder,
    };
    let loading = async move {
        tokio::join!(loader.run(stop), events);
    };
    Ok(loading.boxed())
}

async fn cluster() -> Result<Config> {
    let config = Config::infer().await.context(
        "no cluster to work for: KUBECONFIG names none that can be read, and this is no pod of a cluster",
    )?;
    tracing::info!(server = %config.cluster_url, "cluster");
    Ok(config)
}

fn connect(config: &Config, requests: &Requests, clock: &Clock) -> Result<Client> {
    client::client(config, requests, clock).with_context(|| {
        format!(
            "cannot make a client for the cluster at {}",
            config.cluster_url
        )
    })
}

fn engine() -> Result<Arc<Engine>> {
    let options = EngineOptions {
        permits: NonZeroUsize::new(permits(processors())),
        instances: InstanceAllocation::Pooled,
    };
    Engine::new(&options).context("cannot start the WebAssembly engine")
}

fn permits(processors: usize) -> usize {
    processors.clamp(MIN_PERMITS, MAX_PERMITS)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

fn candidate(arguments: &RunArguments, client: Client) -> Option<Candidate> {
    let election = &arguments.election;
    if election.no_leader_election {
        return None;
    }
    let namespace = election
        .lease_namespace
        .clone()
        .unwrap_or_else(own_namespace);
    Some(Candidate::new(
        client,
        &namespace,
        &election.lease_name,
        arguments.own_pod.pod_name.clone().unwrap_or_else(identity),
        election.lease_duration,
    ))
}

fn timeouts(arguments: &RunArguments) -> Timeouts {
    let lives = &arguments.lives;
    Timeouts {
        pod_creation: lives.pod_creation_timeout,
        pod_deletion: lives.pod_deletion_timeout,
        failed_retention: lives.failed_retention,
        config_grace: lives.config_grace,
        resync: lives.resync,
    }
}

/// Our own pod, for Events about it; none if we were not told its name.
fn own_pod(arguments: &OwnPodArguments) -> Option<ObjectReference> {
    Some(ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(arguments.pod_name.clone()?),
        namespace: Some(
            arguments
                .pod_namespace
                .clone()
                .unwrap_or_else(own_namespace),
        ),
        uid: arguments.pod_uid.clone(),
        ..ObjectReference::default()
    })
}

fn own_namespace() -> String {
    let read = fs::read_to_string(OWN_NAMESPACE).unwrap_or_default();
    match read.trim() {
        "" => "default".to_owned(),
        namespace => namespace.to_owned(),
    }
}

/// Unlike that of any other process: a name that comes back would take the Lease of one that still runs.
fn identity() -> String {
    let host = host_name().unwrap_or_else(|| "podloom".to_owned());
    let random = RandomState::new().hash_one(process::id());
    format!("{host}-{}-{random:016x}", process::id())
}

fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests;
