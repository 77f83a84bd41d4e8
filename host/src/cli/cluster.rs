//! The arguments of `podloom blame`, `podloom drift` and `podloom corpus`, which read a cluster.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use podloom_controllers::duties::WEBHOOK_NAME;

use super::{Against, ReportFormat, duration, namespace, object_name, text_or_json};

/// Show who wrote each line of a pod, as git blame does for a file.
///
/// The pod is printed as YAML. Before each line stands who wrote it: a plugin of the chain that the pod passed, with its version; a
/// field manager that changed it later, such as kubectl-label or kubelet; or "submitted". That one word stands for who made the pod
/// and for the API server, which sets defaults and more (such as nodeName when the pod is scheduled), because nothing says which of
/// them wrote a line. A line that only begins an object or a list belongs to who wrote all that is in it; if several did, nobody is
/// named there.
///
/// What plugins wrote is in the pod's stamp, and what managers wrote in its managedFields. Both are records, and not proofs: everyone
/// who may write the pod may write them. They are not printed themselves. Values are shown as kubectl shows them.
///
/// With --plugins, lines are proved: the chain runs again on the template of which the pod was made, and once more without each
/// plugin. If a plugin's line is neither gone nor different without the plugin, it is marked "not proved". A line that is gone or
/// different without another plugin is marked "depends on" that plugin. The directory must have the very chain that the pod passed,
/// and the template must be known: that of the ReplicaSet, StatefulSet, DaemonSet, Job or ReplicationController that owns the pod, or
/// the one of --template. Otherwise the pod is shown without proof, and the reason is shown too.
#[derive(Args, Debug)]
#[command(after_long_help = BLAME_EXAMPLES)]
#[command(group = ArgGroup::new("what").required(true).args(["pod", "file"]))]
pub(crate) struct BlameArguments {
    /// The pod in the cluster of the kubeconfig, as pod/NAME or NAME. It is read with your own rights.
    #[arg(value_name = "POD", value_parser = pod_name)]
    pub(crate) pod: Option<String>,

    /// A file with the pod, as kubectl get pod NAME -o yaml --show-managed-fields prints it; - reads standard input.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(crate) file: Option<String>,

    /// The pod's namespace: in the cluster, by default that of the kubeconfig's context; in a file without one, by default "default".
    #[arg(short, long, value_parser = namespace)]
    pub(crate) namespace: Option<String>,

    /// The directory of the chain that the pod passed, to prove which lines are whose.
    #[arg(long, value_name = "DIR")]
    pub(crate) plugins: Option<PathBuf>,

    /// A file with what the pod was made of: a Deployment or another object with a pod template, or the pod as it was submitted.
    #[arg(long, value_name = "FILE", requires = "plugins")]
    pub(crate) template: Option<String>,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = text_or_json("YAML, with who wrote it before each line", "One object, which has each path with who wrote it, and no values"))]
    pub(crate) output: ReportFormat,
}

/// A pod's name, with or without its kind.
fn pod_name(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        Some(("pod" | "pods" | "po", name)) => name,
        Some((kind, _)) => {
            return Err(format!(
                "{kind} is not a pod; only pods can be shown: write pod/NAME or NAME"
            ));
        }
        None => text,
    };
    object_name(name).map_err(str::to_owned)
}

const BLAME_EXAMPLES: &str = "\
Examples:
  # Who wrote what in this pod?
  podloom blame pod/web-5d9f8c7b6-x2k4v -n shop

  # Prove it with the chain that it passed
  podloom blame pod/web-5d9f8c7b6-x2k4v -n shop --plugins my-chain

  # A pod from a file, and what it was made of
  kubectl get pod debug -o yaml --show-managed-fields >pod.yaml
  podloom blame -f pod.yaml --plugins my-chain --template debug.yaml

  # Which paths did the plugin sidecar write?
  podloom blame pod/debug -o json | jq '.paths | map_values(select(.plugin == \"sidecar\")) | keys'";

