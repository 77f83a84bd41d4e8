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
use podloom_controllers::duties::{Chain, Duty, Row};
use podloom_controllers::{
    BlockingThreads, BrowserSetup, Clock, ControllerMetrics, DutySetup, Events, Setup, Timeouts,
};
use podloom_mutators::{Engine, EngineOptions, InstanceAllocation, Loader, PluginMetrics, Watch};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::client;
use super::duty::{Post, Work};
use super::lease::Candidate;
use super::metrics::{ChainMetrics, LeaderMetrics};
use super::preflight::{LeaseName, Preflight};
use super::process::ProcessMetrics;
use super::reload::Reloads;
use super::requests::Requests;
use super::state::{DutyState, State};
use crate::cli::{ElectionArguments, OwnPodArguments, RunArguments};
use crate::mutator::{ChainMutator, Values, WithoutChain};

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
    /// The duties that are switched on.
    pub(super) posts: Vec<Post>,
    has_plugins: bool,
}

/// Loads the chain, now and whenever its directory changes, until a stop is asked for.
pub(super) type Loading = BoxFuture<'static, ()>;

/// What the work of each duty is made of.
struct Parts<'a> {
    arguments: &'a RunArguments,
    client: Client,
    /// The process has one, whatever duties there are and however often they begin.
    blocking: BlockingThreads,
    clock: Clock,
    metrics: ControllerMetrics,
    plugins: PluginMetrics,
    /// The name of our own pod.
    instance: Option<String>,
}

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
    let leader = LeaderMetrics::register(ours);
    let requests = Requests::register(ours);
    let clock = Clock::new();
    let client = || connect(&config, &requests, &clock);
    let parts = Parts {
        arguments,
        client: client()?,
        blocking: BlockingThreads::new(),
        clock: clock.clone(),
        metrics: ControllerMetrics::register(ours),
        plugins: PluginMetrics::register(ours),
        instance: arguments.own_pod.pod_name.clone().or_else(host_name),
    };
    let duties = arguments.controllers.duties();
    let states = duties.iter().map(|duty| {
        let row = duty.row();
        Arc::new(DutyState::new(row, leader.of(row.name), stop.clone()))
    });
    let without_chain = without_chain(arguments);
    let state = Arc::new(State::new(without_chain, states.collect(), stop));
    let electorate = Electorate::of(arguments);
    let posts = duties.iter().zip(&state.duties).map(|(duty, post)| {
        // With connections of its own: a renewal that had no answer is sent again over a new one, whatever else waits.
        let candidate = electorate.candidate(duty.row(), client)?;
        Ok(Post {
            preflight: preflight(duty.row(), &parts, candidate.as_ref(), &requests),
            state: Arc::clone(post),
            work: work(*duty, &parts, &state),
            candidate,
        })
    });
    let posts = posts.collect::<Result<Vec<_>>>()?;
    let loading = loading(&parts, &state, ours)?;
    let operator = Operator {
        state,
        registry: Arc::new(registry),
        posts,
        has_plugins: arguments.plugins.is_some(),
    };
    Ok((operator, loading))
}

impl Operator {
    /// Waits until it is known whether the directory holds a good chain, if the duty needs one. It works without one, too:
    /// sessions end and are told why their pods wait.
    pub(super) fn first_chain(&self, post: &Post) -> impl Future<Output = ()> + use<> {
        let is_loaded = self.has_plugins && post.state.row.chain == Chain::Needed;
        let slot = Arc::clone(&self.state.slot);
        async move {
            if is_loaded {
                slot.attempted().await;
            }
        }
    }
}

/// What does a duty; a further one is an arm here.
fn work(duty: Duty, parts: &Parts<'_>, state: &State) -> Work {
    let setup = setup(parts);
    let own = match duty {
        Duty::Browser => DutySetup::Browser(browser(parts, state)),
    };
    Box::new(move |duty| {
        let (setup, own) = (setup.clone(), own.clone());
        podloom_controllers::run(setup, own, duty.caches.clone(), duty.stop.clone()).boxed()
    })
}

fn setup(parts: &Parts<'_>) -> Setup {
    let arguments = parts.arguments;
    Setup {
        client: parts.client.clone(),
        namespaces: arguments.namespaces(),
        concurrency: arguments.concurrency.get(),
        resync: arguments.resync,
        blocking: parts.blocking.clone(),
        clock: parts.clock.clone(),
        metrics: parts.metrics.clone(),
        instance: parts.instance.clone(),
    }
}

fn browser(parts: &Parts<'_>, state: &State) -> BrowserSetup {
    let mutator = ChainMutator {
        slot: Arc::clone(&state.slot),
        metrics: parts.plugins.clone(),
        without_chain: state.without_chain,
        values: Values::Withheld,
    };
    BrowserSetup {
        api: parts.arguments.api(),
        mutator: Arc::new(mutator),
        timeouts: timeouts(parts.arguments),
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
        requests: requests.clone(),
    }
}

fn without_chain(arguments: &RunArguments) -> WithoutChain {
    if arguments.allow_empty_chain {
        WithoutChain::Pass
    } else {
        WithoutChain::Refuse
    }
}

fn register_build(registry: &mut Registry) {
    let build = Info::new(vec![
        ("version", env!("CARGO_PKG_VERSION")),
        ("architecture", ARCH),
    ]);
    registry.register("build", "What runs here", build);
}

/// Where no duty needs a chain nothing of it exists: no engine, no pool of instances, nobody who reads the directory.
fn loading(parts: &Parts<'_>, state: &State, registry: &mut Registry) -> Result<Loading> {
    let (arguments, stop) = (parts.arguments, state.stop.clone());
    if !state.needs_chain() {
        tracing::info!("no duty that is switched on needs the plugin chain, so none is loaded");
        return Ok(stop.cancelled_owned().boxed());
    }
    let metrics = ChainMetrics::register(registry, parts.plugins.clone());
    let recorder = Arc::new(LoopMetrics::register(registry));
    let Some(directory) = arguments.plugins.clone() else {
        tracing::warn!("there is no plugin chain, pods are created as they are rendered");
        return Ok(stop.cancelled_owned().boxed());
    };
    let (queue, events) = Events::new(
        &parts.client,
        parts.instance.clone(),
        "ReloadChain",
        parts.metrics.events.clone(),
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

/// What the elections of all duties have in common.
struct Electorate<'a> {
    election: &'a ElectionArguments,
    namespace: String,
    identity: String,
}

impl<'a> Electorate<'a> {
    fn of(arguments: &'a RunArguments) -> Self {
        let election = &arguments.election;
        Self {
            election,
            namespace: election
                .lease_namespace
                .clone()
                .unwrap_or_else(own_namespace),
            identity: arguments.own_pod.pod_name.clone().unwrap_or_else(identity),
        }
    }

    /// Us as a candidate for a duty, if there is an election for it.
    fn candidate(
        &self,
        row: &Row,
        client: impl FnOnce() -> Result<Client>,
    ) -> Result<Option<Candidate>> {
        let name = row.lease_name(&self.election.lease_name);
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
