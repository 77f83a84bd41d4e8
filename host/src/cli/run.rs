//! The arguments of `podloom run`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use podloom_api::SelenosisApi;

use super::{Controllers, controllers, duration, namespace};

/// Run the operator: Browsers become pods, and every pod passes through the chain of plugins.
///
/// The cluster is the one that KUBECONFIG names, or the one that this runs in.
/// Before it starts, the operator looks whether its CustomResourceDefinitions are served and whether it has every right that it
/// needs; what is missing is logged by name and shown by /readyz, and it starts once that is fixed.
///
/// Several replicas elect a leader; the others stand by.
/// SIGTERM stops it gracefully: passes that run are finished. A second signal ends it at once.
///
/// Every option can be given as an environment variable; an option on the command line wins.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct RunArguments {
    /// What to do, separated by commas: browser makes pods of Browsers; none runs no controller. Each controller elects a leader of
    /// its own, and one that lacks a right or a CustomResourceDefinition waits for it alone: /readyz/browser answers for one.
    #[arg(long, value_name = "LIST", default_value = "browser", env = "PODLOOM_CONTROLLERS", value_parser = controllers::parse)]
    pub(crate) controllers: Controllers,

    /// The directory of the plugin chain: chain.yaml and the plugins. Needed by the controllers that make pods. When it changes, the chain is loaded anew: a good one serves
    /// the next pods, and of a bad one the log, /readyz and /plugins tell while the last good one goes on.
    #[arg(short, long, value_name = "DIR", env = "PODLOOM_PLUGINS")]
    pub(crate) plugins: Option<PathBuf>,

    /// How often to read that directory though no change was noticed; on file systems that tell of none, this is how soon a
    /// change serves.
    #[arg(long, value_name = "TIME", env = "PODLOOM_PLUGINS_SCAN", default_value = "15s", value_parser = duration::parse_positive)]
    pub(crate) plugins_scan: Duration,

    /// Create pods as they are rendered while no chain is loaded, instead of none.
    #[arg(long, env = "PODLOOM_ALLOW_EMPTY_CHAIN", value_parser = FalseyValueParser::new())]
    pub(crate) allow_empty_chain: bool,

    /// Where to serve /healthz, /readyz, /metrics, /plugins and /log.
    #[arg(
        long,
        value_name = "ADDR",
        env = "PODLOOM_HTTP",
        default_value = "0.0.0.0:8080"
    )]
    pub(crate) http: SocketAddr,

    /// Where to serve /healthz and /readyz alone, on a listener that no other peer can fill; they stay on --http too. Off unless
    /// given; the install manifests use 0.0.0.0:8081.
    #[arg(long, value_name = "ADDR", env = "PODLOOM_PROBES")]
    pub(crate) probes: Option<SocketAddr>,

    /// The API groups: seed is selenosis.io for both kinds, split is one group for each.
    #[arg(long, value_name = "GROUPS", default_value = "seed", env = "PODLOOM_SELENOSIS_API", value_parser = ["seed", "split"])]
    selenosis_api: String,

    /// Watch this namespace alone; give it several times for several. Without it all namespaces are watched.
    #[arg(short, long = "namespace", value_name = "NS", env = "PODLOOM_NAMESPACE", value_delimiter = ',', value_parser = namespace)]
    namespaces: Vec<String>,

    /// How to log.
    #[arg(
        long,
        value_name = "FORMAT",
        env = "PODLOOM_LOG_FORMAT",
        default_value = "text"
    )]
    pub(crate) log_format: LogFormat,

    /// How many objects of a kind are worked on at once, in each of the watched namespaces. Where all are watched, each of them gets
    /// a quarter of this at most, so that one with a slow webhook does not hold up the others.
    #[arg(
        long,
        value_name = "N",
        env = "PODLOOM_CONCURRENCY",
        default_value = "64"
    )]
    pub(crate) concurrency: NonZeroU16,

    /// How often an object is looked at again to which nothing happened.
    #[arg(long, value_name = "TIME", env = "PODLOOM_RESYNC", default_value = "10m", value_parser = duration::parse_positive)]
    pub(crate) resync: Duration,

    /// How long a stop may take; keep it below the pod's terminationGracePeriodSeconds.
    #[arg(long, value_name = "TIME", env = "PODLOOM_SHUTDOWN_TIMEOUT", default_value = "25s", value_parser = duration::parse_positive)]
    pub(crate) shutdown_timeout: Duration,

    #[command(flatten)]
    pub(crate) election: ElectionArguments,

    #[command(flatten)]
    pub(crate) own_pod: OwnPodArguments,

    #[command(flatten)]
    pub(crate) lives: LifeArguments,
}