/// Show which pods of a cluster missed the chain, were changed after it, or have ephemeral containers that it would deny or change.
/// Nothing is changed, unless --repair is given.
///
/// A pod has missed the chain if it has no stamp, although the webhook configuration is older than the pod and selects it now, and a
/// plugin of the chain matches it now: it was created before its namespace got the label, for example, or while the webhook did not
/// answer and failurePolicy was Ignore. Which plugins match is known with --plugins; without it, every pod that the webhook selects
/// counts as matched.
///
/// A pod was changed after the chain if its managedFields say that somebody other than the one who created it wrote a path that the
/// chain had written. What somebody removed does not show there. The pods of Podloom's own Deployments have no stamp of their own if
/// only the Deployment passed the chain; then the Deployment's stamp counts.
///
/// Ephemeral containers, which kubectl debug adds later, have no stamp. With --plugins, a pod is listed too if a plugin with UPDATE in
/// match.operations would now deny or change its ephemeral containers.
///
/// All are listed by namespace and owner, with what to do: new pods pass the chain. Pods of other chains are counted by chain, which
/// is no error: they get the present chain when they are replaced. Pods that have ended or are being deleted do not count, nor do
/// mirror pods.
///
/// The cluster is that of the kubeconfig, read with your own rights. What you may not list, other than pods, is named as skipped, and
/// pods of which something is not known for that reason are counted as unclear. So are pods that are larger than 512 KiB, which are not
/// read.
///
/// With --exit-code, the exit code is 4 if a pod drifted, and 0 if not. If the webhook configuration is not
/// there, or you may not read it, nothing is known of pods that missed the chain; then it is 3 instead of 0.
#[derive(Args, Debug)]
#[command(after_long_help = DRIFT_EXAMPLES)]
pub(crate) struct DriftArguments {
    /// The namespace, by default that of the kubeconfig's context.
    #[arg(short, long, value_parser = namespace)]
    pub(crate) namespace: Option<String>,

    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,

    /// Only pods with these labels.
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,

    /// The directory of the chain that serves now.
    #[arg(long, value_name = "DIR")]
    pub(crate) plugins: Option<PathBuf>,

    /// The name of the MutatingWebhookConfiguration: what --webhook-name of podloom run says.
    #[arg(long, value_name = "NAME", default_value = WEBHOOK_NAME, value_parser = object_name)]
    pub(crate) webhook_configuration: String,

    /// Exit with code 4 if a pod drifted, and with 3 if nothing is known of pods that missed the chain.
    #[arg(long)]
    pub(crate) exit_code: bool,

    /// The format of the report.
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = text_or_json("Lines for people", "One object"))]
    pub(crate) output: ReportFormat,

    #[command(flatten)]
    pub(crate) repair: RepairArguments,
}

/// How podloom drift has pods replaced.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Repair")]
pub(crate) struct RepairArguments {
    /// Evict the pods that missed the chain, so that their controllers replace them: one of each owner at a time, and the next one when
    /// the new one is ready. PodDisruptionBudgets hold. It asks first. Pods without a controller are left alone, and so is what has the
    /// annotation podloom.dev/heal: "false", on the namespace or on the controller.
    #[arg(long = "repair", conflicts_with_all = ["output", "exit_code"])]
    pub(crate) is_on: bool,

    /// Do not ask.
    #[arg(long, requires = "is_on")]
    pub(crate) yes: bool,

    /// Only say what would be evicted.
    #[arg(long, requires = "is_on", conflicts_with = "yes")]
    pub(crate) dry_run: bool,

    /// Evict pods of other chains than that of --plugins, too.
    #[arg(long, requires = "is_on", requires = "plugins")]
    pub(crate) older: bool,

    /// Evict pods that passed the chain with this digest, too; repeat the option for several.
    #[arg(long = "banned-chain", value_name = "DIGEST", requires = "is_on", value_delimiter = ',', value_parser = chain_digest)]
    pub(crate) banned: Vec<String>,

