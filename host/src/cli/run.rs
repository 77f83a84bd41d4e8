//! The arguments of `podloom run`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::Uri;
use clap::Args;
use clap::builder::FalseyValueParser;
use podloom_api::SelenosisApi;
use podloom_controllers::duties::{Chain, Duty};
use podloom_engine::namespaces::UnreadNamespaces;
use podloom_mutators::{PublicKey, Signers};

use super::cleaner::CleanerArguments;
use super::duties::{InfrastructureArguments, PortalArguments};
use super::webhook::WebhookArguments;
use super::{ReportFormat, text_or_json};
use super::{controllers, duration, namespace, object_name, public_key, selenosis_api};
use crate::traces::endpoint;

/// Run the operator: it creates a pod for each Browser, and passes every pod through the plugin chain.
///
/// It connects to the cluster of the kubeconfig (KUBECONFIG or ~/.kube/config). In a pod without a kubeconfig, it connects to the
/// cluster of that pod. Before its controllers start, it checks that the CustomResourceDefinitions are served and that it has all
/// rights. What is missing is logged and shown by /readyz. Fix it, and the controllers start without a restart.
///
/// With several replicas, one is elected leader and works; the others stand by.
/// SIGTERM stops the operator gracefully: running reconciles finish first. A second signal stops it immediately.
///
/// Every option can also be set by its environment variable; the command line wins. Times are written as 500ms, 90s, 5m or 1h30m.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct RunArguments {
    /// The controllers to run, separated by commas. The controller browser creates pods for Browsers, portal creates Deployments for
    /// PortalExposes, infrastructure creates clusters for Clusters, cleaner deletes what Cleaners name, and rollout takes the steps of
    /// ChainRollouts. With the value none, no controller runs. Each controller has its own leader election, and its own readiness, for example /readyz/browser. If one
    /// lacks a right or a CustomResourceDefinition, only that one waits.
    #[arg(long, value_name = "LIST", default_value = "browser", env = "PODLOOM_CONTROLLERS", value_parser = controllers::parse)]
    pub(crate) controllers: BTreeSet<Duty>,

    /// The directory of the plugin chain: chain.yaml and the plugin files. Required by controllers that create pods. When its
    /// content changes, the chain is reloaded. If the new content is invalid, the last good chain stays active, and the log,
    /// /readyz and /plugins show the error.
    #[arg(short, long, value_name = "DIR", env = "PODLOOM_PLUGINS")]
    pub(crate) plugins: Option<PathBuf>,

    /// How often to check the plugin directory. On most file systems a change is noticed immediately; on others, such as NFS, it
    /// takes up to this long.
    #[arg(long, value_name = "TIME", env = "PODLOOM_PLUGINS_SCAN", default_value = "15s", value_parser = duration::parse_positive)]
    pub(crate) plugins_scan: Duration,

    /// Use a chain only if its owner signed it: a PEM file with the public key; repeat it for several keys, of which one must have
    /// signed. The chain directory needs chain.yaml.sig, the signature of chain.yaml, and chain.yaml the sha256 of each plugin.
    /// A chain without a valid signature is refused like a broken one. This holds for --candidate too.
    #[arg(long, value_name = "KEY", env = "PODLOOM_REQUIRE_SIGNATURE", value_delimiter = ',', requires = "plugins", value_parser = public_key)]
    pub(crate) require_signature: Vec<PublicKey>,

    /// The directory of a second chain, which is only tried: it gets the same pods as the serving chain, and what it makes of them
    /// is compared and thrown away. /plugins/candidate shows localhost which pods would come out differently, and the metrics
    /// podloom_candidate_* count them. A candidate never changes, refuses or delays a pod, and is skipped first under load. To let it serve, copy it
    /// over the directory of --plugins.
    #[arg(long, value_name = "DIR", env = "PODLOOM_CANDIDATE")]
    pub(crate) candidate: Option<PathBuf>,

    /// Let a ChainRollout of the operator's own namespace decide which pods pass the chain of --candidate. Without this, the candidate is
    /// only tried. The controller rollout of --controllers takes the steps; give this option to all replicas that pass pods
    /// through the chain, and the rights that podloom rbac --for rollout prints.
    #[arg(long, env = "PODLOOM_ROLLOUT", requires = "candidate", value_parser = FalseyValueParser::new())]
    pub(crate) rollout: bool,

    /// While no chain is loaded, create pods without plugins. By default, no pods are created in
    /// this time.
    #[arg(long, env = "PODLOOM_ALLOW_EMPTY_CHAIN", value_parser = FalseyValueParser::new())]
    pub(crate) allow_empty_chain: bool,

    /// Load a chain that needs labels or annotations of namespaces even where the operator may not read namespaces. For plugins
    /// and for `match.namespaceSelector`, they then have no labels but kubernetes.io/metadata.name, and no annotations. By default, such
    /// a chain is not loaded without that right.
    #[arg(long, env = "PODLOOM_ALLOW_UNREAD_NAMESPACES", value_parser = FalseyValueParser::new())]
    pub(crate) allow_unread_namespaces: bool,

    /// The address of the HTTP endpoints /healthz, /readyz, /metrics, /plugins, /plugins/candidate, /console and /log.
    #[arg(
        long,
        value_name = "ADDR",
        env = "PODLOOM_HTTP",
        default_value = "0.0.0.0:8080"
    )]
    pub(crate) http: SocketAddr,

    /// The address of a second listener with only /healthz and /readyz, so that other clients cannot block the probes. Off by
    /// default; the install manifests use 0.0.0.0:8081. --http serves both endpoints too.
    #[arg(long, value_name = "ADDR", env = "PODLOOM_PROBES")]
    pub(crate) probes: Option<SocketAddr>,

    /// Serve a page for people at /console of the HTTP endpoints: the chain with its grants and reloads, the latest pods with the
    /// paths that each plugin wrote, and counts. It changes nothing, and shows no values of pods and no configuration. Since it
    /// names pods of all namespaces, it answers only localhost: use kubectl port-forward.
    #[arg(long, env = "PODLOOM_CONSOLE", value_parser = FalseyValueParser::new())]
    pub(crate) console: bool,

    /// The API groups of Browser and BrowserConfig: with seed, both are in selenosis.io; with split, they are in
    /// browser.selenosis.io and browserconfig.selenosis.io.
    #[arg(long, value_name = "GROUPS", default_value = "seed", env = "PODLOOM_SELENOSIS_API", value_parser = selenosis_api())]
    pub(crate) selenosis_api: SelenosisApi,

    /// Watch only this namespace; repeat the option for several. By default all namespaces are watched.
    #[arg(short, long = "namespace", value_name = "NS", env = "PODLOOM_NAMESPACE", value_delimiter = ',', value_parser = namespace)]
    namespaces: Vec<String>,

    /// The log format.
    #[arg(long, value_name = "FORMAT", env = "PODLOOM_LOG_FORMAT", default_value = "text", value_parser = text_or_json("Lines for people", "One JSON object per line"))]
    pub(crate) log_format: ReportFormat,

    /// Send traces to this receiver of OpenTelemetry, in OTLP over HTTP with JSON, such as `http://collector.monitoring:4318`, or with https. A trace
    /// shows the steps of a session or of an admission review, with the time of each plugin. It has names and times, and no values
    /// of pods. A receiver that does not answer delays nothing. Without it, OTEL_EXPORTER_OTLP_ENDPOINT counts; off if that is not set
    /// either.
    #[arg(long, value_name = "URL", env = "PODLOOM_OTLP_ENDPOINT", value_parser = endpoint)]
    pub(crate) otlp_endpoint: Option<Uri>,

    /// How many objects of a kind are reconciled at the same time. With --namespace, the number is for each namespace; without
    /// it, for all namespaces together. Without --namespace, one namespace gets at most a quarter of it, so that a slow webhook
    /// in it does not delay the others.
    #[arg(
        long,
        value_name = "N",
        env = "PODLOOM_CONCURRENCY",
        default_value = "64"
    )]
    pub(crate) concurrency: NonZeroU16,

    /// The resync interval: how often each object is reconciled even without a change.
    #[arg(long, value_name = "TIME", env = "PODLOOM_RESYNC", default_value = "10m", value_parser = duration::parse_positive)]
    pub(crate) resync: Duration,

    /// How long a graceful stop may take; must be less than the pod's terminationGracePeriodSeconds.
    #[arg(long, value_name = "TIME", env = "PODLOOM_SHUTDOWN_TIMEOUT", default_value = "25s", value_parser = duration::parse_positive)]
    pub(crate) shutdown_timeout: Duration,

    #[command(flatten)]
    pub(crate) webhook: WebhookArguments,

    #[command(flatten)]
    pub(crate) election: ElectionArguments,

    #[command(flatten)]
    pub(crate) own_pod: OwnPodArguments,

    #[command(flatten)]
    pub(crate) lives: LifeArguments,

    #[command(flatten)]
    pub(crate) portal: PortalArguments,

    #[command(flatten)]
    pub(crate) infrastructure: InfrastructureArguments,

    #[command(flatten)]
    pub(crate) cleaner: CleanerArguments,
}

