//! The arguments of the commands about chains, and which pods they read.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use podloom_syntax::names;

use super::{Against, ReportFile, namespace};
use crate::manifest::NamedTemplate;

/// Show what becomes different if the chain NEW replaces the chain OLD. Nothing is changed.
///
/// Both chains run on each pod, with what the webhook would tell plugins about it, and their results are compared with each other,
/// never with what runs now. The stamps of the chains are no difference. Pods with the same difference are one group: how many pods
/// in how many namespaces, the names of some, and each change with the plugin that made it. The worst groups come first: pods that
/// are denied now, pods on which a plugin fails now, pods that are allowed now, and pods that are changed. A * in a path stands for
/// each of the pod's own containers. That nothing changes is said too.
///
/// The pods come from files, which are read as podloom render reads them, or from the cluster of the kubeconfig, with your own
/// rights: the templates of Deployments, StatefulSets, DaemonSets, CronJobs, Jobs, ReplicaSets and ReplicationControllers, pods that
/// nobody owns, and the pods that the operator renders for Browsers. What is made of another of these is left out. Kinds that you may
/// not list are named as skipped, and pods of other owners are counted.
/// A pod that nobody owns is taken as it is in the cluster, so it already has what a chain wrote when it was created.
///
/// Values are not shown, since they may be secret, but plugins' reasons for rejecting a pod are.
///
/// With --exit-code, the exit code is 4 if there is a difference, and 0 if not.
#[derive(Args, Debug)]
#[command(after_long_help = DIFF_EXAMPLES)]
pub(crate) struct DiffArguments {
    /// The directory of the chain that serves now, or none for no chain.
    #[arg(value_name = "OLD")]
    pub(crate) old: PathBuf,

    /// The directory of the chain that shall replace it, or none for no chain.
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,

    #[command(flatten)]
    pub(crate) pods: PodArguments,

    /// Show the old and the new value of each change. Changes to other values are other groups then.
    #[arg(long)]
    pub(crate) show_values: bool,

    /// How many pods of each group are named.
    #[arg(long, value_name = "N", default_value = "3")]
    pub(crate) names: usize,

    /// Exit with code 4 if there is a difference.
    #[arg(long)]
    pub(crate) exit_code: bool,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: DiffFormat,
}

/// The format of the differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormat {
    /// Lines for people.
    Text,
    /// One object.
    Json,
    /// For a comment on a pull request.
    Markdown,
    /// For code scanning: a result for each group, without values. The lines for people are on standard error.
    Sarif,
    /// For lists of tests: a test for each group, without values, which fails if pods are denied or a plugin fails on them, and with
    /// --exit-code in any case. The lines for people are on standard error.
    Junit,
}

impl DiffFormat {
    pub(crate) const fn report(self) -> Option<ReportFile> {
        match self {
            Self::Text | Self::Json | Self::Markdown => None,
            Self::Sarif => Some(ReportFile::Sarif),
            Self::Junit => Some(ReportFile::Junit),
        }
    }
}

const DIFF_EXAMPLES: &str = "\
Examples:
  # What would the edited chain change in these manifests?
  podloom chain diff target/plugins my-chain -f deploy/examples

  # And in everything that runs in namespaces which the webhook selects?
  podloom chain diff target/plugins my-chain --against cluster -A \\
    --namespace-selector podloom.dev/mutate=enabled

  # What does a first chain change?
  podloom chain diff none my-chain --against cluster -n shop

  # In CI: comment on a pull request, and fail if anything changes
  podloom chain diff main/chain chain --corpus corpus -o markdown --exit-code >comment.md";