/// How replicas agree on who works.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct ElectionArguments {
    /// Disable leader election; only for one replica with strategy Recreate.
    #[arg(long, env = "PODLOOM_NO_LEADER_ELECTION", value_parser = FalseyValueParser::new())]
    pub(crate) no_leader_election: bool,

    /// The namespace of the Lease; by default our own, and default outside a cluster.
    #[arg(long, value_name = "NS", env = "PODLOOM_LEASE_NAMESPACE", value_parser = namespace)]
    pub(crate) lease_namespace: Option<String>,

    /// The name of the browser controller's Lease; each other controller's is this name, a dash and its own name.
    #[arg(
        long,
        value_name = "NAME",
        env = "PODLOOM_LEASE_NAME",
        default_value = "podloom"
    )]
    pub(crate) lease_name: String,

    /// How long the others wait for a leader that is not heard of, 3s at least; it renews its Lease in a third of that.
    #[arg(long, value_name = "TIME", env = "PODLOOM_LEASE_DURATION", default_value = "15s", value_parser = lease_duration)]
    pub(crate) lease_duration: Duration,
}

/// Who we are, as the downward API tells it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Our own pod (set by the install manifests)")]
pub(crate) struct OwnPodArguments {
    /// The name of our own pod, for Events and the Lease; a container that is restarted in it goes on at once.
    #[arg(long, value_name = "NAME", env = "PODLOOM_POD_NAME")]
    pub(crate) pod_name: Option<String>,

    /// The namespace of our own pod; without it, that of our service account.
    #[arg(long, value_name = "NS", env = "PODLOOM_POD_NAMESPACE", value_parser = namespace)]
    pub(crate) pod_namespace: Option<String>,

    /// The UID of our own pod: with it, kubectl describe shows the Events about the chain of plugins.
    #[arg(long, value_name = "UID", env = "PODLOOM_POD_UID")]
    pub(crate) pod_uid: Option<String>,
}

/// How long things may take in the life of a Browser.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Life of a Browser (times as in 90s, 5m, 1h30m)")]
pub(crate) struct LifeArguments {
    /// How long a Browser may take to get a pod, and then again how long that pod may take to run: at most twice this; after that it
    /// has failed. The original operator counts once, from the Browser's creation.
    #[arg(long, value_name = "TIME", env = "PODLOOM_POD_CREATION_TIMEOUT", default_value = "5m", value_parser = duration::parse_positive)]
    pub(crate) pod_creation_timeout: Duration,

    /// How long to wait for a pod to terminate. After that it is deleted without its grace period, and a deleted Browser goes even if
    /// its pod stays.
    #[arg(long, value_name = "TIME", env = "PODLOOM_POD_DELETION_TIMEOUT", default_value = "5m", value_parser = duration::parse_positive)]
    pub(crate) pod_deletion_timeout: Duration,

    /// How long a failed Browser stays, to be looked at.
    #[arg(long, value_name = "TIME", env = "PODLOOM_FAILED_RETENTION", default_value = "0s", value_parser = duration::parse)]
    pub(crate) failed_retention: Duration,

    /// How long a Browser waits for its BrowserConfig, from when this operator first sees the Browser; then it has failed.
    #[arg(long, value_name = "TIME", env = "PODLOOM_CONFIG_GRACE", default_value = "5s", value_parser = duration::parse)]
    pub(crate) config_grace: Duration,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line for people.
    Text,
    /// An object a line, for machines.
    Json,
}

const EXAMPLES: &str = "\
Examples:
  # From a checkout, against the cluster of the current context
  podloom crds | kubectl apply -f -
  podloom run --plugins target/plugins --http 127.0.0.1:8080

  # Two namespaces only, and failed Browsers stay for an hour
  podloom run --plugins /plugins -n team-a -n team-b --failed-retention 1h

  # What is it waiting for? What does it serve? What does it do?
  curl localhost:8080/readyz
  curl localhost:8080/plugins
  curl -X PUT --data info,podloom=debug localhost:8080/log";

impl RunArguments {
    /// The set of API groups that was asked for.
    pub(crate) fn api(&self) -> SelenosisApi {
        // The parser has let only known names pass.
        self.selenosis_api.parse().unwrap_or_default()
    }

    /// The namespaces to watch, each once; none means all.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        let all: BTreeSet<&String> = self.namespaces.iter().collect();
        all.into_iter().cloned().collect()
    }
}

/// A Lease counts in whole seconds, and is renewed in a third of its time.
fn lease_duration(text: &str) -> Result<Duration, String> {
    let duration = duration::parse(text)?;
    if duration.subsec_millis() != 0 {
        return Err("a Lease counts in whole seconds".to_owned());
    }
    if duration < Duration::from_secs(3) {
        return Err("it has to be 3s at least".to_owned());
    }
    Ok(duration)
}