/// The options of leader election.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct ElectionArguments {
    /// Disable leader election. Use this only with one replica, and with the strategy Recreate in the Deployment.
    #[arg(long, env = "PODLOOM_NO_LEADER_ELECTION", value_parser = FalseyValueParser::new())]
    pub(crate) no_leader_election: bool,

    /// The namespace of the Leases. By default it is the operator's own namespace; outside a cluster, the namespace named
    /// default.
    #[arg(long, value_name = "NS", env = "PODLOOM_LEASE_NAMESPACE", value_parser = namespace)]
    pub(crate) lease_namespace: Option<String>,

    /// The name of the browser controller's Lease; by default podloom. The Leases of other controllers are named
    /// NAME-CONTROLLER; that of the webhooks has the name --webhook-name if this option is not given.
    #[arg(long, value_name = "NAME", env = "PODLOOM_LEASE_NAME", value_parser = object_name)]
    pub(crate) lease_name: Option<String>,

    /// How long the other replicas wait before they replace a leader that does not renew its Lease; at least 3s. The leader
    /// renews it after a third of this time.
    #[arg(long, value_name = "TIME", env = "PODLOOM_LEASE_DURATION", default_value = "15s", value_parser = lease_duration)]
    pub(crate) lease_duration: Duration,
}