/// Find the smallest `allow` and `read` with which every pod comes out of a chain the same. With --write, change chain.yaml.
///
/// The chain runs on each pod, and what each plugin reads and writes is recorded. What it never used is dropped, and what it used of a
/// wide grant stands in its place: the labels that it wrote instead of all labels, the one container instead of all, as long as
/// they are no more than five. The result is tried again on all pods: each must come out byte for byte the same, or be
/// rejected for the same reason, with the same notes. A grant is kept if one pod comes out differently without it, or if the plugin
/// declares that it needs it with its configuration.
///
/// For each grant, the report says how often it was used and what becomes of it. What was granted and never used is listed, and
/// so is what plugins declare and never used.
///
/// It can only know what these pods show: take many pods, of all kinds that the chain serves. They are read once and kept in memory.
///
/// Without --write, chain.yaml stays as it is, and the change is shown as a diff. With it, only the two lists are changed: comments,
/// order and style stay. Check the result with podloom chain check and podloom chain diff before it serves. The exit code is 0 whether
/// or not there is something to tighten.
#[derive(Args, Debug)]
#[command(after_long_help = TIGHTEN_EXAMPLES)]
pub(crate) struct TightenArguments {
    /// The directory with chain.yaml and the plugin files.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    #[command(flatten)]
    pub(crate) pods: PodArguments,

    /// Change chain.yaml.
    #[arg(long)]
    pub(crate) write: bool,
}

const TIGHTEN_EXAMPLES: &str = "\
Examples:
  # What is granted and never used by the pods of a corpus?
  podloom chain tighten my-chain --corpus corpus

  # The same for what runs in the cluster, and write it
  podloom chain tighten my-chain --against cluster -A --write";

/// Print the rules of the plugin labels as policies that Kubernetes evaluates itself. Nothing is changed.
///
/// For each plugin of the chain that is the standard plugin labels, a MutatingAdmissionPolicy and its binding are printed, for
/// Kubernetes 1.36 or newer. They are for the pods that reach the webhook, and need no webhook. What a policy cannot say exactly is an
/// error that names the rule, and then nothing is printed.
///
/// Before that, the plugin and the policy are tried on pods, and must make the same of each, stamps aside: on the pods of --corpus, or
/// else on sample pods. The first difference is an error.
#[derive(Args, Debug)]
#[command(after_long_help = EXPORT_EXAMPLES, group = ArgGroup::new("form").required(true).args(["map"]))]
pub(crate) struct ExportArguments {
    /// The directory with chain.yaml and the plugin files.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Print MutatingAdmissionPolicies. There is no other form yet.
    #[arg(long)]
    pub(crate) map: bool,

    /// No selector of a workload names this label, so a rule may overwrite or remove it; repeat it for several labels.
    #[arg(long, value_name = "KEY")]
    pub(crate) unselected: Vec<String>,

    /// Compare on the pods of a directory that podloom corpus record wrote, or of any other with manifests.
    #[arg(long, value_name = "DIR")]
    pub(crate) corpus: Option<PathBuf>,

    /// The namespace of pods without metadata.namespace.
    #[arg(short, long, default_value = "default", value_parser = namespace)]
    pub(crate) namespace: String,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  podloom chain export my-chain --map --corpus corpus > policies.yaml
  podloom chain export my-chain --map --unselected debug | kubectl apply -f -";

/// Pack a plugin directory into a ConfigMap for kubectl apply, or into an image for a registry.
///
/// The chain is checked first, as with `podloom chain check`, so an operator will accept the result.
/// The bundle contains chain.yaml and the files that it names, and no other files of the directory.
///
/// Plugins are compressed if that makes them smaller. For a compressed plugin, the chain.yaml in the bundle
/// names a file that ends in .wasm.gz, and a `sha256` is replaced by the digest of that file. Everything else stays as
/// written, comments too.
///
/// With --oci, an ordinary image with one layer is written, as an OCI image layout in a tar file. Kubernetes mounts it as an image
/// volume. This command uploads nothing: skopeo, oras and crane do.
///
/// Sizes are printed on standard error, with a note if `kubectl apply` needs --server-side.
/// A ConfigMap holds 1 MiB. A larger bundle is an error, unless --split allows several ConfigMaps.
/// The same directory always gives the same output.
#[derive(Args, Debug)]
#[command(after_long_help = BUNDLE_EXAMPLES)]
pub(crate) struct BundleArguments {
    /// The directory with chain.yaml and the plugin files.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The file to write; - is standard output, which cannot be an image.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,

    /// Write an image of this name, with registry and tag, instead of a ConfigMap; repeat it for several names.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["name", "namespace", "split"])]
    pub(crate) oci: Vec<String>,

    /// The name of the ConfigMap.
    #[arg(long, default_value = "podloom-plugins", value_parser = config_map_name)]
    pub(crate) name: String,