    /// How many owners are worked on at once.
    #[arg(long, value_name = "NUMBER", requires = "is_on", default_value = "3", value_parser = owners())]
    pub(crate) owners: u32,

    /// How long a new pod may take to become ready. Its owner gets no further one after that, and no other owner of its namespace is
    /// begun.
    #[arg(long, value_name = "TIME", requires = "is_on", default_value = "5m", value_parser = duration::parse)]
    pub(crate) ready_within: Duration,
}

/// Parses how many owners are worked on at once.
pub(super) fn owners() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=50)
}

/// Parses the digest of a chain, as stamps have it.
pub(super) fn chain_digest(text: &str) -> Result<String, String> {
    let is_digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_digest {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("write the 64 hexadecimal digits of the annotation podloom.dev/chain, as podloom drift lists them".to_owned()),
    }
}

const DRIFT_EXAMPLES: &str = "\
Examples:
  # Did anything in this namespace miss the chain?
  podloom drift -n shop

  # In the whole cluster, with the chain that serves now
  podloom drift -A --plugins target/plugins

  # For a CronJob that looks every night
  podloom drift -A -o json --exit-code

  # Have the pods replaced that missed the chain, two Deployments at a time
  podloom drift -n shop --repair --owners 2";

#[derive(Debug, Subcommand)]
pub(crate) enum CorpusCommand {
    Record(RecordArguments),
}

/// Record the pods of a cluster as files, on which chains and plugins are tried later. The cluster is not changed.
///
/// It reads what podloom chain diff --against cluster reads, with your own rights: the templates of Deployments, StatefulSets,
/// DaemonSets, CronJobs, Jobs, ReplicaSets and ReplicationControllers, pods that nobody owns, and Browsers with their
/// BrowserConfigs. What is made of another of these is left out. Each object is one file: NAMESPACE/KIND.NAME.yaml with the kind in
/// lower case, and NAMESPACE/KIND.GROUP.NAME.yaml for Browsers and BrowserConfigs. The labels and annotations of its namespace are in a
/// file beside it.
///
/// The files are made to be committed. Secrets are never read, and the annotation in which kubectl apply keeps whole objects is left
/// out. Values of environment variables, arguments, commands after the program, HTTP headers, queries of HTTP probes, and what only
/// a volume's driver understands become placeholders such as value-3: the same value of an object gets the same placeholder. Labels,
/// other annotations, names, images and the names of ConfigMaps and Secrets stay as they are, so look at the files before you
/// commit them.
///
/// Recording again into the directory updates the files, and removes those of objects that are gone, unless something could not be
/// read. Files of other origin are left alone. If what you record is less than before, such as another namespace, the rest counts
/// as gone: use a directory for each.
#[derive(Args, Debug)]
#[command(after_long_help = CORPUS_EXAMPLES)]
pub(crate) struct RecordArguments {
    /// The directory; it is created if it is not there.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Where the pods are read.
    // One value today. It is parsed, so that another one is an error.
    #[arg(long, value_name = "WHAT", default_value = "cluster")]
    pub(crate) from: Against,

    /// The namespace to read, by default that of the kubeconfig's context.
    #[arg(short, long, value_parser = namespace)]
    pub(crate) namespace: Option<String>,

    /// Read all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,

    /// Read only namespaces with these labels, as the webhook's configuration selects them.
    #[arg(long, value_name = "LABELS", requires = "all_namespaces")]
    pub(crate) namespace_selector: Option<String>,

    /// Read only objects with these labels.
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,

    /// Keep the values that would become placeholders. They may be secret.
    #[arg(long)]
    pub(crate) keep_values: bool,
}

const CORPUS_EXAMPLES: &str = "\
Examples:
  # Record what runs in the namespaces that the webhook selects
  podloom corpus record corpus -A --namespace-selector podloom.dev/mutate=enabled

  # What would the edited chain change in it?
  podloom chain diff target/plugins my-chain --corpus corpus

  # Does a plugin hold on it?
  podloom plugin test --corpus corpus";