/// The operator's own pod, from the downward API.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The operator's own pod (set by the install manifests)")]
pub(crate) struct OwnPodArguments {
    /// The name of the operator's pod, for Events and the Lease. With this name, a restarted container becomes
    /// the leader again immediately.
    #[arg(long, value_name = "NAME", env = "PODLOOM_POD_NAME")]
    pub(crate) pod_name: Option<String>,

    /// The namespace of the operator's pod; by default that of its ServiceAccount.
    #[arg(long, value_name = "NS", env = "PODLOOM_POD_NAMESPACE", value_parser = namespace)]
    pub(crate) pod_namespace: Option<String>,

    /// The UID of the operator's pod. With it, kubectl describe shows the Events about the plugin chain.
    #[arg(long, value_name = "UID", env = "PODLOOM_POD_UID")]
    pub(crate) pod_uid: Option<String>,
}

/// The timeouts in the life of a Browser.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Timeouts of Browsers")]
pub(crate) struct LifeArguments {
    /// How long a Browser may wait for its pod to be created, and then again how long the pod may take to start. If one of them
    /// takes longer, the Browser fails, so it fails after at most twice this time. (The older operator, which Podloom replaces,
    /// has one timeout for both, from the Browser's creation.)
    #[arg(long, value_name = "TIME", env = "PODLOOM_POD_CREATION_TIMEOUT", default_value = "5m", value_parser = duration::parse_positive)]
    pub(crate) pod_creation_timeout: Duration,