    /// The namespace of the ConfigMap; use the operator's own.
    #[arg(short, long, value_name = "NS", default_value = "podloom-system", value_parser = namespace)]
    pub(crate) namespace: String,

    /// Write several ConfigMaps if one is too small: NAME, NAME-2, NAME-3, ... Mount them as one projected volume.
    #[arg(long)]
    pub(crate) split: bool,
}

const BUNDLE_EXAMPLES: &str = "\
Examples:
  # Update the ConfigMap that the operator mounts; the operator loads the new chain within two minutes
  podloom bundle my-chain | kubectl apply --server-side -f -

  # Write a file, for a repository of manifests
  podloom bundle my-chain -o podloom-plugins.yaml

  # A bundle of more than 1 MiB
  podloom bundle my-chain --split | kubectl apply --server-side -f -

  # An image for an image volume
  podloom bundle my-chain --oci registry.example.com/podloom-plugins:42 -o podloom-plugins.tar
  skopeo copy oci-archive:podloom-plugins.tar docker://registry.example.com/podloom-plugins:42";

/// Leaves room for the number that --split appends.
const LONGEST_NAME: usize = 253 - "-999".len();

/// The name of a ConfigMap: parts separated by dots, each like a DNS label but of any length.
fn config_map_name(text: &str) -> Result<String, &'static str> {
    if text.len() <= LONGEST_NAME && names::dns_subdomain(text).is_ok() {
        return Ok(text.to_owned());
    }
    Err(
        "use at most 249 lower-case letters, digits, dashes and dots, and start and end each part between dots with a letter or digit",
    )
}

/// Pods of files, or of a cluster.
#[derive(Args, Clone, Debug, Default)]
#[command(group = ArgGroup::new("pods").required(true).multiple(true).args(["files", "kustomizations", "corpus", "against"]))]
pub(crate) struct PodArguments {
    /// Files or directories with YAML or JSON; - reads standard input.
    #[arg(short, long = "filename", value_name = "FILE", num_args = 1..)]
    pub(crate) files: Vec<String>,

    /// Directories with a kustomization.yaml. They are built with kubectl kustomize, or kustomize build if there is no kubectl.
    #[arg(short = 'k', long = "kustomize", value_name = "DIR", num_args = 1..)]
    pub(crate) kustomizations: Vec<String>,

    /// A directory with recorded manifests: the same as -f DIR -R.
    #[arg(long, value_name = "DIR")]
    pub(crate) corpus: Option<String>,

    /// Read the pods from there instead of files.
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["files", "kustomizations", "corpus"])]
    pub(crate) against: Option<Against>,

    /// Read subdirectories too.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// Of files: the namespace of objects without metadata.namespace, by default "default". Of a cluster: the namespace to read, by
    /// default that of the kubeconfig's context.
    #[arg(short, long, value_parser = namespace)]
    pub(crate) namespace: Option<String>,

    /// Read all namespaces of the cluster.
    #[arg(short = 'A', long, requires = "against", conflicts_with_all = ["namespace", "files", "kustomizations", "corpus"])]
    pub(crate) all_namespaces: bool,

    /// Read only namespaces with these labels, as the webhook's configuration selects them.
    #[arg(long, value_name = "LABELS", requires = "all_namespaces", conflicts_with_all = ["files", "kustomizations", "corpus"])]
    pub(crate) namespace_selector: Option<String>,

    /// Read only objects of the cluster with these labels.
    #[arg(short = 'l', long, value_name = "LABELS", requires = "against", conflicts_with_all = ["files", "kustomizations", "corpus"])]
    pub(crate) selector: Option<String>,

    /// Where objects of an unknown kind have a pod template, as GROUP/KIND=/path. In the path, * is every element of a list. Repeat
    /// the option for several templates.
    #[arg(long = "pod-template", value_name = "TEMPLATE", value_parser = NamedTemplate::parse, conflicts_with = "against")]
    pub(crate) pod_templates: Vec<NamedTemplate>,

    /// The context of the kubeconfig whose cluster is read. Only some commands have an option for it.
    #[arg(skip)]
    pub(crate) context: Option<String>,
}