    /// How long to wait for a pod to terminate. After that, the pod is deleted without its grace period, and a Browser that is
    /// being deleted is removed even if its pod remains.
    #[arg(long, value_name = "TIME", env = "PODLOOM_POD_DELETION_TIMEOUT", default_value = "5m", value_parser = duration::parse_positive)]
    pub(crate) pod_deletion_timeout: Duration,

    /// How long a failed Browser is kept before it is deleted.
    #[arg(long, value_name = "TIME", env = "PODLOOM_FAILED_RETENTION", default_value = "0s", value_parser = duration::parse)]
    pub(crate) failed_retention: Duration,

    /// How long a Browser may wait for its BrowserConfig, counted from when this operator first sees the Browser. After that the
    /// Browser fails.
    #[arg(long, value_name = "TIME", env = "PODLOOM_CONFIG_GRACE", default_value = "5s", value_parser = duration::parse)]
    pub(crate) config_grace: Duration,

    /// How long a container may wait for a Secret or ConfigMap that does not exist, counted from when this operator first sees
    /// the container wait. After that the Browser fails. (With 0s it fails at once, as with the older operator.)
    #[arg(long, value_name = "TIME", env = "PODLOOM_CONTAINER_CONFIG_GRACE", default_value = "10s", value_parser = duration::parse)]
    pub(crate) container_config_grace: Duration,
}

const EXAMPLES: &str = "\
Examples:
  # Run from a checkout, against the cluster of the current context
  podloom crds | kubectl apply -f -
  podloom run --plugins target/plugins --http 127.0.0.1:8080

  # Watch only two namespaces, and keep failed Browsers for an hour
  podloom run --plugins /plugins -n team-a -n team-b --failed-retention 1h

  # Expose Services through relays, and nothing else
  podloom run --controllers portal --plugins /plugins

  # Serve the admission webhooks alone, with certificates of the operator's own making
  podloom run --controllers none --webhook 0.0.0.0:8443 --plugins /plugins

  # Try another chain on the same pods before it serves, and show what would become different
  podloom run --plugins /plugins --candidate /candidate
  curl localhost:8080/plugins/candidate

  # Show what the operator waits for and which plugins are active, then log more
  curl localhost:8080/readyz
  curl localhost:8080/plugins
  curl -X PUT --data info,podloom=debug localhost:8080/log";

impl RunArguments {
    /// The duties that are switched on, in the order of their table.
    pub(crate) fn duties(&self) -> Vec<Duty> {
        let mut duties = self.controllers.iter().copied().collect::<Vec<_>>();
        duties.extend(self.webhook.address.map(|_| Duty::Webhook));
        duties
    }

    /// Who must have signed the chain; nothing if nobody must.
    pub(crate) fn signers(&self) -> Option<Signers> {
        let keys = &self.require_signature;
        (!keys.is_empty()).then(|| keys.iter().cloned().collect())
    }

    /// Whether any duty passes pods through the chain.
    pub(crate) fn needs_chain(&self) -> bool {
        let duties = self.duties();
        duties.iter().any(|duty| duty.row().chain == Chain::Needed)
    }

    /// What plugins are told of namespaces that may not be read.
    pub(crate) fn unread_namespaces(&self) -> UnreadNamespaces {
        match self.allow_unread_namespaces {
            true => UnreadNamespaces::Allowed,
            false => UnreadNamespaces::Refused,
        }
    }

    /// The namespaces to watch, each once; none means all.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        let all: BTreeSet<&String> = self.namespaces.iter().collect();
        all.into_iter().cloned().collect()
    }
}

/// Parses the duration of a Lease: whole seconds, and at least three, so that a third of it is one.
fn lease_duration(text: &str) -> Result<Duration, String> {
    let duration = duration::parse(text)?;
    if duration.subsec_millis() != 0 {
        return Err("it must be whole seconds, for example 15s".to_owned());
    }
    if duration < Duration::from_secs(3) {
        return Err("it must be at least 3s".to_owned());
    }
    Ok(duration)
}
